"""Training a reader from questions with answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import DataCursor, Row, packed
from masquerade.data.rng import Rng, rng_for
from masquerade.errors import MasqueradeError
from masquerade.layout import join
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.reading.examples import ReadingLoss, TrainingWindow, training_windows
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.records import read_questions
from masquerade.reading.scores import METRICS
from masquerade.reading.span_scores import PARTS
from masquerade.training.loop import TrainingJob, mean_loss
from masquerade.training.recipe import Recipe

TOGETHER = 32  # batches that are sorted by length together, so that the rows of a batch have similar lengths
NONE = (-1, 0)  # the span of a question that its passage does not answer


@dataclass(frozen=True, kw_only=True)
class Reading(Recipe):
    """The recipe of a reader, trained from a pretrained encoder."""

    renamed: ClassVar[Mapping[str, str]] = {"strangers": "unanswerable"}

    slots: int = 16  # the greatest number of tokens of an answer in slots
    reach: int = 0  # the greatest number of tokens of an answer by pointers; 0: that of slots
    question: int = 45  # the greatest number of tokens of a question
    fork: int = 0  # the number of layers through which a passage is shared by its questions
    apart: bool = False  # a question sees its passage only after the fork, so it is encoded once for all passages
    segment: int = 0  # the token type of a passage; 1 for encoders that were pretrained on pairs of texts
    block: int = 0  # tokens of a block of the passage that is scored at the fork; 0: blocks are not scored
    parts: Mapping[str, float] = field(default_factory=lambda: {"words": 1.0, "copies": 1.0, "pointers": 1.0})
    teacher: str = ""  # a trained reader with the same sizes whose span scores and states are learnt too
    taught: float = 1.0  # the weight of the teacher's span scores
    states: float = 1.0  # … and of its last hidden states
    written: float = 0.0  # the share of questions whose answer is trained token by token instead of in slots
    unanswerable: float = 0.1  # added questions without an answer in the window, per question
    lowercase: bool = False  # lowercase all text, whatever the tokenizer does
    dropout: float = 0.1  # attention has none, which is much faster
    most: int = 8  # the greatest number of questions of a passage in one example
    window: int = 0  # tokens of a window in training; 0: as many as fit
    metric: str = "squad"
    limit: int = 0  # the number of training questions to use; 0: all
    held_out_questions: int = 500  # held-out questions that are answered for the log
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
            raise MasqueradeError(
                f"The recipe's 'parts' have to be weights of {', '.join(PARTS)}, one of them above 0."
            )
        for name in ("written", "unanswerable"):
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
        if self.segment < 0:
            raise MasqueradeError(f"The recipe's 'segment' has to be 0 or more, not {self.segment}.")
        if self.block and not self.apart:
            raise MasqueradeError(
                "The recipe scores blocks ('block'), which needs questions encoded apart: apart = true."
            )
        if not self.epochs > 0:
            raise MasqueradeError(f"The recipe's 'epochs' has to be above 0, but it is {self.epochs}.")
        if not self.start:
            raise MasqueradeError("The recipe does not say which checkpoint to train on; add start = '…'.")


class TrainReader(TrainingJob):
    """The training of a reader. A step takes windows of similar length with all their questions."""

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
        spec = replace(start.spec, family="masquerade", pooler=False)
        options = {"block": recipe.block} if recipe.block else {}
        spec = replace(spec, between={**others, recipe.fork: ("fork", options)})
        spec = replace(spec, dropout=recipe.dropout, attention_dropout=0.0)
        tokenizer = start.tokenizer.lowercased() if recipe.lowercase else start.tokenizer
        model = Model(replace(spec, outputs=heads + kept, spare=()), tokenizer)
        mine, theirs = model.state_dict(), start.state_dict()
        model.load_state_dict({name: theirs.get(name, fresh) for name, fresh in mine.items()})
        parts = {part: recipe.parts.get(part, 0.0) for part in PARTS}
        written = {part: float(part == ("copies" if parts["copies"] else "words")) for part in ("words", "copies")}
        settings = Settings(
            recipe.slots,
            recipe.question,
            parts,
            written=written,
            reach=recipe.reach,
            apart=recipe.apart,
            segment=recipe.segment,
        )
        return {"": settings.put(model)}

    def read(self, model: Model, folder: Path) -> None:
        self.sizes, tokenizer = Settings.of(model).layout(model), model.tokenizer
        self.windows = training_windows(tokenizer, self.sizes, self.train, self.recipe.most, self.recipe.window)
        if not any(spans for each in self.windows for _, spans in each.questions):
            raise MasqueradeError("The training data has no question with an answer in its passage; add some.")
        self.near = defaultdict[str, list[TrainingWindow]](list)
        for each in self.windows:
            if each.questions:
                self.near[each.article].append(each)
        self.epoch = len(self._cut(0))
        tested = training_windows(tokenizer, self.sizes, self.test, self.recipe.most)
        held_out = [each for each in tested if each.questions]
        self.held_out = packed([self.example(each, rng_for(0, n)) for n, each in enumerate(held_out)], self.recipe.row)

    def loss(self, networks: dict[str, Model]) -> Loss:
        weights, teacher = dict(self.recipe.parts), None
        if self.recipe.teacher:
            teacher = load(self.recipe.teacher)
            theirs = Settings.of(teacher).layout(teacher)
            if replace(theirs, apart=self.sizes.apart) != self.sizes or teacher.spec.width != networks[""].spec.width:
                raise MasqueradeError(
                    f"The teacher {self.recipe.teacher} has other sizes than this recipe (width, slots, reach, "
                    "question, special tokens); give it the teacher's sizes, or another teacher."
                )
            weights |= {"taught": self.recipe.taught, "states": self.recipe.states}
        return ReadingLoss(networks[""], self.sizes, weights, teacher)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * self.epoch))

    def _cut(self, epoch: int) -> list[list[TrainingWindow]]:
        """The windows of each step of an epoch, shuffled: windows of similar length, with as many questions as a batch.
        Of the windows that answer no question, a share of ``unanswerable`` is used."""
        rng = rng_for(self.recipe.seed, epoch, len(self.windows))
        taken = [each for each in self.windows if each.questions or rng.random() < self.recipe.unanswerable]
        order, batches = rng.permutation(len(taken)).tolist(), list[list[TrainingWindow]]()
        pool = math.ceil(TOGETHER * self.recipe.batch * len(order) / sum(len(each.questions) for each in taken))
        for start in range(0, len(order), pool):
            asked = self.recipe.batch
            for each in sorted((taken[number] for number in order[start : start + pool]), key=_length):
                if asked >= self.recipe.batch:
                    batches.append([])
                    asked = 0
                batches[-1].append(each)
                asked += max(1, len(each.questions))
        return [batches[number] for number in rng.permutation(len(batches))]

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        while True:
            cut = self._cut(cursor.epoch)
            for number in range(cursor.piece, len(cut)):
                rng = rng_for(self.recipe.seed, cursor.epoch, number, len(cut))
                examples = [self.example(each, rng) for each in cut[number]]
                yield packed(examples, self.recipe.row), DataCursor(cursor.epoch, number + 1)
            cursor = DataCursor(cursor.epoch + 1)

    def example(self, given: TrainingWindow, rng: Rng) -> Example:
        """A window with its questions, each with one of its accepted answers, and with added questions that it does not
        answer."""
        sizes, ids = self.sizes, given.window.ids
        asked = [(ids, spans[int(rng.integers(len(spans)))] if spans else NONE) for ids, spans in given.questions]
        asked += [(ids, NONE) for ids in self._unanswerable(given, rng)]
        parts, answers = [sizes.trunk(ids)], [span for _, span in asked]
        for number, (question, (start, length)) in enumerate(asked, start=1):
            lay_out = sizes.with_answer if rng.random() < self.recipe.written else sizes.with_labels
            parts.append(lay_out(question, [*ids[max(start, 0) :][:length], sizes.sep], number))
        return Example(join(parts), extra={"answers": PerExample(answers)})

    def _unanswerable(self, given: TrainingWindow, rng: Rng) -> list[list[int]]:
        """A random sample of questions that the window does not answer: of other windows of the passage, and of other
        passages of the article if this window does not contain their answers. Questions without any known answer are
        not used, since this window might answer them."""
        share, near = self.recipe.unanswerable, self.near[given.article]
        known = [ids for ids, _ in given.questions]
        found = [ids for ids in given.absent if rng.random() < share]
        if not (given.questions or found):
            found = [given.absent[int(rng.integers(len(given.absent)))]]
        for _ in range(rng.binomial(len(given.questions), share) if near else 0):
            other = near[int(rng.integers(len(near)))]
            ids, spans = other.questions[int(rng.integers(len(other.questions)))]
            answers = [other.window.ids[start : start + length] for start, length in spans]
            elsewhere = other.window.passage != given.window.passage and ids not in known
            if elsewhere and answers and not any(map(given.contains, answers)):
                found.append(ids)
        return found

    def evaluate(self, loss: Loss) -> dict[str, float]:
        answers = Reader(loss.model).ask_many([(record.question, record.passages) for record in self.test])
        found = {record.id: answer.text for record, answer in zip(self.test, answers, strict=True)}
        costs = mean_loss(loss, self.held_out, self.recipe.micro)
        return costs | METRICS[self.recipe.metric](found, self.test).total


def _length(given: TrainingWindow) -> int:
    return len(given.window.ids)
