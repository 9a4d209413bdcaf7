"""Training of an encoder: queries and their passages get near vectors, queries and other passages distant ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import Batch, DataCursor, Row
from masquerade.data.rng import Rng, rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.training import FineTune
from masquerade.layout import Layout
from masquerade.memory.retrieval.encoder import Encoder, grouped_parts
from masquerade.memory.retrieval.passage_parts import best_parts, clause_ends, part_ends
from masquerade.memory.retrieval.pooling import CONFIG, Pooling
from masquerade.memory.retrieval.training_pairs import (
    NOTHING,
    PairSet,
    cloze_passages,
    inverse_cloze,
    negatives_by_vectors,
    negatives_by_words,
    query_scores,
    question_pairs,
)
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.reading.records import read_questions
from masquerade.training.loop import mean_loss
from masquerade.training.recipe import FineTuning

TASKS = ("questions", "cloze")
CUTS = (1, 5, 20)  # recall is measured among this many passages

Drawn = tuple[str, str, int, list[int]]  # a query, its passage, the number of the passage, those of hard negatives


@dataclass(frozen=True, kw_only=True)
class EncoderTraining(FineTuning):
    """A run over questions with passages, or over plain texts."""

    task: str = "questions"  # questions with their passages; or cloze: sentences of texts, without any labels
    pooling: str = ""  # mean or cls; empty: what the files of ``start`` say
    part: int = -1  # tokens of a passage's part that has a vector of its own; 0: one vector; -1: as ``start`` has it
    temperature: float = 0.05  # dot products are divided by it
    group: int = 32  # queries whose passages are negatives of each other
    neighbours: int = 1  # queries next to each other in the data that stay together: they share passages and articles
    hard: int = 0  # further passages for each passage of a group, which look like it but are not
    candidates: int = 8  # such passages that are searched for a query; ``hard`` of them are drawn each time
    mine_every: int = 0  # steps after which the encoder itself searches them anew; 0: those of BM25 stay
    keep: float = 0.1  # cloze: how often the sentence stays in its passage
    frozen: int = 0  # the first layers, as many, stay as they are, and so do the embeddings; 0: all learn
    dropout: float = 0.0  # attention has none, which is much faster
    length: int = 256  # tokens of a text at most
    row: int = 256
    micro: int = 1  # groups that are computed at once
    held_out_questions: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task not in TASKS:
            raise MasqueradeError(f"There is no task '{self.task}' for encoders; choose from {', '.join(TASKS)}.")
        if self.task == "cloze" and (self.hard or self.mine_every):
            raise MasqueradeError("Inverse cloze has no hard negatives; leave 'hard' and 'mine_every' at 0.")
        if not self.temperature > 0:
            raise MasqueradeError(f"The recipe's 'temperature' is {self.temperature}; it has to be above 0.")
        if self.group < 2 or self.hard < 0 or self.hard > self.candidates:
            raise MasqueradeError("A recipe needs 'group' of at least 2, and 'hard' from 0 to 'candidates'.")
        if self.part < -1:
            raise MasqueradeError(f"The recipe's 'part' is {self.part}; it has to be -1 (as 'start' has it) or more.")
        if self.neighbours < 1 or self.group % self.neighbours:
            raise MasqueradeError("The recipe's 'neighbours' has to divide 'group'.")


class ContrastiveLoss(Loss):
    """Cross-entropy of each query's own passage among all passages of its group. A row of a batch is a group: its
    queries and its passages, packed. Groups are independent, so the loss is the same for any number of processes."""

    def __init__(self, model: Model, pooling: Pooling, temperature: float, frozen: int = 0) -> None:
        super().__init__(model)
        self.pooling, self.temperature = pooling, temperature
        layers = getattr(model.stack, "layers", None)
        if frozen and (not isinstance(layers, nn.ModuleList) or frozen > len(layers)):
            raise MasqueradeError(f"This network has no {frozen} layers that could be 'frozen'; give a smaller number.")
        kept = [model.words, model.embeddings, *layers[:frozen]] if frozen and layers is not None else []
        for part in (model.pooler, model.heads, *kept):  # nothing reads the first two
            if part is not None:
                part.requires_grad_(False)

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        return {"queries": sum(_target(each) != NOTHING for row in rows for each in row)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        targets = batch.extra["encoder.target"]  # of each text: the number of its passage, NOTHING for passages
        sizes = batch.extra["encoder.texts"].tolist()  # texts of each group
        texts = unpacked(batch.layout)
        own = [self.ends(ids, target == NOTHING) for (ids, _), target in zip(texts, targets.tolist(), strict=True)]
        # each text is a row of its own in the network, beside texts of like lengths
        vectors = iter(grouped_parts(self.model, texts, own, self.pooling))
        summed = torch.zeros((), device=targets.device)
        for target in torch.split(targets, sizes):
            some = list(islice(vectors, len(target)))
            asks = target != NOTHING
            passages = some[int(asks.sum()) :]  # they stand behind the queries
            owner = [number for number, parts in enumerate(passages) for _ in parts]
            scores = torch.cat(some[: int(asks.sum())]) @ torch.cat(passages).T / self.temperature  # (queries, parts)
            best = best_parts(scores, torch.tensor(owner, device=scores.device), len(passages))
            summed = summed + F.cross_entropy(best, target[asks], reduction="sum")
        return {"queries": summed}

    def ends(self, ids: Sequence[int], passage: bool) -> list[int]:
        """Where the parts of a text end that have a vector of their own; a query has one part."""
        stops = clause_ends(self.model.tokenizer)
        return part_ends(ids, stops, self.pooling.part) if passage and self.pooling.part else [len(ids)]


def unpacked(layout: Layout) -> list[tuple[list[int], list[int]]]:
    """The ids and segments of each document of packed rows, in reading order."""
    real = layout.real
    row = torch.arange(layout.rows, device=real.device)[:, None].expand_as(real)[real]
    number = torch.stack([row, layout.document[real]])
    changes = (number[:, 1:] != number[:, :-1]).any(0).nonzero()[:, 0] + 1
    cuts = changes.cpu()
    pairs = zip(*(torch.tensor_split(field[real].cpu(), cuts) for field in (layout.ids, layout.segment)), strict=True)
    return [(ids.tolist(), segment.tolist()) for ids, segment in pairs]


class TrainEncoder(FineTune):
    """One network for queries and passages."""

    recipe: EncoderTraining
    pooling: Pooling

    def __init__(self, recipe: EncoderTraining) -> None:
        self.recipe, self.every = recipe, recipe.mine_every if recipe.hard else 0

    def begin(self) -> dict[str, Model]:
        chosen: dict[str, Any] = {"pooling": self.recipe.pooling} if self.recipe.pooling else {}
        chosen |= {"part": self.recipe.part} if self.recipe.part >= 0 else {}
        encoder = Encoder.load(self.recipe.start, **chosen)
        start, spec = encoder.model, replace(encoder.model.spec, dropout=self.recipe.dropout, attention_dropout=0.0)
        model = Model(spec, start.tokenizer, {**start.config, CONFIG: asdict(encoder.pooling)})
        model.load_state_dict(start.state_dict())
        return {"": model}

    def read(self, model: Model, folder: Path) -> None:
        recipe = self.recipe
        self.pooling = Pooling(**model.config[CONFIG])
        self.longest = min(recipe.length, Encoder(model, self.pooling).longest)
        self.texts, self.test_texts = list[str](), list[str]()
        if recipe.task == "cloze":
            self.texts = cloze_passages(recipe.train, folder)[: recipe.limit or None]
            self.test_texts = cloze_passages(recipe.held_out, folder) if recipe.held_out else []
            self.test_texts = self.test_texts[: recipe.held_out_questions]
            self.count, self.test_count = len(self.texts), len(self.test_texts)
            return
        source = folder / "passages.jsonl"
        records, tests = (
            [record for file in files for record in read_questions(file) if record.accepted]
            for files in (recipe.train, recipe.held_out)
        )
        self.data = question_pairs(records[: recipe.limit or None], source)
        self.test = question_pairs(tests[: recipe.held_out_questions])
        self.count, self.test_count = len(self.data.pairs), len(self.test.pairs)
        if not self.count:
            raise MasqueradeError("No training question has a passage with its answer, so there is nothing to learn.")
        if recipe.hard and "negatives" not in self.kept:
            self.kept["negatives"] = negatives_by_words(self.data, source, folder / "words", recipe.candidates)

    def refresh(self, model: Model, step: int) -> None:
        """Negatives by the encoder as it is now; at the beginning those of BM25 stay."""
        if step:
            encoder = Encoder(model, self.pooling)
            self.kept["negatives"] = negatives_by_vectors(self.data, encoder, self.recipe.candidates)

    def loss(self, networks: dict[str, Model]) -> Loss:
        self.tokenizer = networks[""].tokenizer
        return ContrastiveLoss(networks[""], self.pooling, self.recipe.temperature, self.recipe.frozen)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * math.ceil(self.count / self.recipe.batch)))

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        recipe = self.recipe
        while True:
            order = self._order(cursor.epoch)
            for start in range(cursor.piece, self.count, recipe.batch):
                rng = rng_for(recipe.seed, cursor.epoch, start)
                yield (
                    self._rows(order[start : start + recipe.batch], rng),
                    DataCursor(cursor.epoch, start + recipe.batch),
                )
            cursor = DataCursor(cursor.epoch + 1)

    def _order(self, epoch: int) -> list[int]:
        """The numbers of all queries in the order of an epoch; neighbours stay together."""
        size = self.recipe.neighbours
        starts = rng_for(self.recipe.seed, epoch, self.count).permutation(math.ceil(self.count / size)) * size
        return [number for start in starts.tolist() for number in range(start, min(start + size, self.count))]

    def evaluate(self, loss: Loss) -> dict[str, float]:
        if not self.test_count:
            raise MasqueradeError("No held-out question has a passage with its answer; give others, or none.")
        rows = self._rows(range(self.test_count), rng_for(0, 0), test=True)
        return mean_loss(loss, rows, self.recipe.micro) | self.scores(loss.model)

    def scores(self, model: Model) -> dict[str, float]:
        """How often a query's own passage is among the first 1, 5 and 20 of all held-out passages."""
        encoder, rng = Encoder(model, self.pooling), rng_for(0, 1)
        data = self.test if self.recipe.task == "questions" else None
        drawn = [self._test_pair(rng, number) for number in range(self.test_count)]
        passages = [each[1] for each in drawn] if data is None else data.passages
        wanted = torch.arange(self.test_count) if data is None else torch.tensor([each[2] for each in drawn])
        scores = query_scores(encoder, [each[0] for each in drawn], encoder.encode_parts(passages))
        place = (scores > scores.gather(1, wanted[:, None])).sum(1)  # how many passages are before it
        return {f"recall_{cut}": float((place < cut).float().mean()) for cut in CUTS}

    def _pair(self, rng: Rng, number: int) -> Drawn:
        recipe = self.recipe
        if recipe.task == "cloze":
            return (*inverse_cloze(self.texts[number], recipe.keep, rng), number, [])
        pair = self.data.pairs[number]
        wrong = self.kept["negatives"][number].tolist() if recipe.hard else []
        wrong = [each for each in wrong if each != NOTHING]
        chosen = [wrong[index] for index in rng.permutation(len(wrong))[: recipe.hard]]
        return pair.query, self.data.passages[pair.passage], pair.passage, chosen

    def _test_pair(self, rng: Rng, number: int) -> Drawn:
        if self.recipe.task == "cloze":
            return (*inverse_cloze(self.test_texts[number], 0.0, rng), number, [])
        pair = self.test.pairs[number]
        return pair.query, self.test.passages[pair.passage], pair.passage, []

    def _rows(self, numbers: Sequence[int], rng: Rng, test: bool = False) -> list[Row]:
        """A row for each group of queries."""
        size, draw = self.recipe.group, self._test_pair if test else self._pair
        data: PairSet | None = None if self.recipe.task == "cloze" else self.test if test else self.data
        groups = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        return [self._row([draw(rng, number) for number in group], data) for group in groups]

    def _row(self, drawn: Sequence[Drawn], data: PairSet | None) -> Row:
        """The queries of a group, then its passages, each once: those of the queries, then the hard negatives, of the
        first query of each passage."""
        passages = {number: text for _, text, number, _ in drawn}
        for wrong in {number: wrong for _, _, number, wrong in reversed(drawn)}.values():
            for number in wrong:
                if data is not None and number not in passages:
                    passages[number] = data.passages[number]
        place = {number: index for index, number in enumerate(passages)}
        targets = [*(place[number] for _, _, number, _ in drawn), *(NOTHING for _ in passages)]
        texts = [
            *(self.pooling.query + query for query, _, _, _ in drawn),
            *(self.pooling.passage + text for text in passages.values()),
        ]
        encoded = self.tokenizer.encode_pairs([(text, None) for text in texts], self.longest)
        made = list[Example]()
        for (ids, segment), target in zip(encoded, targets, strict=True):
            extra = {"encoder.target": PerExample(target)}
            if not made:
                extra["encoder.texts"] = PerExample(len(texts))
            made.append(Example(Layout.of(ids, segment=segment), extra=extra))
        return made


def _target(example: Example) -> int:
    return int(example.extra["encoder.target"].tensor[0])
