"""A network described: which parts, how many, how wide. Plain data, so that it can be compared, printed and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from masquerade.errors import SpecError
from masquerade.nn.activations import ACTIVATIONS

POSITIONS = ("learned", "inner", "sinusoidal", "halves", "rotary", "buckets", "nezha", "transformer-xl")
NORMS = ("layer", "rms")
MASKS = ("bidirectional", "causal")
RECURRENT = ("lstm", "gru")
HEADS = ("lm", "boundary", "detect", "tag", "span", "copy", "classify", "pair")


@dataclass(frozen=True)
class Spec:
    """What ``build`` assembles. A family fills it in from its published configuration; anyone may write their own."""

    family: str = "masquerade"  # whose configuration and weight names it is saved under
    # how large
    vocab: int = 30522
    width: int = 768
    layers: int = 12
    heads: int = 12
    head_size: int | None = None  # the width of a head; None: what the heads have of the width
    feedforward: int = 3072
    # embeddings
    embedding: int | None = None  # a narrower embedding, projected to the width (ALBERT, ELECTRA)
    project_words: bool = False  # widen the words alone, before positions and segments are added
    embedding_norm: bool | None = None  # normalise the sum; None: unless sublayers do it first
    embedding_scale: bool = False  # multiply words by the root of the width
    segments: int = 2  # token types; 0 for none
    tasks: int = 0  # task types; 0 for none
    pad: int = 0  # the padding token
    query_vector: bool = False  # a QUERY begins as one learned vector instead of its token (XLNet)
    # positions
    positions: tuple[str, ...] = ("learned",)  # any of POSITIONS, together
    longest: int = 512  # how many learned positions there are
    position_offset: int = 0  # the row of the learned table that position 0 has (RoBERTa, BART: 2)
    skip_padding: bool = False  # padded tensors are numbered by their words, not their places (RoBERTa, MPNet)
    max_distance: int = 64  # NEZHA and Transformer-XL: clipped here; buckets: everything farther shares one
    buckets: int = 32
    segment_relation: bool = False  # Transformer-XL's attention also asks: same segment? (XLNet)
    share_biases: bool = False  # … and all its layers have the same two biases
    # layers
    recurrent: str | None = None  # one of RECURRENT in the place of attention; it needs no positions: ()
    activation: str = "gelu"
    gated: bool = False  # a second matrix gates the feed-forward layer (T5 v1.1)
    norm: str = "layer"
    norm_first: bool = False  # normalise before each sublayer instead of after it
    final_norm: bool | None = None  # normalise the last states; None: if sublayers are normalised first
    epsilon: float = 1e-12
    scaled: bool = True  # scores are divided by the root of a head's width
    attention_bias: bool = True
    feedforward_bias: bool = True
    groups: int | None = None  # how many groups of layers have weights of their own; None: every layer has
    group_size: int = 1  # layers in a group
    fork: int | None = (
        None  # readers: a passage is shared by its questions through so many layers, then each has its own
    )
    dropout: float = 0.1
    attention_dropout: float = 0.1
    init_std: float = 0.02
    # what it is for
    mask: str = "bidirectional"  # the mask it was trained under, for those who come with padded tensors
    decoder: Spec | None = None  # a second stack that looks at this one's states
    cross: bool = False  # this is such a second stack
    # heads
    outputs: tuple[str, ...] = ()  # the heads it answers with, any of HEADS
    spare: tuple[str, ...] = ()  # further heads that its checkpoint has
    tied: bool = True  # the language head reads the token embeddings
    lm_dense: bool = True  # … behind a dense layer of its own
    lm_activation: str = "gelu"
    lm_bias: bool = True
    lm_scale: bool = False  # … with states divided by the root of the width (T5)
    cutoffs: tuple[int, ...] = ()  # an adaptive softmax with clusters that end here (Transformer-XL)
    pooler: bool = False  # a dense layer over the first token; always there if a sentence head stands on it
    pooled: bool = True  # the classifier stands on the pooler, rather than on a dense layer of its own
    classifier_activation: str = "tanh"
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")  # what classifiers and taggers tell apart

    def __post_init__(self) -> None:
        for name in ("positions", "outputs", "spare", "labels", "cutoffs"):
            self._set(name, tuple(getattr(self, name)))
        if isinstance(self.decoder, Mapping):
            self._set("decoder", Spec.of(self.decoder))
        if self.embedding_norm is None:
            self._set("embedding_norm", not self.norm_first)
        if self.final_norm is None:
            self._set("final_norm", self.norm_first)
        if "pair" in self.all_heads or ("classify" in self.all_heads and self.pooled):
            self._set("pooler", True)
        if self.recurrent:
            self._set("mask", "causal")
        self._check()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self) -> None:
        """Refuse parts that do not exist or do not fit together."""
        for name in ("vocab", "width", "layers", "heads", "feedforward", "longest", "group_size"):
            if getattr(self, name) < 1:
                raise SpecError(f"A network needs '{name}' to be at least 1, but it is {getattr(self, name)}.")
        if self.recurrent is None and self.head_size is None and self.width % self.heads:
            raise SpecError(f"A width of {self.width} cannot be shared by {self.heads} heads; make it a multiple.")
        _known("activation", (self.activation, self.lm_activation, self.classifier_activation), tuple(ACTIVATIONS))
        _known("norm", (self.norm,), NORMS)
        _known("position scheme", self.positions, POSITIONS)
        _known("mask", (self.mask,), MASKS)
        _known("head", self.all_heads, HEADS)
        if self.recurrent is not None:
            self._check_recurrent(self.recurrent)
        if self.groups is not None and not 1 <= self.groups <= self.layers:
            raise SpecError(f"{self.groups} groups cannot share {self.layers} layers; give 1 to {self.layers}.")
        if self.fork is not None and not 0 <= self.fork <= len(self.order):
            raise SpecError(f"A passage cannot be shared through {self.fork} of {len(self.order)} layers.")
        if self.group_size > 1 and self.groups is None:
            raise SpecError("'group_size' says how many layers a group has; name the number of 'groups' too.")
        if self.project_words and self.embedding is None:
            raise SpecError("'project_words' widens narrow embeddings; say how narrow: 'embedding'.")
        if {"sinusoidal", "halves"} & set(self.positions) and self.sum_width % 2:
            raise SpecError("Sinusoidal positions come in pairs; the embedding needs an even width.")
        if {"nezha", "rotary"} & set(self.positions) and self.head_width % 2:
            raise SpecError(f"These positions come in pairs; a head is {self.head_width} wide and must be even.")
        if "transformer-xl" in self.positions and self.width % 2:
            raise SpecError(f"Transformer-XL's positions come in pairs; a width of {self.width} must be even.")
        if {"nezha", "transformer-xl"} <= set(self.positions):
            raise SpecError("NEZHA's and Transformer-XL's positions both rewrite attention; name one of them.")
        if not self.lm_dense and self.embedding and not self.project_words:
            raise SpecError("A language head without a dense layer cannot read narrow embeddings; widen one of them.")
        if self.cutoffs and (list(self.cutoffs) != sorted({*self.cutoffs}) or not 0 < self.cutoffs[-1] < self.vocab):
            raise SpecError(f"Clusters end at rising places inside the vocabulary, but 'cutoffs' is {self.cutoffs}.")
        if self.decoder is not None:
            self._check_decoder(self.decoder)

    def _check_decoder(self, decoder: Spec) -> None:
        if not decoder.cross or decoder.decoder is not None:
            raise SpecError("A decoder is one stack with 'cross' set: it looks at the encoder's states.")
        if (decoder.width, decoder.vocab) != (self.width, self.vocab):
            raise SpecError(
                f"A decoder of {decoder.vocab} words and width {decoder.width} cannot share the embeddings of an "
                f"encoder of {self.vocab} words and width {self.width}; make them equal."
            )

    def _check_recurrent(self, kind: str) -> None:
        _known("recurrent layer", (kind,), RECURRENT)
        if self.decoder is not None or self.cross or self.groups is not None or self.fork is not None:
            raise SpecError("Recurrent layers look at no source and share no weights; leave 'recurrent' out, or those.")
        if {"rotary", "buckets", "nezha", "transformer-xl"} & set(self.positions):
            raise SpecError("Recurrent layers have no attention that could ask for distances; use positions=().")

    @property
    def all_heads(self) -> tuple[str, ...]:
        """Every head the network has."""
        return self.outputs + self.spare

    @property
    def head_width(self) -> int:
        """The width of one attention head."""
        return self.head_size or self.width // self.heads

    @property
    def sum_width(self) -> int:
        """The width at which words, positions and segments are added up, and at which the language head reads."""
        return self.embedding if self.embedding and not self.project_words else self.width

    @property
    def order(self) -> tuple[int, ...]:
        """Which layer's weights each step of the stack uses: 0, 1, 2 … unless layers are shared."""
        if self.groups is None:
            return tuple(range(self.layers))
        group_of = [step * self.groups // self.layers for step in range(self.layers)]
        return tuple(group * self.group_size + inner for group in group_of for inner in range(self.group_size))

    def json(self) -> str:
        """The spec as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    @staticmethod
    def of(values: Mapping[str, Any]) -> Spec:
        """A spec from plain values, as ``json`` wrote them."""
        unknown = set(values) - {field.name for field in fields(Spec)}
        if unknown:
            raise SpecError(f"A spec has no '{min(unknown)}'.")
        return Spec(**values)


def _known(what: str, names: tuple[str, ...], choices: tuple[str, ...]) -> None:
    for name in names:
        if name not in choices:
            raise SpecError(f"There is no {what} '{name}'; choose from {', '.join(choices)}.")
