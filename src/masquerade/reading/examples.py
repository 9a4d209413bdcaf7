"""Training data of a reader: windows of passages with their questions and answers; and its loss."""

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
from masquerade.reading.layouts import ReaderLayout, Window
from masquerade.reading.memory import block_scorer
from masquerade.reading.odds import log_probabilities
from masquerade.reading.records import QuestionRecord
from masquerade.reading.span_scores import PARTS, ReaderRows, score_spans
from masquerade.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainingWindow:
    """A window of a passage with its questions."""

    window: Window
    article: str
    # ids of each question, and its answers as (start, length) in tokens; none if the whole passage does not answer it
    questions: list[tuple[list[int], list[tuple[int, int]]]]
    absent: list[list[int]]  # questions whose answer is in another window of the passage

    def contains(self, words: Sequence[int]) -> bool:
        """Whether the tokens are a span of the window."""
        ids, n = self.window.ids, len(words)
        return any(ids[at : at + n] == tuple(words) for at in range(len(ids) - n + 1))


def training_windows(
    tokenizer: Tokenizer, sizes: ReaderLayout, records: Sequence[QuestionRecord], most: int, room: int = 0
) -> list[TrainingWindow]:
    """The windows of all passages (of ``room`` tokens; 0: as many as fit) with up to ``most`` of their questions each;
    a window with more questions comes several times. Questions whose answers are all too long are left out."""
    asked = defaultdict[str, list[tuple[QuestionRecord, int]]](list)
    for record in records:
        for number, passage in enumerate(record.passages):
            asked[passage].append((record, number))
    passages = list(asked)
    ids = dict(zip(records, sizes.questions(tokenizer, [record.question for record in records]), strict=True))
    found = []
    for window in sizes.windows(tokenizer, passages, room):
        questions, absent = list[tuple[list[int], list[tuple[int, int]]]](), list[list[int]]()
        for record, number in asked[passages[window.passage]]:
            golds = record.spans[number]
            placed = [tokens_of(window, gold.start, gold.start + len(gold.text)) for gold in golds]
            spans = [span for span in placed if span is not None and span[1] <= sizes.longest_answer]
            if spans or not golds:
                questions.append((ids[record], spans))
            elif not any(placed):
                absent.append(ids[record])
        title = asked[passages[window.passage]][0][0].title
        for start in range(0, max(bool(absent), len(questions)), most):
            found.append(TrainingWindow(window, title, questions[start : start + most], absent if start == 0 else []))
    return found


def tokens_of(window: Window, start: int, end: int) -> tuple[int, int] | None:
    """The tokens of a window that cover a span of characters, as (start, length); None if the window cuts the span.
    Characters without a token, such as accents that are dropped, do not count, except at the edge of the window."""
    held = [index for index, (first, last) in enumerate(window.places) if first < end and last > start]
    if not held or (held[0] == 0 and window.places[0][0] > start):
        return None
    if held[-1] == len(window.ids) - 1 and window.places[-1][1] < end:
        return None
    return held[0], held[-1] - held[0] + 1


def _span_logs(model: Model, rows: ReaderRows, weights: Mapping[str, float]) -> Tensor:
    """Log-probabilities of no answer and of every span: (rows, 1 + spans)"""
    scores = score_spans(model, rows, weights)
    spans, none = log_probabilities(scores.spans, scores.none)
    return torch.cat([none[:, None], spans.flatten(1)], dim=1)


class ReadingLoss(Loss):
    """The loss of a reader: tokens at slots and masks, copied spans, first and last tokens.

    Copying is trained as it is searched: a softmax over all spans of the passage, by the sums of the slots' scores.
    Separate losses for the slots would not make them agree on one span. Masks of answers that are generated token by
    token see the tokens before them, so each has a loss of its own.

    With a ``teacher``, a reader of the same layouts whose fork may be at another layer, there are two more terms:
    "taught", the divergence of the span probabilities from the teacher's, and "states", the mean squared difference of
    the last hidden states. Both networks copy a passage to its questions in the same way, so tokens correspond.
    """

    def __init__(
        self, model: Model, sizes: ReaderLayout, weights: Mapping[str, float], teacher: Model | None = None
    ) -> None:
        super().__init__(model)
        self.teacher = None if teacher is None else teacher.requires_grad_(False)
        scorer = block_scorer(model)
        self.block = 0 if scorer is None else scorer.block
        self.sizes, self.weights = sizes, {name: weight for name, weight in weights.items() if weight}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        """The numbers of labelled tokens, of copied spans, and of answers."""
        examples = [example for row in rows for example in row]
        asked = [(each.layout.label != IGNORE, each.layout) for each in examples]
        answers = sum(each.count("answers") for each in examples)
        return {
            "words": sum(int(labelled.sum()) for labelled, _ in asked),
            "copies": sum(int((labelled & (layout.position == 1)).sum()) for labelled, layout in asked),
            "pointers": answers,
            "blocks": answers,
            "taught": answers,
            "states": answers,
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each part that has a weight."""
        flow = self.model.flow(batch.layout, inputs=batch.extra)
        rows, layout = ReaderRows(flow.states, flow.layout, self.sizes), flow.layout
        start, length = batch.extra["answers"].unbind(-1)
        there, label = length > 0, layout.label
        parts = dict[str, Tensor]()
        if "words" in self.weights:
            asked = label != IGNORE
            scores = self.model.head("lm", rows.states[asked]).float()
            parts["words"] = F.cross_entropy(scores, label[asked], reduction="sum")
        if "copies" in self.weights:
            slotted = label[:, 1] != IGNORE  # the others are generated token by token
            at_once = self._copied(rows[slotted], start[slotted], length[slotted])
            parts["copies"] = at_once + self._written(rows[~slotted], start[~slotted], length[~slotted])
        if "pointers" in self.weights:
            logs, first = rows.ends(self.model), rows.begin + start
            targets = [torch.where(there, place, 0) for place in (first, first + length - 1)]  # [CLS] for no answer
            sides = [F.nll_loss(logs[..., side], target, reduction="sum") for side, target in enumerate(targets)]
            parts["pointers"] = torch.stack(sides).mean()
        if self.block:  # which block of the passage the answer begins in; 0 is none
            scores = F.pad(flow.outputs["blocks"], (1, 0))
            parts["blocks"] = F.cross_entropy(scores, torch.where(there, 1 + start // self.block, 0), reduction="sum")
        if self.teacher is not None:
            parts |= self._taught(self.teacher, batch, rows)
        return parts

    def _taught(self, teacher: Model, batch: Batch, rows: ReaderRows) -> dict[str, Tensor]:
        """The terms of what a teacher makes of the same batch."""
        with torch.no_grad():
            flow = teacher.eval().flow(batch.layout, inputs=batch.extra)
        theirs, real = ReaderRows(flow.states, flow.layout, self.sizes), rows.layout.real
        difference = (rows.states - theirs.states).float().pow(2).mean(-1) * real  # (rows, n)
        parts = {"states": (difference.sum(-1) / real.sum(-1)).sum()}
        slotted = rows.layout.label[:, 1] != IGNORE  # the others have no slots
        if bool(slotted.any()):
            heads = {name: self.weights[name] for name in PARTS if name in self.weights}
            right, mine = _span_logs(teacher, theirs[slotted], heads), _span_logs(self.model, rows[slotted], heads)
            impossible = ~right.isfinite()
            right, mine = right.masked_fill(impossible, 0.0), mine.masked_fill(impossible, 0.0)
            parts["taught"] = (right.exp() * (right - mine)).sum()
        return parts

    def _copied(self, rows: ReaderRows, start: Tensor, length: Tensor) -> Tensor:
        """The loss of copied spans, by their first tokens and lengths, (rows,) → ()"""
        if not len(start):
            return 0 * self.model.copy_scores(rows.states, rows.states).sum()  # data-parallel training needs a gradient
        scores = score_spans(self.model, rows, {"copies": 1.0})
        spans, none = log_probabilities(scores.spans, scores.none)
        place = start * self.sizes.slots + length.clamp(max=self.sizes.slots) - 1  # longer ones fill all slots
        right = spans.flatten(1).gather(1, place.clamp(min=0)[:, None])[:, 0]
        return -torch.where(length > 0, right, none).sum()

    def _written(self, rows: ReaderRows, start: Tensor, length: Tensor) -> Tensor:
        """The loss of masks that copy the next token, by the answers' first tokens and lengths, (rows,) → ()"""
        asked = rows.layout.label != IGNORE
        word = rows.layout.position - 1
        place = torch.where(word < length[:, None], (rows.begin + start)[:, None] + word, rows.close[:, None])
        scores = self.model.copy_scores(rows.states, rows.states).float()
        scores = scores.masked_fill(~rows.passage[:, None], -torch.inf)
        return F.cross_entropy(scores[asked], place[asked], reduction="sum")
