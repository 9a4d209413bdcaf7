"""Our own format, for any Spec that no published family describes: the Spec itself, and our own weight names. MASS and
PALM, whose papers define no file format, are saved in it too."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

from masquerade.families.base import Config, Family
from masquerade.nn.spec import HEADS, Spec


def _read(config: Config) -> Config:
    """Configurations saved before ``Spec.between`` say ``fork``: the layer before which a shared passage is copied."""
    fork = None if "between" in config else config.get("fork")
    return {} if fork is None else {"between": {fork: ("fork", {})}}


def _write(spec: Spec) -> Config:
    return {"decoder": None if spec.decoder is None else asdict(spec.decoder)}


OWN = Family(
    name="masquerade",
    about="any spec of your own",
    prefix="",
    body={
        name: name
        for name in (
            "words",
            "embeddings",
            "stack.layers.{i}",
            "stack",
            "decoder.stack.layers.{i}",
            "decoder",
            "pooler",
        )
    },
    heads={name: {f"heads.{name}": f"heads.{name}"} for name in HEADS},
    architectures={},
    keys={field.name: field.name for field in fields(Spec) if field.name != "family"},
    read=_read,
    write=_write,
)

MASS = replace(OWN, name="mass", about="an encoder reads a sentence with a hole, a decoder writes what was in it")
PALM = replace(
    OWN, name="palm", about="an encoder learns from masks first, then with a decoder to write what comes next"
)


def mass(**changes: object) -> Spec:
    """MASS (2019): six layers of 1024 on either side, learned positions, shared embeddings. Decoder tokens
    have the positions that they have in the sentence."""
    return _pair("mass", {"width": 1024, "heads": 8, "feedforward": 4096, "layers": 6} | changes)


def palm(**changes: object) -> Spec:
    """PALM (2020): BERT-base as the encoder, and a decoder of as many layers."""
    return _pair("palm", {"width": 768, "heads": 12, "feedforward": 3072, "layers": 12} | changes)


def _pair(family: str, values: dict[str, object]) -> Spec:
    """An encoder–decoder with two stacks of the same size."""
    both = {"family": family, "segments": 0, "lm_dense": False, "epsilon": 1e-5} | values
    decoder = Spec.of(both | {"cross": True, "mask": "causal", "outputs": ()})
    return Spec.of(both | {"decoder": decoder, "outputs": both.get("outputs", ("lm",))})
