"""The description of a network: which parts it has, how many and how wide. Plain data: compared, printed, saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from masquerade.errors import SpecError
from masquerade.nn.activations import ACTIVATIONS

DISTANCES = ("rotary", "buckets", "alibi", "nezha", "transformer-xl", "disentangled")  # positions inside attention
POSITIONS = ("learned", "inner", "sinusoidal", "halves", *DISTANCES)
NORMS = ("layer", "rms")
MASKS = ("bidirectional", "causal")
RECURRENT = ("lstm", "gru", "mixture")  # the mixture, of a GRU and an LSTM, is a decoder
SOURCE_SCORES = ("dot", "additive")
HEADS = ("lm", "boundary", "detect", "tag", "span", "spans", "copy", "classify", "pair")


@dataclass(frozen=True)
class Spec:
    """What ``build`` assembles. A family fills it in from its published configuration; anyone may write their own."""

    family: str = "masquerade"  # the family whose configuration and weight names a checkpoint has
    # sizes
    vocab: int = 30522
    width: int = 768
    layers: int = 12
    heads: int = 12
    head_size: int | None = None  # the width of a head; None: the width divided by the number of heads
    feedforward: int = 3072
    # embeddings
    embedding: int | None = None  # a narrower embedding, projected to the width (ALBERT, ELECTRA)
    project_words: bool = False  # project token embeddings alone, before positions and segments are added
    embedding_norm: bool | None = None  # normalise the sum; None: unless norm_first
    embedding_scale: bool = False  # multiply token embeddings by the square root of the width
    segments: int = 2  # token types; 0 for none
    tasks: int = 0  # task types; 0 for none
    pad: int = 0  # the padding token
    query_vector: bool = False  # the input of a QUERY is one learned vector instead of its token's (XLNet)
    # positions
    positions: tuple[str, ...] = ("learned",)  # one or more of POSITIONS
    longest: int = 512  # the number of learned positions
    position_offset: int = 0  # the row of position 0 in the learned table (RoBERTa, BART: 2)
    skip_padding: bool = False  # in padded tensors, positions count the real tokens only (RoBERTa, MPNet)
    max_distance: int = 64  # NEZHA and Transformer-XL clip distances here; buckets put all farther ones into one
    buckets: int = 32
    segment_relation: bool = False  # Transformer-XL's attention also scores whether segments are equal (XLNet)
    share_biases: bool = False  # … and all its layers share its two biases
    position_scores: tuple[str, ...] = ("c2p", "p2c")  # DeBERTa: content against position, position against content
    share_projections: bool = False  # … with the projections of the content
    relative_norm: bool = False  # … and a norm over the vectors of relative positions
    # layers
    recurrent: str | None = None  # one of RECURRENT instead of attention; lstm and gru need no positions: ()
    source_scores: str = "dot"  # how a recurrent decoder scores its source, one of SOURCE_SCORES
    activation: str = "gelu"
    gated: bool = False  # a second matrix gates the feed-forward layer (T5 v1.1)
    norm: str = "layer"
    norm_first: bool = False  # normalise before each sublayer instead of after it
    final_norm: bool | None = None  # normalise the last states; None: if sublayers are normalised first
    epsilon: float = 1e-12
    scaled: bool = True  # divide attention scores by the square root of a head's width
    attention_bias: bool = True
    feedforward_bias: bool = True
    groups: int | None = None  # the number of layer groups with weights of their own; None: every layer has its own
    group_size: int = 1  # layers in a group
    # parts that run before a layer, as {layer: (kind, options)}; the number of layers: after the last (nn.between)
    between: Mapping[int, tuple[str, Mapping[str, Any]]] = field(default_factory=dict, hash=False)
    dropout: float = 0.1
    attention_dropout: float = 0.1
    init_std: float = 0.02
    # use
    mask: str = "bidirectional"  # the mask it was trained with, for padded tensors
    decoder: Spec | None = None  # a second stack with attention to this one's states
    cross: bool = False  # whether this is such a second stack
    # heads
    outputs: tuple[str, ...] = ()  # the heads whose scores are its logits, any of HEADS
    spare: tuple[str, ...] = ()  # further heads of its checkpoint
    tied: bool = True  # the language head uses the token embeddings
    lm_dense: bool = True  # … after a dense layer of its own
    lm_activation: str = "gelu"
    lm_bias: bool = True
    lm_scale: bool = False  # … with states divided by the square root of the width (T5)
    cutoffs: tuple[int, ...] = ()  # the ends of the clusters of an adaptive softmax (Transformer-XL)
    pooler: bool = False  # a dense layer over the first token; set if a head uses it
    pooled: bool = True  # the classifier uses the pooler, rather than a dense layer of its own
    classifier_activation: str = "tanh"
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")  # the labels of classifiers and taggers

    def __post_init__(self) -> None:
        for name in ("positions", "position_scores", "outputs", "spare", "labels", "cutoffs"):
            self._set(name, tuple(getattr(self, name)))
        if isinstance(self.decoder, Mapping):
            self._set("decoder", Spec.of(self.decoder))
        self._set("between", _between(self.between))
        if self.embedding_norm is None:
            self._set("embedding_norm", not self.norm_first)
        if self.final_norm is None:
            self._set("final_norm", self.norm_first)
        if "pair" in self.all_heads or ("classify" in self.all_heads and self.pooled):
            self._set("pooler", True)
        if self.recurrent:
            self._set("mask", "causal" if self.decoder is None else "bidirectional")
        self._check()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self) -> None:
        """Refuse parts that do not exist or do not fit together."""
        for name in ("vocab", "width", "layers", "heads", "feedforward", "longest", "group_size"):
            if getattr(self, name) < 1:
                raise SpecError(f"A network needs '{name}' to be at least 1, but it is {getattr(self, name)}.")
        if self.recurrent is None and self.head_size is None and self.width % self.heads:
            raise SpecError(f"A width of {self.width} cannot be split into {self.heads} heads; make it a multiple.")
        _known("activation", (self.activation, self.lm_activation, self.classifier_activation), tuple(ACTIVATIONS))
        _known("norm", (self.norm,), NORMS)
        _known("position scheme", self.positions, POSITIONS)
        _known("mask", (self.mask,), MASKS)
        _known("head", self.all_heads, HEADS)
        _known("way to score a source", (self.source_scores,), SOURCE_SCORES)
        if self.recurrent is not None:
            self._check_recurrent(self.recurrent)
        if self.groups is not None and not 1 <= self.groups <= self.layers:
            raise SpecError(f"{self.groups} groups cannot share {self.layers} layers; give 1 to {self.layers}.")
        for layer, (kind, _) in self.between.items():
            if not 0 <= layer <= len(self.order):
                raise SpecError(
                    f"The part '{kind}' cannot run before layer {layer} of {len(self.order)}; give 0 to "
                    f"{len(self.order)}, which is after the last."
                )
        if self.group_size > 1 and self.groups is None:
            raise SpecError("'group_size' is the number of layers in a group; give the number of 'groups' too.")
        if self.project_words and self.embedding is None:
            raise SpecError("'project_words' projects narrow embeddings; give their width as 'embedding'.")
        if {"sinusoidal", "halves"} & set(self.positions) and self.sum_width % 2:
            raise SpecError("Sinusoidal positions come in pairs; the embedding needs an even width.")
        if {"nezha", "rotary"} & set(self.positions) and self.head_width % 2:
            raise SpecError(f"These positions come in pairs; a head is {self.head_width} wide and must be even.")
        exact = self.buckets // (2 if self.mask == "causal" else 4)  # distances that have a bucket each
        if "buckets" in self.positions and not 0 < exact < self.max_distance:
            raise SpecError(
                f"{self.buckets} buckets have one for each distance below {exact}, and the others for distances up to "
                f"{self.max_distance}; give at least 4 buckets, and a 'max_distance' above {max(exact, 1)}."
            )
        if "transformer-xl" in self.positions and self.width % 2:
            raise SpecError(f"Transformer-XL's positions come in pairs; a width of {self.width} must be even.")
        _known("kind of position score", self.position_scores, ("c2p", "p2c"))
        if len({"nezha", "transformer-xl", "disentangled"} & set(self.positions)) > 1:
            raise SpecError("NEZHA's, Transformer-XL's and DeBERTa's positions all change attention; name one of them.")
        if not self.lm_dense and self.embedding and not self.project_words:
            raise SpecError("A language head without a dense layer cannot use narrow embeddings; set 'lm_dense'.")
        if self.cutoffs and (list(self.cutoffs) != sorted({*self.cutoffs}) or not 0 < self.cutoffs[-1] < self.vocab):
            raise SpecError(f"'cutoffs' has to rise and stay inside the vocabulary, but it is {self.cutoffs}.")
        if self.decoder is not None:
            self._check_decoder(self.decoder)

    def _check_decoder(self, decoder: Spec) -> None:
        if not decoder.cross or decoder.decoder is not None:
            raise SpecError("A decoder has to be one stack with 'cross' set and no decoder of its own.")
        if (decoder.width, decoder.vocab) != (self.width, self.vocab):
            raise SpecError(
                f"A decoder of {decoder.vocab} tokens and width {decoder.width} cannot share the embeddings of an "
                f"encoder of {self.vocab} tokens and width {self.width}; make them equal."
            )

    def _check_recurrent(self, kind: str) -> None:
        _known("recurrent layer", (kind,), RECURRENT)
        if self.groups is not None or self.between:
            raise SpecError("Recurrent layers take no shared weights and nothing between layers.")
        if set(DISTANCES) & set(self.positions):
            raise SpecError("Recurrent layers have no attention, so they take no distances; use positions=().")
        if self.decoder is not None and self.width % 2:
            raise SpecError(f"An encoder that reads both ways halves its width of {self.width}; make it even.")
        if kind == "mixture" and (not self.cross or "learned" not in self.positions or self.width % 2):
            raise SpecError(
                "The mixture of a GRU and an LSTM is a decoder of even width with learned positions, one a step; set "
                "cross=True, positions=('learned',) and 'longest' to the most tokens of a target."
            )

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
        """The width at which tokens, positions and segments are added, and of the language head's input."""
        return self.embedding if self.embedding and not self.project_words else self.width

    @property
    def order(self) -> tuple[int, ...]:
        """The number of the weights that each layer of the stack uses: 0, 1, 2 … unless layers share weights."""
        if self.groups is None:
            return tuple(range(self.layers))
        group_of = [step * self.groups // self.layers for step in range(self.layers)]
        return tuple(group * self.group_size + inner for group in group_of for inner in range(self.group_size))

    @property
    def fork(self) -> int | None:
        """The layer before which a shared passage is copied to its questions; None if it never is."""
        return next((layer for layer, (kind, _) in self.between.items() if kind == "fork"), None)

    def json(self) -> str:
        """The spec as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    @staticmethod
    def of(values: Mapping[str, Any]) -> Spec:
        """A spec from plain values, as ``json`` wrote them; older ones say ``fork`` instead of ``between``."""
        values = dict(values)
        if (fork := values.pop("fork", None)) is not None:
            values["between"] = {**values.get("between", {}), fork: ("fork", {})}
        unknown = set(values) - {field.name for field in fields(Spec)}
        if unknown:
            raise SpecError(f"A spec has no '{min(unknown)}'.")
        return Spec(**values)


def _between(given: Mapping[Any, Any]) -> dict[int, tuple[str, dict[str, Any]]]:
    """``Spec.between`` with its layers as integers and its options as JSON has them, in the order of the layers."""
    try:
        found = {int(layer): (str(kind), dict(json.loads(json.dumps(some)))) for layer, (kind, some) in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SpecError("A spec's 'between' has to be {layer: (kind, {option: value})} in JSON values.") from error
    return dict(sorted(found.items()))


def _known(what: str, names: tuple[str, ...], choices: tuple[str, ...]) -> None:
    for name in names:
        if name not in choices:
            raise SpecError(f"There is no {what} '{name}'; choose from {', '.join(choices)}.")
