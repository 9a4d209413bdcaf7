"""Training of REALM: retriever and reader learn together, first from texts with masked names and dates, then from
questions with answers. The index follows the retriever: a second process makes it anew while training goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

from masquerade.checkpoints.folders import load
from masquerade.data.packing import DataCursor, Row
from masquerade.data.rng import Rng, rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.training import FineTune
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.index_refresh import RefreshedIndex, index_name
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.pooling import CONFIG, Pooling
from masquerade.memory.retrieval.realm import Masked, Realm, RealmSettings
from masquerade.memory.retrieval.realm_loss import RETRIEVER, RealmLoss, salient_places
from masquerade.memory.retrieval.training_pairs import cloze_passages, sentences
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.objectives.networks import savable
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.training.loop import mean_loss
from masquerade.training.recipe import FineTuning

TASKS = ("masked", "answers")


@dataclass(frozen=True, kw_only=True)
class RealmTraining(FineTuning):
    """A run over texts, or over questions and answers, with a collection."""

    kb: str = ""  # the folder of the collection; its encoder is the retriever at the start
    task: str = "masked"  # names and dates of texts are masked; or answers: spans of passages answer questions
    documents: int = 4  # passages for a text; a masked text has the empty passage besides
    temperature: float = 0.05  # dot products are divided by it
    query: int = 64  # tokens of a text or question
    refresh_every: int = 200  # steps after which the index is made anew; 0: it stays
    frozen: bool = False  # the retriever does not learn, for comparison
    length: int = 192  # tokens of a text with one passage
    row: int = 192
    held_out_questions: int = 100
    micro: int = 4  # texts that go through the network at once

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kb:
            raise MasqueradeError("The recipe lacks the collection; add kb = '…'.")
        if self.task not in TASKS:
            raise MasqueradeError(f"There is no task '{self.task}' for REALM; choose from {', '.join(TASKS)}.")
        if not self.temperature > 0:
            raise MasqueradeError(f"The recipe's 'temperature' is {self.temperature}; it has to be above 0.")
        if self.documents < 1 or self.query < 1 or self.length < self.query + 8:
            raise MasqueradeError("A recipe needs 'documents' of at least 1, and a 'length' well above 'query'.")


class TrainRealm(FineTune):
    """Texts or questions; their passages are found at each step, by the retriever as it is then in the index as it was
    made last."""

    recipe: RealmTraining

    def __init__(self, recipe: RealmTraining) -> None:
        self.recipe, self.kb = recipe, KnowledgeBase.open(recipe.kb)
        self.every = 0 if recipe.frozen else recipe.refresh_every
        if not self.kb.dense:
            raise MasqueradeError("REALM needs a collection with vectors; index it with --encoder.")
        if self.kb.encoder.pooling.part:
            raise MasqueradeError(
                "REALM needs one vector for each passage, and this collection's encoder gives one to each part; index "
                "it with another encoder."
            )

    def begin(self) -> dict[str, Model]:
        head = "lm" if self.recipe.task == "masked" else "spans"
        model, encoder = load(self.recipe.start), self.kb.encoder
        if head not in model.spec.all_heads:
            model = model.with_heads((head,))
            model.spec = savable(model.spec)
        retriever = deepcopy(encoder.model)
        retriever.config = {**retriever.config, CONFIG: asdict(encoder.pooling)}
        return {"": model, RETRIEVER: retriever}

    def read(self, model: Model, folder: Path) -> None:
        recipe = self.recipe
        names = (str(self.kept.get(key, "")) for key in ("index", "awaited"))
        self.index = RefreshedIndex(self.kb.store.folder, folder, *names)
        self.texts, self.test_texts = list[str](), list[str]()
        self.questions, self.test_questions = list[QuestionRecord](), list[QuestionRecord]()
        if recipe.task == "masked":
            self.texts = self._sentences(recipe.train, folder)[: recipe.limit or None]
            self.test_texts = self._sentences(recipe.held_out, folder)[: recipe.held_out_questions]
            self.count = len(self.texts)
        else:
            read = (
                [record for source in sources for record in read_questions(source) if record.accepted]
                for sources in (recipe.train, recipe.held_out)
            )
            self.questions, self.test_questions = read
            self.questions = self.questions[: recipe.limit or None]
            self.test_questions = self.test_questions[: recipe.held_out_questions]
            self.count = len(self.questions)
        if not self.count:
            raise MasqueradeError("There is nothing to learn: no text has a name or a date, or no question an answer.")

    def loss(self, networks: dict[str, Model]) -> Loss:
        recipe, retriever = self.recipe, networks[RETRIEVER]
        pooling = Pooling(**retriever.config[CONFIG])
        settings = RealmSettings(recipe.documents, recipe.temperature, recipe.query, recipe.length)
        self.realm = Realm(networks[""], Encoder(retriever, pooling), self.kb, settings, self.index)
        return RealmLoss(networks[""], retriever, pooling, recipe.temperature, recipe.frozen)

    def refresh(self, model: Model, step: int) -> None:
        """Take over the index that was begun at the last call, and begin the next one. So an index is always one
        interval old when it comes into use, on a fast machine as on a slow one, and a run can be repeated."""
        from accelerate import PartialState

        state = PartialState()
        if state.is_main_process:
            self.index.wait()
        state.wait_for_everyone()
        self.kept["index"] = self.index.swap()
        if step + self.every < self.steps:  # else it would never be used
            self.kept["awaited"] = self.index.awaited = index_name(step)
            if state.is_main_process:
                self.index.start(self.realm.encoder.model, step)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * -(-self.count // self.recipe.batch)))

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        recipe = self.recipe
        while True:
            order, made = rng_for(recipe.seed, cursor.epoch, self.count).permutation(self.count).tolist(), 0
            for start in range(cursor.piece, self.count, recipe.batch):
                rows = self._rows(order[start : start + recipe.batch], rng_for(recipe.seed, cursor.epoch, start))
                made += len(rows)
                if rows:
                    yield rows, DataCursor(cursor.epoch, start + recipe.batch)
            if not made and not cursor.piece:
                raise MasqueradeError(
                    "No answer to a training question stands in the passages that were found; raise 'documents'."
                )
            cursor = DataCursor(cursor.epoch + 1)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        count = len(self.test_texts) or len(self.test_questions)
        rows = self._rows(range(count), rng_for(0, 0), test=True)
        scores = {"found": len(rows) / count} if self.recipe.task == "answers" else {}
        return (mean_loss(loss, rows, self.recipe.micro) if rows else {"held_out": float("inf")}) | scores

    def scores(self, model: Model) -> dict[str, float]:
        return {}

    def _sentences(self, sources: Sequence[str], folder: Path) -> list[str]:
        """The sentences of files that have a name or a date."""
        found = [
            text[start:end].strip()
            for text in (cloze_passages(sources, folder) if sources else [])
            for start, end in sentences(text)
        ]
        return [text for text in dict.fromkeys(found) if salient_places(text)]

    def _rows(self, numbers: Sequence[int], rng: Rng, test: bool = False) -> list[Row]:
        """A row for each text or question; questions whose answer is in none of the passages are left out."""
        realm, retriever = self.realm, self.realm.encoder.model
        training = retriever.training
        retriever.eval()
        if self.recipe.task == "masked":
            chosen = [self._masked((self.test_texts if test else self.texts)[number], rng) for number in numbers]
            queries = [realm.query(each.text, each.place) for each in chosen]
            found = realm.candidates(queries, [each.text for each in chosen])
            rows = [realm.masked_row(*each) for each in zip(chosen, queries, found, strict=True)]
        else:
            asked = [(self.test_questions if test else self.questions)[number] for number in numbers]
            queries = [realm.query(each.question) for each in asked]
            found = realm.candidates(queries)
            made = [
                realm.answer_row(each.question, each.accepted, query, some)
                for each, query, some in zip(asked, queries, found, strict=True)
            ]
            rows = [row for row in made if any(bool(each.extra["realm.right"].tensor.any()) for each in row)]
        retriever.train(training)
        return rows

    def _masked(self, text: str, rng: Rng) -> Masked:
        places = salient_places(text)
        return Masked(text, places[int(rng.integers(len(places)))])
