"""What a reader learns from: windows of passages with their questions, and the spans that answer them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.layout import IGNORE
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.reading.layouts import Sheet, Window
from masquerade.reading.records import Asked
from masquerade.reading.span_scores import Rows, mark
from masquerade.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Lesson:
    """A window of a passage and the questions asked of it: their ids, and the spans that answer them, as (start,
    length) in tokens; a question without any has no answer in the whole passage. ``absent`` are questions that another
    window of the passage answers."""

    window: Window
    article: str
    questions: list[tuple[list[int], list[tuple[int, int]]]]
    absent: list[list[int]]

    def says(self, words: Sequence[int]) -> bool:
        """Do the words stand in the window?"""
        ids, n = self.window.ids, len(words)
        return any(ids[at : at + n] == tuple(words) for at in range(len(ids) - n + 1))


def lessons(tokenizer: Tokenizer, sheet: Sheet, records: Sequence[Asked], most: int, room: int = 0) -> list[Lesson]:
    """Records as lessons, one for every window (of ``room`` tokens; 0: as many as there is room for) of their passages:
    all questions that it answers together, but no more than ``most``. A question whose answers have more words than
    an answer can have is left out: the first so many words of one are a wrong answer."""
    asked = defaultdict[str, list[tuple[Asked, int]]](list)
    for record in records:
        for number, passage in enumerate(record.passages):
            asked[passage].append((record, number))
    passages = list(asked)
    ids = dict(zip(records, sheet.questions(tokenizer, [record.question for record in records]), strict=True))
    found = []
    for window in sheet.windows(tokenizer, passages, room):
        questions, absent = list[tuple[list[int], list[tuple[int, int]]]](), list[list[int]]()
        for record, number in asked[passages[window.passage]]:
            golds = record.spans[number]
            placed = [tokens_of(window, gold.start, gold.start + len(gold.text)) for gold in golds]
            spans = [span for span in placed if span is not None and span[1] <= sheet.longest_answer]
            if spans or not golds:
                questions.append((ids[record], spans))
            elif not any(placed):
                absent.append(ids[record])
        title = asked[passages[window.passage]][0][0].title
        for start in range(0, max(bool(absent), len(questions)), most):
            found.append(Lesson(window, title, questions[start : start + most], absent if start == 0 else []))
    return found


def tokens_of(window: Window, start: int, end: int) -> tuple[int, int] | None:
    """The tokens of a window, as (start, length), that cover some characters; None if they are not all in it. What no
    token has, as an accent that is dropped, does not count, unless it is at the window's edge, where it may be a word.
    """
    held = [index for index, (first, last) in enumerate(window.places) if first < end and last > start]
    if not held or (held[0] == 0 and window.places[0][0] > start):
        return None
    if held[-1] == len(window.ids) - 1 and window.places[-1][1] < end:
        return None
    return held[0], held[-1] - held[0] + 1


class ReadingLoss(Loss):
    """The cost of wrong answers: words at slots and masks, spans that slots copy, first and last words.

    Copying is learnt as it is searched: the slots' scores of a span are summed up, and the right span has to stand out
    among all spans of the passage. Slots that each learn their own place are right one by one, yet often not of the
    same span. Where the answer is written, each mask knows the words before it and has a place of its own to learn.
    """

    def __init__(self, model: Model, sheet: Sheet, weights: Mapping[str, float]) -> None:
        super().__init__(model)
        self.sheet, self.weights = sheet, {name: weight for name, weight in weights.items() if weight}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        """How many words, copied spans and pointed ones the rows ask for."""
        examples = [example for row in rows for example in row]
        asked = [(each.layout.label != IGNORE, each.layout) for each in examples]
        return {
            "words": sum(int(labelled.sum()) for labelled, _ in asked),
            "copies": sum(int((labelled & (layout.position == 1)).sum()) for labelled, layout in asked),
            "pointers": sum(each.count("answers") for each in examples),
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each part that has a weight."""
        flow = self.model.flow(batch.layout, inputs=batch.extra)
        rows, layout = Rows(flow.states, flow.layout, self.sheet), flow.layout
        start, length = batch.extra["answers"].unbind(-1)
        there, label = length > 0, layout.label
        parts = dict[str, Tensor]()
        if "words" in self.weights:
            asked = label != IGNORE
            scores = self.model.head("lm", rows.states[asked]).float()
            parts["words"] = F.cross_entropy(scores, label[asked], reduction="sum")
        if "copies" in self.weights:
            slotted = label[:, 1] != IGNORE  # the others write
            at_once = self._copied(rows[slotted], start[slotted], length[slotted])
            parts["copies"] = at_once + self._written(rows[~slotted], start[~slotted], length[~slotted])
        if "pointers" in self.weights:
            logs, first = rows.ends(self.model), rows.begin + start
            targets = [torch.where(there, place, 0) for place in (first, first + length - 1)]  # [CLS] for no answer
            sides = [F.nll_loss(logs[..., side], target, reduction="sum") for side, target in enumerate(targets)]
            parts["pointers"] = torch.stack(sides).mean()
        return parts

    def _copied(self, rows: Rows, start: Tensor, length: Tensor) -> Tensor:
        """What slots that copy cost: rows, and their answers' first words and lengths, (rows,) → ()"""
        if not len(start):
            return 0 * self.model.copy_scores(rows.states, rows.states).sum()  # a head that every step asks
        spans, none = mark(self.model, rows, {"copies": 1.0}).shares
        place = start * self.sheet.slots + length.clamp(max=self.sheet.slots) - 1  # longer ones fill all slots
        right = spans.flatten(1).gather(1, place.clamp(min=0)[:, None])[:, 0]
        return -torch.where(length > 0, right, none).sum()

    def _written(self, rows: Rows, start: Tensor, length: Tensor) -> Tensor:
        """What masks that copy the next word cost: rows, and their answers' first words and lengths, (rows,) → ()"""
        asked = rows.layout.label != IGNORE
        word = rows.layout.position - 1
        place = torch.where(word < length[:, None], (rows.begin + start)[:, None] + word, rows.close[:, None])
        scores = self.model.copy_scores(rows.states, rows.states).float()
        scores = scores.masked_fill(~rows.passage[:, None], -torch.inf)
        return F.cross_entropy(scores[asked], place[asked], reduction="sum")
