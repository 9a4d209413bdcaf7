"""System 1 of CogQA: reads a question with clues and a paragraph, points at hops and answers, and gives the node of the
graph its semantics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from masquerade.data.examples import Example, PerToken
from masquerade.data.packing import collate, packed
from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.memory.working import graph_network, sentence_numbers
from masquerade.memory.working.graph_network import GraphNetwork, GraphPart
from masquerade.memory.working.networks import on_encoder
from masquerade.memory.working.pointers import POINTERS, Pointed, TokenSpan, point
from masquerade.nn.model import Model

HEAD = "tag"  # one score a token and label; the labels are POINTERS
ROW, ROWS = 256, 4  # tokens of a packed row, and rows that go through the network at once: more leave its cache
SETTINGS = "hops"  # the key of a model's configuration
TITLED = 2.0  # how far below the threshold the start of a hop may be, if its words are a title


@dataclass(frozen=True)
class HopSettings:
    """The sizes of what system 1 reads, in tokens, kept in its configuration."""

    window: int = 384
    question: int = 64
    clues: int = 96


@dataclass(frozen=True)
class NodeText:
    """What is read for a node: the question, the sentences that led to it, and the sentences of its paragraph."""

    question: str
    clues: str = ""
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaidNode:
    """A node's tokens: [CLS] question [SEP] clues [SEP] sentence [SEP] sentence [SEP] …"""

    example: Example
    begin: int  # the paragraph's first token
    ends: tuple[int, ...]  # the [SEP] after each sentence; empty without a paragraph
    places: tuple[tuple[int, int, int], ...]  # (sentence, start, end) of the paragraph's tokens; (-1, 0, 0) for [SEP]s

    def tokens(self, sentence: int, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last token of some characters of a sentence; None if they were cut off."""
        inside = [
            self.begin + at
            for at, (number, first, last) in enumerate(self.places)
            if number == sentence and first < end and last > start
        ]
        return (inside[0], inside[-1]) if inside else None


@dataclass(frozen=True)
class NamedSpan:
    """A span of a paragraph: its words, the number of its sentence, and how far it is above the threshold."""

    text: str
    sentence: int
    score: float


@dataclass(frozen=True)
class NodeReading:
    """What system 1 found in a paragraph, and the semantics of the node (width,)."""

    hops: tuple[NamedSpan, ...]  # also those up to TITLED below the threshold
    answers: tuple[NamedSpan, ...]
    gap: float  # how much the best answer lacks; 0 if there is one
    margin: float  # how much the best start of a hop or an answer exceeds that of [CLS]
    semantics: Tensor
    again: Callable[[float], tuple[NamedSpan, ...]]  # the answers under a threshold that is lower by a number


class System1:
    """A network with four pointers and the graph network of system 2 between its layers."""

    def __init__(self, model: Model) -> None:
        if model.spec.labels != POINTERS or SETTINGS not in model.config:
            raise MasqueradeError(
                "This model does not point at hops, so it cannot answer in several steps; train one with 'train cogqa'."
            )
        self.model, self.tokenizer = model, model.tokenizer
        self.settings = HopSettings(**model.config[SETTINGS])
        self.cls, self.sep = (model.tokenizer.special(role) for role in ("cls", "sep"))
        self.graph = network_of(model)

    def lay(self, node: NodeText) -> LaidNode:
        """A node's tokens. What does not fit is left out: of question and clues their ends, and whole sentences, or
        of the first one its end."""
        sizes, encode = self.settings, self.tokenizer.encode_places
        (question, _), (clues, _) = encode([node.question, node.clues])
        before = [self.cls, *question[: sizes.question], self.sep, *clues[: sizes.clues], self.sep]
        ids, ends, room = list[int](), list[int](), sizes.window - len(before)
        places, numbers = list[tuple[int, int, int]](), [0] * len(before)
        for number, (tokens, offsets) in enumerate(encode(list(node.sentences)) if node.sentences else []):
            left = room - len(ids) - 1
            if not tokens or left < (1 if not ends else len(tokens)):
                if ends:
                    break
                continue
            ids += [*tokens[:left], self.sep]
            places += [*((number, start, end) for start, end in offsets[:left]), (-1, 0, 0)]
            numbers += [len(ends) + 1] * (len(tokens[:left]) + 1)
            ends.append(len(before) + len(ids) - 1)
        second = int(self.model.spec.segments > 1)
        layout = bidirectional([*before, *ids]).replace(segment=[0] * len(before) + [second] * len(ids))
        extra = {sentence_numbers.INPUT: PerToken(torch.tensor(numbers))}
        return LaidNode(Example(layout, extra=extra), len(before), tuple(ends), tuple(places))

    @torch.inference_mode()
    def read(self, nodes: Sequence[NodeText]) -> list[NodeReading]:
        """What is found for each node."""
        laid = [self.lay(node) for node in nodes]
        number = {id(each.example): at for at, each in enumerate(laid)}
        rows, found = packed([each.example for each in laid], ROW), dict[int, NodeReading]()
        self.model.eval()
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            batch = collate(part, self.model.spec.pad).to(self.model.device)
            flow = self.model.flow(batch.layout, inputs=batch.extra)
            logits = self.model.head(HEAD, flow.states).float().cpu()
            order = [(row, number[id(example)]) for row, some in enumerate(part) for example in some]
            before, last = 0, -1
            for (row, index), semantics in zip(order, flow.outputs["semantics"].float().cpu(), strict=True):
                before, last = (before if row == last else 0), row
                count = len(laid[index].example.layout)
                found[index] = _reading(nodes[index], laid[index], logits[row, before : before + count], semantics)
                before += count
        return [found[index] for index in range(len(nodes))]


def _reading(node: NodeText, laid: LaidNode, logits: Tensor, semantics: Tensor) -> NodeReading:
    def named(spans: Sequence[TokenSpan]) -> tuple[NamedSpan, ...]:
        found = []
        for span in spans:
            number, start, _ = laid.places[span.start - laid.begin]
            end = laid.places[span.end - laid.begin][2]
            found.append(NamedSpan(whole_words(node.sentences[number], start, end), number, span.score))
        return tuple(found)

    def pointed(allow: float) -> Pointed:
        return point(logits, laid.begin, laid.ends, allow, TITLED)

    own = pointed(0.0)
    return NodeReading(
        named(own.hops), named(own.answers), own.gap, own.margin, semantics, lambda allow: named(pointed(allow).answers)
    )


def whole_words(text: str, start: int, end: int) -> str:
    """Some characters of a text, with the rest of the words that they begin and end in."""
    while 0 < start < len(text) and _inside(text, start):
        start -= 1
    while end < len(text) and _inside(text, end):
        end += 1
    return text[start:end].strip()


def _inside(text: str, at: int) -> bool:
    """Whether a place lies inside a word of the Latin alphabet or a number."""
    return all(each.isalnum() and ord(each) < 0x250 for each in text[at - 1 : at + 1])


def network_of(model: Model) -> GraphNetwork:
    """The graph network between the layers of a model."""
    parts = [part for part in model.stack.modules() if isinstance(part, GraphPart)]
    if not parts:
        raise MasqueradeError("This model has no graph network; train one with 'train cogqa'.")
    return parts[0].network


def new_system1(
    model: Model,
    settings: HopSettings,
    form: str = "authors",
    steps: int = graph_network.STEPS,
    semantics: int = 0,
    numbers: bool = False,
) -> Model:
    """System 1, with system 2 in it, on an encoder. ``semantics`` is the number of layers before the semantics of nodes
    are taken; 0: all but two. With ``numbers`` tokens know the number of their sentence. A reader's pointers are the
    first pointers at answers."""
    layers = len(model.spec.order)
    at = semantics or max(1, layers - 2)
    if not 1 <= at <= layers:
        raise MasqueradeError(f"The semantics of nodes are taken after 1 to {layers} layers, not after {semantics}.")
    parts: dict[int, tuple[str, Mapping[str, Any]]] = {at: (graph_network.KIND, {"form": form, "steps": steps})}
    if numbers:
        parts[0] = (sentence_numbers.KIND, {})
    made = on_encoder(model, (HEAD,), parts, labels=POINTERS)
    weights = made.state_dict()
    for name, weight in weights.items():
        if name == "stack.between.0.table.weight":
            weight.zero_()
        known = model.state_dict().get(name.replace(f"heads.{HEAD}", "heads.span"))
        if name.startswith(f"heads.{HEAD}") and known is not None and known.shape[0] == 2:
            weight[2:] = known
    made.config = {SETTINGS: asdict(settings)}
    return made
