"""What a judge is trained for: classification of long documents, and reading them (CogLTX)."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.predict import predict, under_own_mask
from masquerade.labelling.records import read_classified
from masquerade.labelling.training import check_labels, class_example, class_targets, new_classifier
from masquerade.layout import join
from masquerade.memory.working.blocks import TextBlock, text_blocks
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.long_documents import LongDocument
from masquerade.memory.working.reasoners import MemoryClassifier, MemoryReader
from masquerade.memory.working.selection import WorkingMemory
from masquerade.nn.model import Model
from masquerade.objectives.loss import LabelSetTerm, Loss, SentenceTerm, TermLoss
from masquerade.reading.examples import ReadingLoss
from masquerade.reading.lexical import LexicalIndex
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.loop import mean_loss

if TYPE_CHECKING:
    from masquerade.memory.working.training import MemoryTraining

_WORD_MARKS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Reasoned:
    """An example for the task model, and where each chosen block stands in it, as (start, end)."""

    example: Example
    places: tuple[tuple[int, int], ...]


class Task(ABC):
    """A task over long documents: its records, its task model, its examples and its scores."""

    given: bool  # whether records say which blocks are relevant

    @abstractmethod
    def reasoner(self) -> Model:
        """The task model of a fresh run."""

    @abstractmethod
    def documents(self, judge: Judge, model: Model) -> list[LongDocument]:
        """The training documents."""

    @abstractmethod
    def example(self, model: Model, number: int, chosen: Sequence[int]) -> Reasoned:
        """Some blocks of a training document, for the task model."""

    @abstractmethod
    def loss(self, model: Model) -> Loss:
        """The loss of the task model."""

    @abstractmethod
    def scores(self, model: Model, memory: WorkingMemory) -> dict[str, float]:
        """The scores on the held-out documents; ``held_out`` is the one to watch."""

    def losses(self, model: Model, examples: Sequence[Example]) -> list[float]:
        """The loss of each example."""
        loss = self.loss(model)
        return [mean_loss(loss, [[example]], 1)["held_out"] for example in examples]


def best_blocks(blocks: Sequence[TextBlock], words: Sequence[int], most: int) -> list[int]:
    """The relevance that training begins with: 1 for the blocks that share most words with a text, or for the first
    block where none does."""
    scores = LexicalIndex([block.ids for block in blocks]).scores(words)
    best = {int(number) for number in scores.argsort(kind="stable")[::-1][:most] if scores[number] > 0} or {0}
    return [int(number in best) for number in range(len(blocks))]


def long_document(judge: Judge, query: str, blocks: Sequence[TextBlock], relevance: list[int]) -> LongDocument:
    """A document as a judge reads it."""
    closed = [judge.closed(block.ids) for block in blocks]
    return LongDocument(judge.query(query), closed, relevance, [0.0] * len(closed))


class ClassifyTask(Task):
    """Classes of long documents. There is no query, and no record says which blocks are relevant; training begins with
    the blocks that have words of the label's name."""

    given = False

    def __init__(self, recipe: MemoryTraining) -> None:
        self.recipe, names = recipe, (recipe.text, recipe.pair, recipe.label)
        train = [record for source in recipe.train for record in read_classified(source, *names)]
        self.train = [record for record in train if record.text.strip()][: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_classified(source, *names)]
        self.test = self.test[: recipe.held_out_documents or None]
        check_labels(recipe, [*self.train, *self.test])

    def reasoner(self) -> Model:
        return new_classifier(load(self.recipe.reasoner or self.recipe.start), self.recipe, self.train)

    def documents(self, judge: Judge, model: Model) -> list[LongDocument]:
        self.targets, self.blocks, found = class_targets(model, self.recipe, self.train), list[list[TextBlock]](), []
        for record in self.train:
            blocks = text_blocks(judge.tokenizer, record.text, self.recipe.block)
            blocks = blocks or [TextBlock((judge.tokenizer.special("unk"),), 0, 0)]
            words = _WORD_MARKS.sub(" ", " ".join(record.labels if self.recipe.several else [str(record.label)]))
            relevance = best_blocks(blocks, judge.tokenizer.encode(words), self.recipe.first)
            self.blocks.append(blocks)
            found.append(long_document(judge, "", blocks, relevance))
        return found

    def example(self, model: Model, number: int, chosen: Sequence[int]) -> Reasoned:
        cls, sep = (model.tokenizer.special(role) for role in ("cls", "sep"))
        parts = [self.blocks[number][each].ids for each in chosen]
        layout = under_own_mask(model, [cls, *(token for part in parts for token in part), sep])
        return Reasoned(class_example(model, layout, self.targets[number]), places_of(parts, 1))

    def loss(self, model: Model) -> Loss:
        return TermLoss(model, {"classes": (LabelSetTerm if self.recipe.several else SentenceTerm)("classify")})

    def losses(self, model: Model, examples: Sequence[Example]) -> list[float]:
        if self.recipe.several or self.recipe.regression:
            return super().losses(model, examples)
        scores = torch.stack(predict(model, [example.layout for example in examples], "classify"))
        labels = torch.stack([example.extra["sentence_label"].tensor[0] for example in examples])
        costs: list[float] = F.cross_entropy(scores, labels, reduction="none").tolist()
        return costs

    def scores(self, model: Model, memory: WorkingMemory) -> dict[str, float]:
        classifier = Classifier(model, self.recipe.window)
        reasoner, predictions = MemoryClassifier(classifier, memory), []
        predictions = [reasoner([record.text])[0][0] for record in self.test]
        found = classifier.scored(predictions, self.test)
        if self.recipe.several or self.recipe.regression:
            return {"held_out": next(iter(found.values())), **found}
        costs = [
            -math.log(max(each.scores[str(r.label)], 1e-9)) for each, r in zip(predictions, self.test, strict=True)
        ]
        return {"held_out": sum(costs) / max(len(costs), 1), **found}


class ReadTask(Task):
    """Questions about long texts. The blocks of the answer are relevant; without such labels, training begins with the
    blocks that share most words with the question."""

    given = True

    def __init__(self, recipe: MemoryTraining) -> None:
        self.recipe = recipe
        train = [record for source in recipe.train for record in read_questions(source)]
        self.train = [record for record in train if any(record.spans)][: recipe.limit or None]
        test = [record for source in recipe.held_out for record in read_questions(source)]
        self.test = test[: recipe.held_out_documents or None]
        if not self.train:
            raise MasqueradeError("The training data has no question with an answer in its text; add some.")

    def reasoner(self) -> Model:
        model = load(self.recipe.reasoner or self.recipe.start)
        Settings.of(model)
        return model

    def documents(self, judge: Judge, model: Model) -> list[LongDocument]:
        self.sizes = Settings.of(model).layout(model)
        self.questions = self.sizes.questions(model.tokenizer, [record.question for record in self.train])
        cut, self.blocks, found = dict[str, list[TextBlock]](), list[list[TextBlock]](), []
        for record in self.train:
            number = next(number for number, spans in enumerate(record.spans) if spans)
            text = record.passages[number]
            if text not in cut:
                cut[text] = text_blocks(judge.tokenizer, text, self.recipe.block)
            blocks = cut[text]
            if self.recipe.relevance == "given":
                relevance = _answering(record, number, blocks)
            else:
                relevance = best_blocks(blocks, judge.query(record.question)[1:-1], self.recipe.first)
            self.blocks.append(blocks)
            found.append(long_document(judge, record.question, blocks, relevance))
        return found

    def example(self, model: Model, number: int, chosen: Sequence[int]) -> Reasoned:
        sizes, record = self.sizes, self.train[number]
        blocks, room = [self.blocks[number][each] for each in chosen], sizes.room
        kept = [block for at, block in enumerate(blocks) if sum(len(b.ids) for b in blocks[: at + 1]) <= room]
        ids = [token for block in kept for token in block.ids]
        passage = next(at for at, spans in enumerate(record.spans) if spans)
        start, length = next(iter(_spans(record, passage, kept, model.tokenizer)), (-1, 0))
        length = length if length <= sizes.longest_answer else 0
        answer = [*ids[max(start, 0) :][:length], sizes.sep]
        layout = join([sizes.trunk(ids), sizes.with_labels(self.questions[number], answer, 1)])
        span = (start, length) if length else (-1, 0)
        places = places_of([block.ids for block in kept], 0)
        return Reasoned(Example(layout, extra={"answers": PerExample([span])}), places)

    def loss(self, model: Model) -> Loss:
        return ReadingLoss(model, self.sizes, Settings.of(model).parts)

    def scores(self, model: Model, memory: WorkingMemory) -> dict[str, float]:
        reader = MemoryReader(Reader(model), memory)
        found = {record.id: reader.ask(record.question, record.passages)[0].text for record in self.test}
        total: Mapping[str, float] = METRICS[self.recipe.metric](found, self.test).total
        return {"held_out": next(iter(total.values())), **total}


def places_of(parts: Sequence[Sequence[int]], first: int) -> tuple[tuple[int, int], ...]:
    """The token ranges (end not included) of parts that stand one after the other, from ``first`` on."""
    found, start = list[tuple[int, int]](), first
    for part in parts:
        found.append((start, start + len(part)))
        start += len(part)
    return tuple(found)


def _answering(record: QuestionRecord, number: int, blocks: Sequence[TextBlock]) -> list[int]:
    """1 for the blocks that have an answer, or a part of one."""
    spans = [(gold.start, gold.start + len(gold.text)) for gold in record.spans[number]]
    return [int(any(block.start < end and start < block.end for start, end in spans)) for block in blocks]


def _spans(
    record: QuestionRecord, number: int, blocks: Sequence[TextBlock], tokenizer: Tokenizer
) -> list[tuple[int, int]]:
    """The answers that stand whole in one of the blocks, as (start, length) in the joined tokens of the blocks."""
    found, before = list[tuple[int, int]](), 0
    for block in blocks:
        for gold in record.spans[number]:
            first, last = gold.start - block.start, gold.start + len(gold.text) - block.start
            if first >= 0 and last <= block.end - block.start:
                places = tokenizer.encode_places([record.passages[number][block.start : block.end]])[0][1]
                inside = [at for at, (start, end) in enumerate(places) if start < last and end > first]
                found += [(before + inside[0], inside[-1] - inside[0] + 1)] if inside else []
        before += len(block.ids)
    return found
