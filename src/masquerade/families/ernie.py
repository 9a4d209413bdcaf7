"""ERNIE: BERT trained on whole words and entities; from version 3 on with a task embedding."""

from __future__ import annotations

from masquerade.families.base import Config, Family, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, architectures, same_activation
from masquerade.nn.spec import Spec


def _tasks(config: Config) -> dict[str, int | str]:
    return {
        "tasks": config.get("task_type_vocab_size", 3) if config.get("use_task_id") else 0,
        **same_activation(config),
    }


def _task_keys(spec: Spec) -> Config:
    return {"use_task_id": spec.tasks > 0} | ({"task_type_vocab_size": spec.tasks} if spec.tasks else {})


ERNIE = Family(
    name="ernie",
    about="BERT under whole-word and entity masks, with task types",
    prefix="ernie.",
    body=BODY | {"embeddings.task": "embeddings.task_type_embeddings"},
    heads=HEADS,
    architectures=architectures("Ernie"),
    read=_tasks,
    write=_task_keys,
    ignored=IGNORED,
    **bias_beside("cls.predictions"),
    causal="ErnieForCausalLM",
)
