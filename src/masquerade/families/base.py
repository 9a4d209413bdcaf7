"""What a family is: how its published configuration reads as a Spec, and what it calls its weights.

Both are plain dicts that are read in either direction, so whatever can be loaded can be saved back.
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

KEYS = {  # Spec field → key of config.json, as BERT and its kin write it
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
    """A published model, as far as it differs from others."""

    name: str  # model_type in config.json
    about: str  # one line for people
    prefix: str  # what its weights' names begin with when there is a head, "bert." for one
    body: Mapping[str, str]  # our module → theirs; {i} is a layer, {g} and {j} its group and place in the group
    heads: Mapping[str, Mapping[str, str]]  # for each head, our module → theirs
    architectures: Mapping[str, tuple[str, ...]]  # their class → the heads it answers with
    keys: Mapping[str, str] = field(default_factory=lambda: KEYS)  # Spec field → key of config.json
    defaults: Mapping[str, Any] = field(default_factory=dict)  # Spec fields where a configuration is silent
    fixed: Mapping[str, Any] = field(default_factory=dict)  # Spec fields that are always so in this family
    read: Callable[[Config], dict[str, Any]] = _nothing  # Spec fields that take more than a key
    write: Callable[[Spec], Config] = _nothing  # … and back
    ignored: tuple[str, ...] = ()  # their weights that repeat others or carry nothing
    legacy: tuple[tuple[str, str], ...] = ()  # older names as (pattern, replacement)
    signs: tuple[str, ...] = ()  # parts of weight names or configuration keys that give it away without model_type
    causal: str | None = None  # their class for it as a language model from left to right
    decoder: Callable[[Config], dict[str, Any]] | None = None  # what its decoder has otherwise than its encoder
    untied: str | None = None  # the output table that, if it is there and differs from the words', is used instead
    split: Callable[[Weights], Weights] = _same  # weights they keep together, or otherwise shaped, taken apart
    merge: Callable[[Weights, Spec], Weights] = _merged  # … and back

    def spec(self, config: Config, outputs: tuple[str, ...] = ()) -> Spec:
        """The Spec that a published configuration describes, without heads it does not know of."""
        values = dict(self.defaults)
        values |= {ours: config[theirs] for ours, theirs in self.keys.items() if config.get(theirs) is not None}
        values |= self.fixed
        if config.get("is_decoder"):
            values["mask"] = "causal"
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
            raise CheckpointError(f"config.json does not say '{self.keys[min(missing)]}'; is it the model's own?")
        return Spec(**{"family": self.name, "outputs": outputs, **values})

    def config(self, spec: Spec, old: Config | None = None) -> Config:
        """The published configuration of a spec, on top of what an old one says besides."""
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
        if self.untied is not None:  # the weights say it
            again = _with_tied(again, spec.tied)
        for name in spec.__dataclass_fields__:
            if getattr(again, name) != getattr(spec, name):
                raise SpecError(
                    f"A '{self.name}' configuration cannot say that '{name}' is {getattr(spec, name)!r}; "
                    "give the spec the family 'masquerade' to save it in our own format."
                )
        return config

    def architecture(self, spec: Spec, old: Config) -> str:
        """Their name for a model with this spec's outputs; the one it came with where that still fits."""
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
        raise SpecError(f"The family '{self.name}' has no model that answers with {' and '.join(spec.outputs)}.")

    def names(self, spec: Spec, ours: Iterable[str], prefix: str = "") -> dict[str, str]:
        """Our weight names → theirs. Entries of the tables may name a module or a single weight; ``prefix`` goes
        before those of the body."""
        table = {name: prefix + theirs for name, theirs in self.body.items()}
        for head in spec.all_heads:
            table |= self.heads[head]
        return {name: _translate(name, table, spec.group_size) for name in ours}


def _with_tied(spec: Spec, tied: bool) -> Spec:
    """The spec, and that of its decoder, with the output table tied to the words or not."""
    decoder = None if spec.decoder is None else replace(spec.decoder, tied=tied)
    return replace(spec, tied=tied, decoder=decoder)


def _translate(name: str, table: Mapping[str, str], group_size: int) -> str:
    """One of our weight names in theirs: the longest entry that begins it is exchanged, the rest stays."""
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
    """Weights that lie together under one module's name, each under a name of its own: q, k and v of attention."""
    result: Weights = {}
    for name, tensor in weights.items():
        if f".{whole}." in name:
            for part, piece in zip(parts, tensor.chunk(len(parts), dim), strict=True):
                result[name.replace(f".{whole}.", f".{part}.")] = piece
        else:
            result[name] = tensor
    return result


def together(weights: Weights, whole: str, parts: Sequence[str], dim: int = 0) -> Weights:
    """The reverse of ``apart``."""
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
    """For heads whose bias the reference keeps twice: as the head's own, and as that of its output table, which is the
    one in use where the table is untied from the words."""

    def split(weights: Weights) -> Weights:
        if f"{head}.decoder.bias" in weights:
            weights[f"{head}.bias"] = weights[f"{head}.decoder.bias"]
        return weights

    def merge(weights: Weights, spec: Spec) -> Weights:
        if not spec.tied and f"{head}.bias" in weights:
            weights[f"{head}.decoder.bias"] = weights[f"{head}.bias"]
        return weights

    return {"split": split, "merge": merge}
