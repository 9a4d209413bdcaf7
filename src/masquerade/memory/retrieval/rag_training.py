"""Training of RAG: the generator and the question encoder learn together through the marginal likelihood. The vectors
of the passages stay as they are, so the index never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import Batch, DataCursor, Row
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.training import FineTune
from masquerade.memory.retrieval.encoder import Encoder, sentence_vectors, text_layout
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.marginals import label_logs, marginal
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.memory.retrieval.rag import QUESTION, Rag, RagSettings
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.objectives.networks import savable
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import squad_normal
from masquerade.training.loop import mean_loss
from masquerade.training.recipe import FineTuning


@dataclass(frozen=True, kw_only=True)
class RagTraining(FineTuning):
    """A run over questions and answers with a collection."""

    kb: str = ""  # the folder of the collection
    kind: str = "sequence"  # as in RagSettings, like the keys up to 'temperature'
    documents: int = 5
    frame: str = ""
    length: int = 256
    row: int = 256
    answer: int = 32  # tokens of an answer, the end token included
    temperature: float = 1.0
    frozen: bool = False  # the question encoder does not learn, for comparison
    held_out_questions: int = 100
    micro: int = 4  # questions that go through the network at once

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kb:
            raise MasqueradeError("The recipe lacks the collection; add kb = '…'.")
        self.settings()

    def settings(self) -> RagSettings:
        """The settings of the trained model."""
        return RagSettings(self.kind, self.documents, self.length, self.frame, self.answer, self.temperature)


class RagLoss(Loss):
    """−log p(answer | question), summed over the passages of each row. A row is a question: one example a passage."""

    def __init__(self, model: Model, question: Model, pooling: Pooling, settings: RagSettings) -> None:
        super().__init__(model)
        self.question, self.pooling, self.settings = question, pooling, settings

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, QUESTION: self.question}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        return {"answers": len(rows)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        logs = label_logs(self.model, batch.layout, batch.source)
        passages = batch.extra["rag.passages"].tolist()  # how many each question has
        priors = self._priors(batch, passages)
        sizes = [number * length for number, length in zip(passages, batch.extra["rag.length"].tolist(), strict=True)]
        found = [
            marginal(part.view(number, -1), prior, self.settings.kind)
            for part, prior, number in zip(torch.split(logs, sizes), priors, passages, strict=True)
        ]
        return {"answers": -torch.stack(found).sum()}

    def _priors(self, batch: Batch, passages: list[int]) -> list[Tensor]:
        """The log-probabilities of each question's passages, (k,) each."""
        ids = torch.split(batch.extra["rag.question"], batch.extra["rag.words"].tolist())
        texts = [(each.tolist(), [0] * len(each)) for each in ids]
        layout = text_layout(texts, self.question.spec.pad).to(self.question.device)
        queries = sentence_vectors(self.question, layout, self.pooling).float()
        own = torch.split(batch.extra["rag.vectors"], passages)
        scores = [vectors @ query for vectors, query in zip(own, queries, strict=True)]
        return [(each / self.settings.temperature).log_softmax(-1) for each in scores]


class TrainRag(FineTune):
    """Questions with answers; passages are found anew at each step, by the question encoder as it is then."""

    recipe: RagTraining

    def __init__(self, recipe: RagTraining) -> None:
        self.recipe = recipe
        self.kb = KnowledgeBase.open(recipe.kb)
        read = (
            [record for source in sources for record in read_questions(source) if record.accepted]
            for sources in (recipe.train, recipe.held_out)
        )
        self.train, self.test = read
        self.train = self.train[: recipe.limit or None]
        self.test = self.test[: recipe.held_out_questions]
        if not self.train:
            raise MasqueradeError("None of the training questions has an answer, so there is nothing to learn.")

    def begin(self) -> dict[str, Model]:
        model = load(self.recipe.start)
        if "lm" not in model.spec.all_heads:
            model = model.with_heads(("lm",))
            model.spec = savable(model.spec)
        return {"": model, QUESTION: deepcopy(self.kb.encoder.model)}

    def read(self, model: Model, folder: Path) -> None:
        self.examples = []  # made at each step

    def loss(self, networks: dict[str, Model]) -> Loss:
        question = networks[QUESTION]
        for part in (question.pooler, question.heads, question if self.recipe.frozen else None):
            if part is not None:
                part.requires_grad_(False)  # nothing reads them, or they are to stay
        self.rag = Rag(networks[""], Encoder(question, self.kb.encoder.pooling), self.kb, self.recipe.settings())
        return RagLoss(networks[""], question, self.rag.question.pooling, self.rag.settings)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * -(-len(self.train) // self.recipe.batch)))

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        recipe, count = self.recipe, len(self.train)
        while True:
            order = rng_for(recipe.seed, cursor.epoch, count).permutation(count).tolist()
            for start in range(cursor.piece, count, recipe.batch):
                chosen = [self.train[index] for index in order[start : start + recipe.batch]]
                yield self._rows(chosen), DataCursor(cursor.epoch, start + recipe.batch)
            cursor = DataCursor(cursor.epoch + 1)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        return mean_loss(loss, self._rows(self.test), self.recipe.micro) | self.scores(loss.model)

    def scores(self, model: Model) -> dict[str, float]:
        """How often the first text is an accepted answer, and one of the passages holds one."""
        right = found = 0
        for record in self.test:
            accepted = {squad_normal(answer) for answer in record.accepted}
            answer = self.rag.answer(record.question, beams=1)[0]
            right += squad_normal(answer.text) in accepted
            found += any(each in squad_normal(passage.text) for passage, _ in answer.passages for each in accepted)
        return {"exact": right / len(self.test), "answer_found": found / len(self.test)}

    def _rows(self, records: Sequence[QuestionRecord]) -> list[Row]:
        """A row for each question."""
        training = self.rag.question.model.training
        self.rag.question.model.eval()
        retrieved = self.rag.retrieve([record.question for record in records])
        self.rag.question.model.train(training)
        return [self._row(record, [each.stored.id for each in found], [each.text for each in found])
                for record, (found, _) in zip(records, retrieved, strict=True)]  # fmt: skip

    def _row(self, record: QuestionRecord, ids: list[int], texts: list[str]) -> Row:
        """The examples of one question: one a passage; the first carries what belongs to the question."""
        rag, tokenizer = self.rag, self.rag.generator.tokenizer
        end = [] if rag.frame.end is None else [rag.frame.end]
        target = [*tokenizer.encode(record.accepted[0])[: self.recipe.answer - len(end)], *end]
        encoder = rag.question
        asked = encoder.pooling.query + record.question
        words = encoder.model.tokenizer.encode_pairs([(asked, None)], encoder.longest)[0][0]
        vectors = torch.from_numpy(self.kb.store.vectors(ids, encoder.width)[0])
        made = list[Example]()
        for number, text in enumerate(texts):
            canvas = rag.frame.canvas([rag.prompt(record.question, text)])
            extra = {"rag.vectors": PerExample(vectors[number : number + 1])}
            if number == 0:
                extra |= {
                    "rag.question": PerExample(words), "rag.words": PerExample(len(words)),
                    "rag.passages": PerExample(len(texts)), "rag.length": PerExample(len(target)),
                }  # fmt: skip
            source = None if canvas.source is None else canvas.source.row(0)
            made.append(Example(canvas.with_targets(torch.tensor([target])).row(0), source, extra))
        return made
