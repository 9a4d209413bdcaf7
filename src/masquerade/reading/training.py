"""Training a reader: questions in, a network that answers in one parallel step (and word by word) out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.checkpoint import load
from masquerade.data.rows import Batch, Place, shelve
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, Kind, join
from masquerade.masks import forked
from masquerade.nn.model import Model
from masquerade.objectives.base import Example, Rng, chance
from masquerade.reading.layouts import Sheet, Window
from masquerade.reading.marks import PARTS, Rows
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.records import Asked, read_questions
from masquerade.reading.scores import METRICS
from masquerade.training.loop import Job
from masquerade.training.loss import Loss
from masquerade.training.recipe import Recipe

TOGETHER = 32  # how many batches are sorted by length together, so that a batch has rows of like length
NONE = (-1, 0)  # the span of a question that its passage does not answer


@dataclass(frozen=True, kw_only=True)
class Reading(Recipe):
    """A run over questions, from a pretrained encoder."""

    slots: int = 16  # tokens of an answer at most
    question: int = 45  # tokens of a question at most
    fork: int = 0  # through how many layers a passage is shared by its questions
    parts: Mapping[str, float] = field(default_factory=lambda: {"words": 1.0, "copies": 1.0, "pointers": 1.0})
    written: float = 0.0  # the share of questions whose answer is learnt word by word; that of the others in slots
    strangers: float = 0.1  # for each question, so many of other passages of the article, which have no answer here
    dropout: float = 0.1  # none inside of attention, which is much faster without
    most: int = 8  # questions of a passage in one example
    metric: str = "squad"
    limit: int = 0  # how many of the training questions are used; 0: all
    held_out_questions: int = 500  # how many of the held-out questions are answered for the log
    batch: int = 32  # questions of an optimizer step, over all processes
    epochs: float = 2.0
    rate: float = 1e-4
    warmup: float = 0.1
    row: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric not in METRICS:
            raise MasqueradeError(f"There is no metric '{self.metric}'; choose from {', '.join(METRICS)}.")
        if set(self.parts) - set(PARTS) or not any(self.parts.values()):
            raise MasqueradeError(f"The recipe's 'parts' are weights of {', '.join(PARTS)}, one of them above 0.")
        if not self.start:
            raise MasqueradeError("The recipe does not say which checkpoint to train on; add start = '…'.")


class ReadingLoss(Loss):
    """The cost of wrong answers: words at slots and masks, places that slots copy, first and last words."""

    def __init__(self, model: Model, sheet: Sheet, weights: Mapping[str, float]) -> None:
        super().__init__(model)
        self.sheet, self.weights = sheet, {name: weight for name, weight in weights.items() if weight}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        """How many words, copied places and spans the rows ask for."""
        layouts = [example.layout for row in rows for example in row]
        words = [layout.label != IGNORE for layout in layouts]
        copied = [each & (layout.kind == Kind.CONTENT) for each, layout in zip(words, layouts, strict=True)]
        spans = sum(len(example.answers) for row in rows for example in row if example.answers is not None)
        return {"words": _sum(words), "copies": _sum(copied), "pointers": spans}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if batch.answers is None:
            raise TypeError("a reader learns from answers")
        layout, _ = forked(batch.layout)
        rows = Rows(self.model.hidden(batch.layout), layout, self.sheet)
        start, length = batch.answers.unbind(-1)
        begin, parts, label = rows.begin, dict[str, Tensor](), layout.label
        if "words" in self.weights:
            asked = label != IGNORE
            scores = self.model.head("lm", rows.states[asked]).float()
            parts["words"] = F.cross_entropy(scores, label[asked], reduction="sum")
        if "copies" in self.weights:
            slots = label[:, 1 : 1 + self.sheet.slots]
            asked = (slots != IGNORE) & (layout.kind == Kind.CONTENT)[:, 1 : 1 + self.sheet.slots]
            place = torch.arange(self.sheet.slots, device=label.device)
            target = torch.where(place < length[:, None], (begin + start)[:, None] + place, rows.close[:, None])
            parts["copies"] = F.nll_loss(rows.copies(self.model)[asked], target[asked], reduction="sum")
        if "pointers" in self.weights:
            logs, there = rows.ends(self.model), length > 0
            for side, at in enumerate((begin + start, begin + start + length - 1)):
                loss = F.nll_loss(logs[..., side], torch.where(there, at, 0), reduction="sum") / 2
                parts["pointers"] = parts.get("pointers", loss.new_zeros(())) + loss
        return parts


@dataclass(frozen=True)
class Told:
    """A window of a passage, and the questions asked of it with the spans that answer them, in tokens."""

    window: Window
    article: str
    questions: list[tuple[str, list[int], list[tuple[int, int]]]]  # id, ids, (start, length); none if it has no answer


class TrainReader(Job):
    """A reading recipe at work. A step takes some passages of like length with all their questions."""

    def __init__(self, recipe: Reading) -> None:
        self.recipe: Reading = recipe
        train = [record for source in recipe.train for record in read_questions(source)]
        self.train = train[: recipe.limit or None]
        held_out = [record for source in recipe.held_out for record in read_questions(source)]
        order = chance(0, len(held_out)).permutation(len(held_out))[: recipe.held_out_questions]
        self.test = [held_out[index] for index in sorted(order.tolist())]

    def begin(self) -> dict[str, Model]:
        recipe, start = self.recipe, load(self.recipe.start)
        heads = tuple(head for part, head in PARTS.items() if recipe.parts.get(part))
        kept = tuple(head for head in start.spec.all_heads if head == "lm" and head not in heads)
        spec = replace(start.spec, family="masquerade", fork=recipe.fork, pooler=False)
        spec = replace(spec, dropout=recipe.dropout, attention_dropout=0.0)
        model = Model(replace(spec, outputs=heads + kept, spare=()), start.tokenizer)
        mine, theirs = model.state_dict(), start.state_dict()
        model.load_state_dict({name: theirs.get(name, fresh) for name, fresh in mine.items()})
        settings = Settings(recipe.slots, recipe.question, {part: recipe.parts.get(part, 0.0) for part in PARTS})
        return {"": settings.put(model)}

    def read(self, model: Model, folder: Path) -> None:
        self.sheet = Settings.of(model).sheet(model)
        self.told = tell(model, self.sheet, self.train, self.recipe.most)
        if not self.told:
            raise MasqueradeError("There is no question with an answer in its passage to learn from.")
        self.sizes = [len(each.questions) for each in self.told]
        self.near = defaultdict[str, list[int]](list)
        for number, each in enumerate(self.told):
            self.near[each.article].append(number)

    def loss(self, networks: dict[str, Model]) -> Loss:
        return ReadingLoss(networks[""], self.sheet, self.recipe.parts)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * len(self._cut(0))))

    def _cut(self, epoch: int) -> list[list[int]]:
        """The passages of each step of an epoch: in a new order, those of like length together, and as many as have a
        batch's questions."""
        rng = chance(self.recipe.seed, epoch, len(self.told))
        order, batches = rng.permutation(len(self.told)).tolist(), list[list[int]]()
        mean = sum(self.sizes) / len(self.sizes)
        pool = math.ceil(TOGETHER * self.recipe.batch / mean)
        for start in range(0, len(order), pool):
            like = sorted(order[start : start + pool], key=lambda number: len(self.told[number].window.ids))
            batches.append([])
            asked = 0
            for number in like:
                if asked >= self.recipe.batch:
                    batches.append([])
                    asked = 0
                batches[-1].append(number)
                asked += self.sizes[number]
        return [batches[number] for number in rng.permutation(len(batches))]

    def batches(self, place: Place) -> Iterator[tuple[list[list[Example]], Place]]:
        while True:
            cut = self._cut(place.epoch)
            for number in range(place.piece, len(cut)):
                rng = chance(self.recipe.seed, place.epoch, number, len(cut))
                examples = [self.example(self.told[index], rng) for index in cut[number]]
                shelves = shelve([len(example.layout) for example in examples], self.recipe.row)
                yield [[examples[index] for index in shelf] for shelf in shelves], Place(place.epoch, number + 1)
            place = Place(place.epoch + 1, 0)

    def example(self, told: Told, rng: Rng) -> Example:
        """A passage with its questions, each answered by one of the accepted answers; and a stranger, at times."""
        recipe, sheet = self.recipe, self.sheet
        asked = [(ids, spans[int(rng.integers(len(spans)))] if spans else NONE) for _, ids, spans in told.questions]
        asked += [(ids, NONE) for ids in self._strangers(told, rng)]
        parts, answers = [sheet.trunk(told.window.ids)], list[tuple[int, int]]()
        for ids, (start, length) in asked:
            answer = [*(told.window.ids[start : start + length] if length else ()), sheet.sep]
            lay_out = sheet.writing if rng.random() < recipe.written else sheet.slotted
            parts.append(lay_out(ids, answer, len(answers) + 1))
            answers.append((start, length))
        return Example(join(parts), answers=torch.tensor(answers))

    def _strangers(self, told: Told, rng: Rng) -> list[list[int]]:
        """Questions of other passages of the article, as many as chance says, whose answers do not stand here."""
        found = []
        for _ in range(rng.binomial(len(told.questions), min(1.0, self.recipe.strangers))):
            other = self.told[self.near[told.article][int(rng.integers(len(self.near[told.article])))]]
            _, ids, spans = other.questions[int(rng.integers(len(other.questions)))]
            texts = [other.window.ids[start : start + length] for start, length in spans]
            if other.window.passage != told.window.passage and not any(
                _stands(text, told.window.ids) for text in texts
            ):
                found.append(ids)
        return found

    def evaluate(self, loss: Loss) -> dict[str, float]:
        reader = Reader(loss.model)
        answers = reader.ask_many([(record.question, record.passages) for record in self.test])
        found = {record.id: answer.text for record, answer in zip(self.test, answers, strict=True)}
        scores = METRICS[self.recipe.metric](found, self.test).total
        return {"held_out": 100 - scores["f1"]} | scores


def tell(model: Model, sheet: Sheet, records: Sequence[Asked], most: int) -> list[Told]:
    """Records as windows with their questions: all questions of a passage together, at windows that hold an answer; a
    window without any has them as questions without an answer."""
    asked = defaultdict[str, list[tuple[Asked, int]]](list)
    for record in records:
        for number, passage in enumerate(record.passages):
            asked[passage].append((record, number))
    passages, tokenizer = list(asked), model.reader
    ids = dict(zip(records, sheet.questions(tokenizer, [record.question for record in records]), strict=True))
    found = []
    for window in sheet.windows(tokenizer, passages):
        questions = []
        for record, number in asked[passages[window.passage]]:
            spans = [_tokens(window, gold.start, gold.start + len(gold.text)) for gold in record.spans[number]]
            questions.append((record.id, ids[record], [span for span in spans if span is not None]))
        title = asked[passages[window.passage]][0][0].title
        for start in range(0, len(questions), most):
            found.append(Told(window, title, questions[start : start + most]))
    return found


def _tokens(window: Window, start: int, end: int) -> tuple[int, int] | None:
    """The tokens of a window, as (start, length), that cover the characters; None if they are not all in it."""
    held = [index for index, (first, last) in enumerate(window.places) if first < end and last > start]
    if not held or window.places[held[0]][0] > start or window.places[held[-1]][1] < end:
        return None
    return held[0], held[-1] - held[0] + 1


def _stands(text: Sequence[int], passage: Sequence[int]) -> bool:
    """Do the words stand somewhere in the passage?"""
    return any(passage[at : at + len(text)] == text for at in range(len(passage) - len(text) + 1))


def _sum(flags: Sequence[Tensor]) -> int:
    return sum(int(each.sum()) for each in flags)
