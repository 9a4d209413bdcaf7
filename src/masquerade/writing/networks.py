"""The networks that writers are trained from: checkpoints, fresh weights of a family, and fresh recurrent decoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade.checkpoints.folders import load
from masquerade.data.checks import check_types
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.nn.spec import RECURRENT, Spec
from masquerade.objectives.networks import OWN, fresh_spec, savable
from masquerade.text.tokenizer import Tokenizer

DECODERS = ("t5", "bart", "pegasus", "mass", "palm")  # families of encoder–decoders that fresh weights can have
CELLS = ("lstm", "gru")  # recurrent encoder–decoders
FRESH = ("bert", "gpt2", "glm", *DECODERS, *CELLS)
RECURRENT_STD = 0.1  # of fresh recurrent pairs: with a Transformer's 0.02 their states are too small to learn from


@dataclass(frozen=True)
class NetworkChoice:
    """The network that a recipe asks for; the fields are those of the recipe."""

    start: str = ""
    family: str = ""
    tokenizer: str = ""
    model: Mapping[str, Any] | None = None
    decoder: str = ""
    decoder_layers: int = 1
    source_scores: str = "dot"
    target_length: int = 32
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if bool(self.start) == bool(self.family):
            raise MasqueradeError("Give the recipe a checkpoint to start from, or a 'family' for fresh weights.")
        if self.family and self.family not in FRESH:
            raise MasqueradeError(
                f"There are no fresh weights of the family '{self.family}'; choose from {', '.join(FRESH)}."
            )
        if self.family and not self.tokenizer:
            raise MasqueradeError("Fresh weights need a tokenizer: name the folder of one, or make one with 'vocab'.")
        if self.decoder and self.decoder not in RECURRENT:
            raise MasqueradeError(f"There is no decoder '{self.decoder}'; choose from {', '.join(RECURRENT)}.")
        if self.decoder and self.family and self.family != "bert":
            raise MasqueradeError(
                f"A recurrent decoder goes behind an encoder, not behind fresh weights of '{self.family}'; use 'bert'."
            )

    def make(self) -> Model:
        """The network with a language head."""
        model = self._fresh() if self.family else self._loaded()
        return self._with_decoder(model) if self.decoder else model

    def _loaded(self) -> Model:
        """The checkpoint to start from, with this dropout and a language head."""
        start = load(self.start)
        if start.spec.fork is not None:
            raise MasqueradeError(f"{self.start} is a reader, which cannot be trained to write; use its encoder.")
        decoder = start.spec.decoder
        if decoder is not None:
            decoder = replace(decoder, dropout=self.dropout, attention_dropout=0.0)
        spec = replace(start.spec, dropout=self.dropout, attention_dropout=0.0, decoder=decoder)
        model = Model(spec, start.tokenizer, start.config)
        model.load_state_dict(start.state_dict())
        model = model.with_heads(("lm",))
        model.spec = savable(model.spec)
        return model

    def _fresh(self) -> Model:
        """Random weights of a family."""
        tokenizer = Tokenizer.load(Path(self.tokenizer).expanduser())
        if tokenizer is None:
            raise MasqueradeError(f"'{self.tokenizer}' holds no tokenizer; name the folder of one.")
        given = {"dropout": self.dropout, "attention_dropout": 0.0, **(self.model or {})}
        check_types(given, Spec, "The recipe's model field")
        needed = {"vocab": len(tokenizer), "pad": tokenizer.special("pad"), "outputs": ("lm",)}
        if self.family in CELLS:
            return Model(self._recurrent({**needed, **given}), tokenizer)
        needed |= {"mask": "causal"} if self.family == "gpt2" else {}
        return Model(fresh_spec(self.family, needed, given, self.family in DECODERS), tokenizer)

    def _recurrent(self, fields: Mapping[str, Any]) -> Spec:
        """A recurrent encoder–decoder: the encoder reads both ways, the decoder attends to it."""
        plain: dict[str, Any] = {
            "family": OWN, "positions": (), "segments": 0, "lm_dense": False, "recurrent": self.family,
            "init_std": RECURRENT_STD,
        }  # fmt: skip
        plain |= fields
        decoder = Spec.of(plain | {"cross": True, "outputs": (), "source_scores": self.source_scores})
        return Spec.of(plain | {"decoder": decoder})

    def _with_decoder(self, model: Model) -> Model:
        """The encoder of a model, with a fresh recurrent decoder behind it."""
        spec = model.spec
        if spec.decoder is not None or spec.mask == "causal":
            raise MasqueradeError(f"A '{self.decoder}' decoder goes behind an encoder such as BERT; start from one.")
        steps = {"positions": ("learned",), "longest": self.target_length} if self.decoder == "mixture" else {}
        fields = {
            "family": OWN, "vocab": spec.vocab, "pad": spec.pad, "width": spec.width, "embedding": spec.embedding,
            "layers": self.decoder_layers, "positions": (), "segments": 0, "dropout": self.dropout, "cross": True,
            "recurrent": self.decoder, "source_scores": self.source_scores, "init_std": spec.init_std,
        }  # fmt: skip
        joined = replace(spec, family=OWN, decoder=Spec.of(fields | steps), outputs=("lm",), spare=(), pooler=False)
        other, theirs = Model(joined, model.tokenizer, model.config), model.state_dict()
        mine = other.state_dict()
        other.load_state_dict({name: theirs.get(name, fresh) for name, fresh in mine.items()})
        return other
