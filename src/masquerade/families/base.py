"""A family: the mapping between its published configuration and a Spec, and between its weight names and ours.

Both are plain dicts that are used in both directions, so that a loaded model can be saved again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from masquerade.errors import CheckpointError, SpecError
from masquerade.nn.spec import Spec

Config = dict[str, Any]
Weights = dict[str, Tensor]

KEYS = {  # Spec field → key of config.json, in BERT and its relatives
    "vocab": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feedforward": "intermediate_size",
    "activation": "hidden_act",
    "epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "init_std": "initializer_range",
    "longest": "max_position_embeddings",
    "segments": "type_vocab_size",
    "pad": "pad_token_id",
    "tied": "tie_word_embeddings",
}


def _nothing(_: Any) -> dict[str, Any]:
    return {}


def _same(weights: Weights) -> Weights:
    return weights


def _merged(weights: Weights, _: Spec) -> Weights:
    return weights


@dataclass(frozen=True)
class Family:
    """The properties of a published model that differ from those of others."""

    name: str  # model_type in config.json
    about: str  # one line of description
    prefix: str  # the prefix of weight names in models with a head, such as "bert."
    body: Mapping[str, str]  # our module → theirs; {i} is a layer, {g} its group, {j} its index in the group
    heads: Mapping[str, Mapping[str, str]]  # for each head, our module → theirs
    architectures: Mapping[str, tuple[str, ...]]  # their class → the heads whose scores it returns
    keys: Mapping[str, str] = field(default_factory=lambda: KEYS)  # Spec field → key of config.json
    defaults: Mapping[str, Any] = field(default_factory=dict)  # Spec fields for missing keys
    fixed: Mapping[str, Any] = field(default_factory=dict)  # Spec fields that are the same in the whole family
    read: Callable[[Config], dict[str, Any]] = _nothing  # Spec fields computed from several keys
    write: Callable[[Spec], Config] = _nothing  # the inverse
    ignored: tuple[str, ...] = ()  # patterns of redundant weights
    legacy: tuple[tuple[str, str], ...] = ()  # older names as (pattern, replacement)
    signs: tuple[str, ...] = ()  # parts of weight names or keys by which it is recognised without model_type
    causal: str | None = None  # their class of its causal language model
    decoder: Callable[[Config], dict[str, Any]] | None = (
        None  # the Spec fields of its decoder that differ from the encoder's
    )
    copies: tuple[str, ...] = ()  # tables that repeat the token embeddings; a checkpoint where one differs is refused
    split: Callable[[Weights], Weights] = _same  # separates or reshapes their weights
    merge: Callable[[Weights, Spec], Weights] = _merged  # the inverse

    @property
    def output_table(self) -> str | None:
        """Their name of the language head's output table, which is used if it differs from the token embeddings."""
        entry = self.heads.get("lm", {}).get("heads.lm.decoder")
        return None if entry is None else f"{entry}.weight"

    def spec(self, config: Config, outputs: tuple[str, ...] = ()) -> Spec:
        """The Spec of a published configuration, with these output heads."""
        values = dict(self.defaults)
        values |= {ours: config[theirs] for ours, theirs in self.keys.items() if config.get(theirs) is not None}
        if config.get("is_decoder"):  # the reference ignores it in families that have fixed the mask
            values["mask"] = "causal"
        values |= self.fixed
        if config.get("add_cross_attention"):
            raise CheckpointError("This checkpoint has cross-attention inside an encoder, which is not supported.")
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise CheckpointError(f"Positions of type '{config['position_embedding_type']}' are not supported.")
        if config.get("id2label"):
            values["labels"] = tuple(config["id2label"][key] for key in sorted(config["id2label"], key=int))
        elif config.get("num_labels"):
            values["labels"] = tuple(f"LABEL_{index}" for index in range(config["num_labels"]))
        values |= self.read(config)
        if self.decoder is not None:
            second = {"family": self.name, **values, "cross": True, "mask": "causal", **self.decoder(config)}
            values["decoder"] = Spec(**second)
        missing = {"vocab", "width", "layers", "heads"} - values.keys()
        if missing:
            raise CheckpointError(
                f"config.json has no '{self.keys[min(missing)]}'; check that it belongs to the model."
            )
        return Spec(**{"family": self.name, "outputs": outputs, **values})

    def config(self, spec: Spec, old: Config | None = None) -> Config:
        """The published configuration of a spec, with the other keys of an old configuration."""
        config = dict(old or {})
        config |= {theirs: getattr(spec, ours) for ours, theirs in self.keys.items()}
        config |= {"model_type": self.name, "architectures": [self.architecture(spec, config)]}
        if self.causal and (spec.mask == "causal" or "is_decoder" in config):
            config["is_decoder"] = spec.mask == "causal"
        if {"classify", "tag"} & set(spec.all_heads):
            config["id2label"] = {str(index): label for index, label in enumerate(spec.labels)}
            config["label2id"] = {label: index for index, label in enumerate(spec.labels)}
        config |= self.write(spec)
        again = replace(self.spec(config, spec.outputs), spare=spec.spare, pooler=spec.pooler, labels=spec.labels)
        if self.output_table is not None:  # decided by the weights
            again = with_tied(again, spec.tied)
        for name in spec.__dataclass_fields__:
            if getattr(again, name) != getattr(spec, name):
                raise SpecError(
                    f"A '{self.name}' configuration cannot express that '{name}' is {getattr(spec, name)!r}; "
                    "give the spec the family 'masquerade' to save it in our own format."
                )
        return config

    def architecture(self, spec: Spec, old: Config) -> str:
        """Their class name for a model with this spec's outputs; the old one if it still fits."""
        given = (old.get("architectures") or [None])[0]
        if given in self.architectures and self.architectures[given] == spec.outputs:
            return str(given)
        if not self.architectures:
            return "Masquerade"
        if spec.mask == "causal" and spec.outputs == ("lm",) and self.causal:
            return self.causal
        for name, outputs in self.architectures.items():
            if outputs == spec.outputs:
                return name
        raise SpecError(f"The family '{self.name}' has no model with the outputs {' and '.join(spec.outputs)}.")

    def names(self, spec: Spec, ours: Iterable[str], prefix: str = "") -> dict[str, str]:
        """Our weight names → theirs. Entries of the tables name a module or a single weight; ``prefix`` is put before
        those of the body."""
        table = {name: prefix + theirs for name, theirs in self.body.items()}
        for head in spec.all_heads:
            table |= self.heads[head]
        return {name: _translate(name, table, spec.group_size) for name in ours}


def with_tied(spec: Spec, tied: bool) -> Spec:
    """The spec, and that of its decoder, with the output table tied to the token embeddings or not."""
    decoder = None if spec.decoder is None else replace(spec.decoder, tied=tied)
    return replace(spec, tied=tied, decoder=decoder)


def _translate(name: str, table: Mapping[str, str], group_size: int) -> str:
    """Their name of one of our weights: the longest matching entry is replaced, the rest is kept."""
    parts, layer = name.split("."), None
    if "layers" in parts:
        place = parts.index("layers") + 1
        layer, parts[place] = int(parts[place]), "{i}"
    for cut in range(len(parts), 0, -1):
        entry = table.get(".".join(parts[:cut]))
        if entry is not None:
            begin = entry if layer is None else entry.format(i=layer, g=layer // group_size, j=layer % group_size)
            return ".".join([begin, *parts[cut:]])
    raise SpecError(f"This family has no name for the weight '{name}'.")


def apart(weights: Weights, whole: str, parts: Sequence[str], dim: int = 0) -> Weights:
    """The weights, with those stored together under one name (q, k and v of attention) separated."""
    result: Weights = {}
    for name, tensor in weights.items():
        if f".{whole}." in name:
            for part, piece in zip(parts, tensor.chunk(len(parts), dim), strict=True):
                result[name.replace(f".{whole}.", f".{part}.")] = piece
        else:
            result[name] = tensor
    return result


def together(weights: Weights, whole: str, parts: Sequence[str], dim: int = 0) -> Weights:
    """The inverse of ``apart``."""
    result: Weights = {}
    for name, tensor in weights.items():
        part = next((part for part in parts if f".{part}." in name), None)
        if part is None:
            result[name] = tensor
        elif part == parts[0]:
            pieces = [weights[name.replace(f".{part}.", f".{other}.")] for other in parts]
            result[name.replace(f".{part}.", f".{whole}.")] = torch.cat(pieces, dim)
    return result


def bias_beside(head: str) -> dict[str, Any]:
    """``split`` and ``merge`` for heads whose bias the reference stores twice: as the head's own and as that of its
    output table, which is used if the table is not tied."""

    def split(weights: Weights) -> Weights:
        if f"{head}.decoder.bias" in weights:
            weights[f"{head}.bias"] = weights[f"{head}.decoder.bias"]
        return weights

    def merge(weights: Weights, spec: Spec) -> Weights:
        if not spec.tied and f"{head}.bias" in weights:
            weights[f"{head}.decoder.bias"] = weights[f"{head}.bias"]
        return weights

    return {"split": split, "merge": merge}
