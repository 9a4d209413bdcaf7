"""Entities inside texts: every token gets a BIO tag, in the best valid sequence of tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.errors import MasqueradeError
from masquerade.labelling.predict import predict, under_own_mask
from masquerade.labelling.records import Entity, Tagged, entities_of
from masquerade.labelling.scores import entity_scores
from masquerade.layout import IGNORE, Layout
from masquerade.nn.model import Model
from masquerade.text.sentences import STOPS

CUTS = f"{STOPS}；，;,\n"  # where a long text is cut


@dataclass(frozen=True)
class TagWindow:
    """A part of a text that is read at once: its layout, and the characters of each of its tokens. The special tokens
    around it have none."""

    text: int  # the number of its text
    layout: Layout
    offsets: list[tuple[int, int] | None]


class Tagger:
    """A model with a ``tag`` head whose labels are BIO tags."""

    def __init__(self, model: Model, length: int | None = None) -> None:
        if "tag" not in model.spec.all_heads:
            raise MasqueradeError("This model has no 'tag' head; train one with 'masquerade train tagger'.")
        self.model, self.tokenizer = model, model.tokenizer
        self.length = min(length or model.spec.longest, model.spec.longest)
        self.blocked = forbidden(model.spec.labels)

    @staticmethod
    def load(source: str | Path) -> Tagger:
        """The tagger in a folder, a run's folder, or under a hub id."""
        return Tagger(load(source))

    def __call__(self, texts: Sequence[str], done: Callable[[int], None] = lambda count: None) -> list[list[Entity]]:
        """The entities of each text, in reading order. Texts can have any length."""
        windows = cut(self.model, texts, self.length)
        scores = predict(self.model, [window.layout for window in windows], "tag", done)
        found: list[list[Entity]] = [[] for _ in texts]
        for window, each in zip(windows, scores, strict=True):
            found[window.text] += self.entities(window, each)
        return found

    def entities(self, window: TagWindow, scores: Tensor) -> list[Entity]:
        """The entities of a window, with character offsets into its text, from scores (n, tags)."""
        inside = [index for index, offset in enumerate(window.offsets) if offset is not None]
        offsets = [offset for offset in window.offsets if offset is not None]
        tags = [self.model.spec.labels[tag] for tag in best_tags(scores[inside], self.blocked)]
        return [Entity(each.kind, offsets[each.start][0], offsets[each.end - 1][1]) for each in entities_of(tags)]

    def evaluate(
        self, records: Sequence[Tagged], done: Callable[[int], None] = lambda count: None
    ) -> tuple[dict[str, dict[str, float]], list[list[Entity]]]:
        """Precision, recall and F1 by kind of entity and for all, and the entities found."""
        found = self([record.text for record in records], done)
        return entity_scores(found, [record.entities for record in records]), found


def cut(model: Model, texts: Sequence[str], length: int) -> list[TagWindow]:
    """Texts as windows of at most ``length`` tokens, special ones included. They end after punctuation if there is any
    in the second half of the window."""
    windows = []
    tokenizer = model.tokenizer
    opening, closing = tokenizer.special("cls"), tokenizer.special("sep")
    for number, (ids, offsets) in enumerate(tokenizer.encode_places(texts)):
        start = 0
        while start < len(ids):
            end = min(start + length - 2, len(ids))
            if end < len(ids):
                stops = [at for at in range(start + length // 2, end) if texts[number][slice(*offsets[at])] in CUTS]
                end = stops[-1] + 1 if stops else end
            layout = under_own_mask(model, [opening, *ids[start:end], closing])
            windows.append(TagWindow(number, layout, [None, *offsets[start:end], None]))
            start = end
    return windows


def labelled(window: TagWindow, entities: Sequence[Entity], labels: Sequence[str]) -> Layout:
    """The window's layout with the tag of every token as its label. An entity begins at its first token in the
    window."""
    tags = [IGNORE if offset is None else labels.index("O") for offset in window.offsets]
    for entity in entities:
        held = [
            index
            for index, offset in enumerate(window.offsets)
            if offset is not None and entity.start <= offset[0] < offset[1] <= entity.end
        ]
        for index in held:
            tags[index] = labels.index(f"{'B' if index == held[0] else 'I'}-{entity.kind}")
    return window.layout.replace(label=tags)


def tag_names(kinds: Sequence[str]) -> tuple[str, ...]:
    """The BIO tags of kinds of entities."""
    return ("O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))


def forbidden(labels: Sequence[str]) -> Tensor:
    """Which tag (column) cannot follow which (row): I-x only follows B-x and I-x. Bool (tags + 1, tags); row 0 is the
    start of the text."""
    before = ["", *labels]
    return torch.tensor([[late[:2] == "I-" and early[2:] != late[2:] for late in labels] for early in before])


def best_tags(scores: Tensor, blocked: Tensor) -> list[int]:
    """The best sequence of tags without a blocked transition (Viterbi): scores (n, tags) → n tags."""
    if not len(scores):
        return []
    log_probs = scores.log_softmax(-1)
    steps = torch.zeros(blocked.shape).masked_fill(blocked, float("-inf"))
    best, back = log_probs[0] + steps[0], []
    for each in log_probs[1:]:
        value, source = (best.unsqueeze(-1) + steps[1:]).max(0)
        best = value + each
        back.append(source)
    tags = [int(best.argmax())]
    for source in reversed(back):
        tags.append(int(source[tags[-1]]))
    return tags[::-1]
