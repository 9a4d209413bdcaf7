"""RAG: a writer answers from the passages that a question encoder finds in a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load, locate
from masquerade.decoding.beam import Beam
from masquerade.errors import MasqueradeError
from masquerade.files import read_json
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.marginals import MarginalText, score_texts, write_sequence, write_token
from masquerade.memory.retrieval.search import Found, Score
from masquerade.nn.model import Model
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.generate import Rules
from masquerade.writing.prompts import Cloze, Frame, frame_for

KINDS = ("sequence", "token")
QUESTION = "question"  # the folder of the question encoder inside a checkpoint


@dataclass(frozen=True)
class RagSettings:
    """How passages are found and put together with a question."""

    kind: str = "sequence"  # one passage for a whole text, or one for each token
    documents: int = 5  # passages for a question
    length: int = 256  # tokens of a prompt: the question and one passage
    frame: str = ""  # how the writer is asked (masquerade.writing.prompts.NAMES); empty: its default
    answer: int = 32  # tokens of an answer at most, the end token included
    temperature: float = 1.0  # dot products are divided by it; 0.05 suits vectors of length 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MasqueradeError(f"There is no kind of RAG '{self.kind}'; choose from {', '.join(KINDS)}.")
        if self.documents < 1:
            raise MasqueradeError(f"RAG reads {self.documents} passages; give at least 1.")
        if not self.temperature > 0:
            raise MasqueradeError(f"The temperature of RAG is {self.temperature}; it has to be above 0.")


@dataclass(frozen=True)
class RagAnswer:
    """A text, its log-probability over all passages, and the passages with their probabilities."""

    text: str
    score: float
    passages: tuple[tuple[Found, float], ...]


class Rag:
    """A generator, a question encoder, and the collection whose passage vectors stay as they are."""

    def __init__(self, generator: Model, question: Encoder, kb: KnowledgeBase, settings: RagSettings) -> None:
        if not kb.dense:
            raise MasqueradeError("RAG needs a collection with vectors; index it with --encoder.")
        if question.pooling.part:
            raise MasqueradeError(
                "RAG needs one vector for each passage, and this collection's encoder gives one to each part; index it "
                "with another encoder."
            )
        if question.width != int(kb.store.meta("width")):
            raise MasqueradeError(
                f"The question encoder makes vectors of {question.width}, but those of the collection have "
                f"{kb.store.meta('width')}; train RAG with this collection's encoder."
            )
        self.generator, self.question, self.kb, self.settings = generator, question, kb, settings
        self.frame: Frame = frame_for(generator, settings.frame or None)
        if isinstance(self.frame, Cloze):
            raise MasqueradeError("A text of any length cannot fill [MASK]s; choose another 'frame' than 'masks'.")

    @staticmethod
    def load(run: str | Path, kb: KnowledgeBase) -> Rag:
        """The result of ``masquerade train rag``: the folder of the run, with the collection that is searched."""
        folder = locate(str(run))
        recipe = folder.parent / "recipe.json"
        if not (folder / QUESTION).is_dir() or not recipe.is_file():
            raise MasqueradeError(f"'{run}' is no run of 'masquerade train rag'; train one, and give its 'out' folder.")
        said = read_json(recipe)
        settings = RagSettings(**{each.name: said[each.name] for each in fields(RagSettings)})
        return Rag(load(folder).eval(), Encoder(load(folder / QUESTION), kb.encoder.pooling), kb, settings)

    def retrieve(self, questions: Sequence[str]) -> list[tuple[list[Found], Tensor]]:
        """The passages of each question, and their log-probabilities, (k,), by the dot products of the vectors."""
        found = []
        for vector in self.question.encode_queries(questions):
            ranked = self.kb.vectors.search(vector.numpy(), self.settings.documents)
            stored = self.kb.store.passages([id for id, _ in ranked])
            ranked = [(id, score) for id, score in ranked if id in stored]
            if not ranked:
                raise MasqueradeError("The collection is empty; add files with 'masquerade index'.")
            passages = [Found(Score(score, None, score), stored[id]) for id, score in ranked]
            found.append((passages, self._priors(ranked)))
        return found

    def _priors(self, ranked: Sequence[tuple[int, float]]) -> Tensor:
        return (torch.tensor([score for _, score in ranked]) / self.settings.temperature).log_softmax(-1)

    def prompt(self, question: str, passage: str) -> list[int]:
        """The ids of a question with a passage."""
        return rag_prompt(self.frame, self.generator.tokenizer, question, passage, self.settings.length)

    def answer(
        self, question: str, beams: int = 4, fast: bool = False, max_new: int = 0, copies: int = 1, **rules: Any
    ) -> list[RagAnswer]:
        """The ``copies`` most probable texts, the best first. ``fast`` scores a text of RAG-Sequence only with the
        passages whose beams have found it. A text has at most ``max_new`` tokens; 0: as many as in the training, if
        the network has positions for them."""
        found, priors = self.retrieve([question])[0]
        prompts = [self.prompt(question, each.text) for each in found]
        most = max_new or min(self.settings.answer, *self.frame.canvas(prompts).room(self.generator.spec))
        beam, ruled = Beam(max(beams, copies), copies=copies), Rules(most, **rules)
        if self.settings.kind == "token":
            texts = write_token(self.generator, self.frame, [prompts], priors[None], beam, ruled)[0]
        else:
            texts = write_sequence(self.generator, self.frame, prompts, priors, beam, ruled, fast)
        return [self._answer(text, found, priors) for text in texts]

    def classify(self, question: str, labels: Sequence[str]) -> dict[str, float]:
        """The probability of each label among the labels, the best first. A label is a short text, best of one
        token; it is scored without an end token, so that both kinds of RAG agree on labels of one token."""
        found, priors = self.retrieve([question])[0]
        ids = [self.generator.tokenizer.encode(label) for label in labels]
        if not labels or not all(ids):
            raise MasqueradeError("A label is empty; give every class a name of at least one token.")
        prompts = [self.prompt(question, each.text) for each in found]
        logs = score_texts(self.generator, self.frame, prompts, priors, ids, self.settings.kind)
        scores = dict(zip(labels, logs.softmax(-1).tolist(), strict=True))
        return dict(sorted(scores.items(), key=lambda each: -each[1]))

    def _answer(self, text: MarginalText, found: Sequence[Found], priors: Tensor) -> RagAnswer:
        words = self.generator.tokenizer.decode(text.ids)
        return RagAnswer(words, text.score, tuple(zip(found, priors.exp().tolist(), strict=True)))


def rag_prompt(frame: Frame, tokenizer: Tokenizer, question: str, passage: str, length: int) -> list[int]:
    """The ids of a question, a separator and a passage, between the frame's special tokens. The passage is cut so that
    there are at most ``length`` tokens."""
    around = frame.encode(tokenizer, "")
    opening = around[:1] if around[:1] == [tokenizer.specials.get("cls")] else []
    closing = around[len(opening) :] or tokenizer.encode("\n") or tokenizer.encode(".")
    asked = tokenizer.encode(question)[: max(1, length // 2)]
    room = length - len(opening) - len(asked) - 2 * len(closing)
    return [*opening, *asked, *closing, *tokenizer.encode(passage)[: max(0, room)], *closing]
