"""Training a network with a memory of entities and facts, from a pretrained encoder and linked texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example
from masquerade.data.packing import collate, packed
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.training import FineTune
from masquerade.layout import IGNORE
from masquerade.memory.entity.examples import LinkedExamples, batch_inputs
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.linked_records import LinkedRecord, read_linked
from masquerade.memory.entity.networks import attach, parts, with_memory
from masquerade.memory.entity.terms import CandidateTerm, DetectionTerm, ScoresTerm
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss, Term, TermLoss, TokenTerm
from masquerade.training.recipe import FineTuning

KINDS = ("plain", "knowbert", "entities", "facts")


@dataclass(frozen=True, kw_only=True)
class EntityTraining(FineTuning):
    """A run over linked texts with a knowledge base."""

    memory: str = ""  # the folder of the knowledge base
    kind: str = "facts"  # plain (a classifier of entities), knowbert, entities, or facts (which has entities too)
    layer: int = 0  # before which the memory runs; 0: after two thirds of the layers
    top: int = 32  # facts that a blank reads
    masked: float = 0.2  # the share of linked mentions that are masked, in texts without a [MASK]
    forgotten: float = 0.5  # the share of blanks that may not read the fact behind them, to learn to do without
    margin: float = 0.0  # of KnowBERT's margin loss; 0: its softmax loss
    trained: bool = False  # whether entity vectors are trained too
    frozen: bool = False  # train the memory alone, as KnowBERT's linker is trained first

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise MasqueradeError(f"There is no memory of the kind '{self.kind}'; choose from {', '.join(KINDS)}.")
        if not self.memory:
            raise MasqueradeError("The recipe lacks the knowledge base; add memory = '…'.")
        for name in ("masked", "forgotten"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise MasqueradeError(f"The recipe's '{name}' is {getattr(self, name)}, but it has to be from 0 to 1.")


class TrainEntities(FineTune):
    """Texts with linked mentions, and blanks that entities fill."""

    recipe: EntityTraining

    def __init__(self, recipe: EntityTraining) -> None:
        self.recipe = recipe
        self.memory = FactMemory(recipe.memory)
        train = [record for source in recipe.train for record in read_linked(source)]
        self.train = train[: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_linked(source)]
        if not self.train:
            raise MasqueradeError("There is no linked text in the training files, so there is nothing to learn.")

    def begin(self) -> dict[str, Model]:
        model = load(self.recipe.start)
        if parts(model):  # a run that goes on, such as KnowBERT's second stage
            return {"": model}
        if self.recipe.masked and "lm" not in model.spec.all_heads:
            model = model.with_heads(("lm",))
        made = with_memory(model, memory_parts(self.recipe, model, self.memory))
        attach(made, self.memory, start=True)
        return {"": made}

    def read(self, model: Model, folder: Path) -> None:
        attach(model, self.memory)
        recipe = self.recipe
        self.examples, self.held_out = (
            linked_examples(model, self.memory, records, recipe.length, recipe.masked, recipe.seed, forgotten)
            for records, forgotten in ((self.train, recipe.forgotten), (self.test, 0.0))
        )
        if self.recipe.frozen:
            model.requires_grad_(False)
            for part in parts(model):
                part.requires_grad_(True)

    def loss(self, networks: dict[str, Model]) -> Loss:
        return TermLoss(networks[""], self._terms(networks[""]))

    def scores(self, model: Model) -> dict[str, float]:
        return score_examples(model, self.held_out, self.recipe.row, self.recipe.micro)

    def _terms(self, model: Model) -> dict[str, Term]:
        """The terms of the parts that the network has."""
        kinds = {kind for kind, _ in model.spec.between.values()}
        terms: dict[str, Term] = {"answers": ScoresTerm("memory.answers", "memory.answer")}
        if self.recipe.masked and "lm" in model.spec.all_heads:
            terms["tokens"] = TokenTerm()
        if "knowbert" in kinds:
            terms["links"] = CandidateTerm(self.recipe.margin or None)
        if "entities" in kinds:
            terms["links"] = ScoresTerm("memory.entity_scores", "memory.gold")
            terms["mentions"] = DetectionTerm()
        facts = [options for kind, options in model.spec.between.values() if kind == "facts" and options.get("top", 1)]
        if facts:
            terms["facts"] = ScoresTerm("memory.fact_scores", "memory.fact")
        if any(options.get("own") for options in facts):  # of all blanks, also of those that read a fact
            terms["alone"] = ScoresTerm("memory.alone", "memory.answer")
        return terms


def memory_parts(recipe: EntityTraining, model: Model, memory: FactMemory) -> dict[int, tuple[str, dict[str, Any]]]:
    """The parts of a kind of memory, for ``Spec.between``. Every kind answers by the same classifier of entities at
    the end, which reads facts if the kind is 'facts'."""
    last = len(model.spec.order)
    layer, width = recipe.layer or max(1, last * 2 // 3), memory.vectors().shape[1]
    if not 0 < layer < last:
        raise MasqueradeError(f"The recipe's 'layer' is {layer}, but the encoder has {last}; give 1 to {last - 1}.")
    trained = len(memory.vectors()) if recipe.trained else 0
    relation = memory.relation_vectors().shape[1]
    facts = {"top": recipe.top, "own": True} if recipe.kind == "facts" else {"top": 0}
    found: dict[int, tuple[str, dict[str, Any]]] = {last: ("facts", {"width": width, "relation": relation, **facts})}
    if recipe.kind == "knowbert":
        heads = next(heads for heads in (4, 3, 2, 1) if width % heads == 0)
        found[layer] = ("knowbert", {
            "width": width, "heads": heads, "trained": trained, "threshold": 0.0 if recipe.margin else None,
        })  # fmt: skip
    elif recipe.kind in ("entities", "facts"):
        found[layer] = ("entities", {"width": width, "trained": trained})
    return found


def linked_examples(
    model: Model,
    memory: FactMemory,
    records: Sequence[LinkedRecord],
    length: int,
    masked: float = 0.0,
    seed: int = 1,
    forgotten: float = 0.0,
) -> list[Example]:
    """The examples of some records. Which mentions are masked and which facts are forgotten depends on the seed."""
    make = LinkedExamples(model.tokenizer, memory, min(length, model.spec.longest), masked, forgotten)
    return [make(record, rng_for(seed, index)) for index, record in enumerate(records)]


@torch.inference_mode()
def score_examples(model: Model, examples: Sequence[Example], row: int = 128, micro: int = 32) -> dict[str, float]:
    """The share of blanks whose best entity is the right one, and of linked mentions likewise: ``answer_accuracy`` and
    ``link_accuracy``, where there are any."""
    model.eval()
    right, rows = {"answer_accuracy": [0, 0], "link_accuracy": [0, 0]}, packed(examples, row)
    for start in range(0, len(rows), micro):
        batch = collate(rows[start : start + micro], model.spec.pad).to(model.device)
        out = model.flow(batch.layout, inputs=batch_inputs(batch.extra)).outputs
        found = [("answer_accuracy", out["memory.answers"].argmax(-1), batch.extra["memory.answer"])]
        if "memory.entities" in out and out["memory.entities"].shape[1]:
            found.append(("link_accuracy", out["memory.entities"][:, 0], batch.extra["memory.gold"]))
        if "memory.candidate_scores" in out:
            best = out["memory.candidate_scores"].argmax(-1)
            found.append(("link_accuracy", best, batch.extra["memory.gold_candidate"]))
        for name, best, labels in found:
            known = labels != IGNORE
            right[name][0] += int((best[known] == labels[known]).sum())
            right[name][1] += int(known.sum())
    return {name: good / count for name, (good, count) in right.items() if count}
