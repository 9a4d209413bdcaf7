"""UniLM: BERT trained under the bidirectional, both one-directional and the seq2seq mask. Its first version
is a BERT with six segments and loads as one; the second has buckets of distance, and stores queries, keys and values
together, without a bias for keys."""

from __future__ import annotations

from typing import Any

import torch

from masquerade.families.base import KEYS, Config, Family, Weights, apart, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, architectures, same_activation


def _split(weights: Weights) -> Weights:
    result: Weights = {}
    for name, tensor in apart(weights, "self.qkv_linear", ("self.query", "self.key", "self.value")).items():
        if name.endswith(".q_bias"):
            result[name.replace("q_bias", "query.bias")] = tensor.flatten()
            result[name.replace("q_bias", "key.bias")] = torch.zeros_like(tensor).flatten()
        elif name.endswith(".v_bias"):
            result[name.replace("v_bias", "value.bias")] = tensor.flatten()
        else:
            result[name] = tensor.T if name == "rel_pos_bias.weight" else tensor
    beside: Weights = bias_beside("cls.predictions")["split"](result)
    return beside


def _merge(weights: Weights, spec: Any) -> Weights:
    turned = {name: tensor.T if name.endswith("rel_pos_bias.weight") else tensor for name, tensor in weights.items()}
    beside: Weights = bias_beside("cls.predictions")["merge"](turned, spec)
    return beside


def _read(config: Config) -> dict[str, Any]:
    near = ("learned", "buckets") if config.get("rel_pos_bins") else ("learned",)
    return {"positions": near, **same_activation(config)}


UNILM = Family(
    name="unilm",
    about="one BERT under four masks: both directions, each of them, and source to target",
    prefix="bert.",
    body=BODY | {"stack.buckets.table": "rel_pos_bias"},
    heads=HEADS,
    architectures=architectures("UniLM"),
    keys=KEYS | {"buckets": "rel_pos_bins", "max_distance": "max_rel_pos"},
    defaults={"segments": 6, "max_distance": 128},
    read=_read,
    write=lambda spec: {} if "buckets" in spec.positions else {"rel_pos_bins": 0},
    ignored=IGNORED,
    signs=("qkv_linear", "rel_pos_bias"),
    split=_split,
    merge=_merge,
)
