"""Training a reader: questions in, a network that answers in one parallel step (and word by word) out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import DataCursor, Row, packed
from masquerade.data.rng import Rng, rng_for
from masquerade.errors import MasqueradeError
from masquerade.layout import join
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.reading.examples import Lesson, ReadingLoss, lessons
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.records import read_questions
from masquerade.reading.scores import METRICS
from masquerade.reading.span_scores import PARTS
from masquerade.training.loop import TrainingJob, mean_loss
from masquerade.training.recipe import Recipe

TOGETHER = 32  # how many batches are sorted by length together, so that a batch has rows of like length
NONE = (-1, 0)  # the span of a question that its passage does not answer


@dataclass(frozen=True, kw_only=True)
class Reading(Recipe):
    """A run over questions, from a pretrained encoder."""

    slots: int = 16  # tokens of an answer that is filled in, at most
    reach: int = 0  # tokens of an answer whose end is pointed at, at most; 0: as many as slots
    question: int = 45  # tokens of a question at most
    fork: int = 0  # through how many layers a passage is shared by its questions
    parts: Mapping[str, float] = field(default_factory=lambda: {"words": 1.0, "copies": 1.0, "pointers": 1.0})
    written: float = 0.0  # the share of questions whose answer is learnt word by word; that of the others in slots
    strangers: float = 0.1  # for each question, so many of other passages of the article, which have no answer here
    lowercase: bool = False  # read text in small letters, whatever the tokenizer says
    dropout: float = 0.1  # none inside of attention, which is much faster without
    most: int = 8  # questions of a passage in one example
    window: int = 0  # tokens of a passage that are read at once while it learns; 0: as many as there is room for
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
        for name in ("written", "strangers"):
            if not 0 <= getattr(self, name) <= 1:
                raise MasqueradeError(f"The recipe's '{name}' is a share, from 0 to 1, not {getattr(self, name)}.")
        if self.most < 1:
            raise MasqueradeError("The recipe's 'most' has to be a whole number of at least 1.")
        if self.reach and (self.reach < self.slots or not self.parts.get("pointers")):
            raise MasqueradeError(
                "The recipe's 'reach' has to be 0, or at least its 'slots' with pointers among its parts."
            )
        if self.window and not self.window > max(self.slots, self.reach):
            raise MasqueradeError(
                "The recipe's 'window' has to be longer than its 'slots' and its 'reach', or 0 for all that fits."
            )
        if not self.epochs > 0:
            raise MasqueradeError(f"The recipe's 'epochs' has to be above 0, but it is {self.epochs}.")
        if not self.start:
            raise MasqueradeError("The recipe does not say which checkpoint to train on; add start = '…'.")


class TrainReader(TrainingJob):
    """A reading recipe at work. A step takes some passages of like length with all their questions."""

    def __init__(self, recipe: Reading) -> None:
        self.recipe: Reading = recipe
        train = [record for source in recipe.train for record in read_questions(source)]
        self.train = train[: recipe.limit or None]
        held_out = [record for source in recipe.held_out for record in read_questions(source)]
        order = rng_for(0, len(held_out)).permutation(len(held_out))[: recipe.held_out_questions]
        self.test = [held_out[index] for index in sorted(order.tolist())]

    def begin(self) -> dict[str, Model]:
        recipe, start = self.recipe, load(self.recipe.start)
        heads = tuple(head for part, head in PARTS.items() if recipe.parts.get(part))
        kept = tuple(head for head in start.spec.all_heads if head == "lm" and head not in heads)
        others = {layer: part for layer, part in start.spec.between.items() if part[0] != "fork"}
        spec = replace(start.spec, family="masquerade", between={**others, recipe.fork: ("fork", {})}, pooler=False)
        spec = replace(spec, dropout=recipe.dropout, attention_dropout=0.0)
        tokenizer = start.tokenizer.lowercased() if recipe.lowercase else start.tokenizer
        model = Model(replace(spec, outputs=heads + kept, spare=()), tokenizer)
        mine, theirs = model.state_dict(), start.state_dict()
        model.load_state_dict({name: theirs.get(name, fresh) for name, fresh in mine.items()})
        parts = {part: recipe.parts.get(part, 0.0) for part in PARTS}
        written = {part: float(part == ("copies" if parts["copies"] else "words")) for part in ("words", "copies")}
        settings = Settings(recipe.slots, recipe.question, parts, written=written, reach=recipe.reach)
        return {"": settings.put(model)}

    def read(self, model: Model, folder: Path) -> None:
        self.sheet, tokenizer = Settings.of(model).sheet(model), model.tokenizer
        self.lessons = lessons(tokenizer, self.sheet, self.train, self.recipe.most, self.recipe.window)
        if not any(spans for lesson in self.lessons for _, spans in lesson.questions):
            raise MasqueradeError("There is no question with an answer in its passage to learn from.")
        self.near = defaultdict[str, list[Lesson]](list)
        for lesson in self.lessons:
            if lesson.questions:
                self.near[lesson.article].append(lesson)
        self.epoch = len(self._cut(0))
        held_out = [each for each in lessons(tokenizer, self.sheet, self.test, self.recipe.most) if each.questions]
        self.held_out = packed([self.example(each, rng_for(0, n)) for n, each in enumerate(held_out)], self.recipe.row)

    def loss(self, networks: dict[str, Model]) -> Loss:
        return ReadingLoss(networks[""], self.sheet, self.recipe.parts)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * self.epoch))

    def _cut(self, epoch: int) -> list[list[Lesson]]:
        """The windows of each step of an epoch: in a new order, those of like length together, and as many as have a
        batch's questions. Of the windows that answer nothing a few are among them, as there are few strangers."""
        rng = rng_for(self.recipe.seed, epoch, len(self.lessons))
        taken = [each for each in self.lessons if each.questions or rng.random() < self.recipe.strangers]
        order, batches = rng.permutation(len(taken)).tolist(), list[list[Lesson]]()
        pool = math.ceil(TOGETHER * self.recipe.batch * len(order) / sum(len(each.questions) for each in taken))
        for start in range(0, len(order), pool):
            asked = self.recipe.batch
            for lesson in sorted((taken[number] for number in order[start : start + pool]), key=_length):
                if asked >= self.recipe.batch:
                    batches.append([])
                    asked = 0
                batches[-1].append(lesson)
                asked += max(1, len(lesson.questions))
        return [batches[number] for number in rng.permutation(len(batches))]

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        while True:
            cut = self._cut(cursor.epoch)
            for number in range(cursor.piece, len(cut)):
                rng = rng_for(self.recipe.seed, cursor.epoch, number, len(cut))
                examples = [self.example(lesson, rng) for lesson in cut[number]]
                yield packed(examples, self.recipe.row), DataCursor(cursor.epoch, number + 1)
            cursor = DataCursor(cursor.epoch + 1)

    def example(self, lesson: Lesson, rng: Rng) -> Example:
        """A passage with its questions, each answered by one of the accepted answers; and at times others, which have
        no answer there."""
        sheet, ids = self.sheet, lesson.window.ids
        asked = [(ids, spans[int(rng.integers(len(spans)))] if spans else NONE) for ids, spans in lesson.questions]
        asked += [(ids, NONE) for ids in self._strangers(lesson, rng)]
        parts, answers = [sheet.trunk(ids)], [span for _, span in asked]
        for number, (question, (start, length)) in enumerate(asked, start=1):
            lay_out = sheet.writing if rng.random() < self.recipe.written else sheet.slotted
            parts.append(lay_out(question, [*ids[max(start, 0) :][:length], sheet.sep], number))
        return Example(join(parts), extra={"answers": PerExample(answers)})

    def _strangers(self, lesson: Lesson, rng: Rng) -> list[list[int]]:
        """Questions that the window does not answer: of other windows of the passage, and of other passages of the
        article, where their answers do not stand here; as many as chance says. A question of several passages may have
        its answer in any of them, so that one without an answer there may have it here."""
        share, near = self.recipe.strangers, self.near[lesson.article]
        known = [ids for ids, _ in lesson.questions]
        found = [ids for ids in lesson.absent if rng.random() < share]
        if not (lesson.questions or found):
            found = [lesson.absent[int(rng.integers(len(lesson.absent)))]]
        for _ in range(rng.binomial(len(lesson.questions), share) if near else 0):
            other = near[int(rng.integers(len(near)))]
            ids, spans = other.questions[int(rng.integers(len(other.questions)))]
            answers = [other.window.ids[start : start + length] for start, length in spans]
            elsewhere = other.window.passage != lesson.window.passage and ids not in known
            if elsewhere and answers and not any(map(lesson.says, answers)):
                found.append(ids)
        return found

    def evaluate(self, loss: Loss) -> dict[str, float]:
        answers = Reader(loss.model).ask_many([(record.question, record.passages) for record in self.test])
        found = {record.id: answer.text for record, answer in zip(self.test, answers, strict=True)}
        costs = mean_loss(loss, self.held_out, self.recipe.micro)
        return costs | METRICS[self.recipe.metric](found, self.test).total


def _length(lesson: Lesson) -> int:
    return len(lesson.window.ids)
