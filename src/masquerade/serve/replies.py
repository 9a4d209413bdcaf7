"""What the service replies. Offsets count Unicode characters."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Place(BaseModel):
    """An answer, its probability and its place. Offsets count Unicode characters."""

    answer: str = Field(description="Empty if there is no answer; the score is then the probability of none.")
    score: float
    passage: int | None = Field(None, description="The number of the passage, from 0 on.")
    start: int | None = None
    end: int | None = None
    before: str | None = Field(None, description="With a collection: the rest of its sentence.")
    after: str | None = None


class Part(BaseModel):
    """Characters of a passage that were read."""

    passage: int
    start: int
    end: int


class FoundPassage(BaseModel):
    """A passage of a collection."""

    file: str
    title: str
    heading: str
    unit: str = Field(description="What the number counts: page, line, paragraph or item.")
    number: int
    language: str
    text: str
    score: float


class AnswerReply(Place):
    """The answer to a question."""

    alternatives: list[Place]
    model: str
    decoder: str
    tokens: int = Field(description="Tokens of the question and its passages.")
    windows: int = Field(description="Windows of the passages.")
    remembered: int = Field(description="Windows that had been read before.")
    milliseconds: float
    parts: list[Part] | None = None
    passages: list[FoundPassage] | None = Field(None, description="With a collection: what was read.")


class BatchReply(BaseModel):
    """The answers to several questions, in their order."""

    answers: list[AnswerReply]
    milliseconds: float


class ComparedToken(BaseModel):
    """A token and the pass that wrote it."""

    text: str
    step: int


class ComparedAnswer(BaseModel):
    """The answer of one decoder."""

    decoder: str
    answer: str
    score: float
    milliseconds: float
    passes: int
    tokens: list[ComparedToken]


class CompareReply(BaseModel):
    """The answers of several decoders."""

    model: str
    answers: list[ComparedAnswer]


class SearchReply(BaseModel):
    """The best passages of a search."""

    passages: list[FoundPassage]
    milliseconds: float


class FilledWord(BaseModel):
    """A word for a [MASK], and its probability."""

    word: str
    probability: float


class FillReply(BaseModel):
    """A filled text, and the best words for each [MASK]."""

    text: str
    masks: list[list[FilledWord]]
    model: str


class EmbedReply(BaseModel):
    """A vector for each text."""

    vectors: list[list[float]]
    width: int
    model: str


class WriteResult(BaseModel):
    """A text and its score, a log-probability."""

    text: str
    score: float


class WriteReply(BaseModel):
    """The texts that were written."""

    texts: list[WriteResult]
    model: str
    milliseconds: float


class FactReply(BaseModel):
    """A fact as it is now."""

    subject: str
    relation: str
    objects: list[str]


class FactsReply(BaseModel):
    """Facts of a knowledge base."""

    facts: list[FactReply]
    entities: int
    total: int
    kept: bool = Field(description="Whether changes stay after the service has stopped.")


class RecalledBlank(BaseModel):
    """Answers for a [MASK], and the facts that were read."""

    answers: list[FilledWord]
    subject: str
    facts: list[FilledWord] = Field(description="Facts with their weights.")
    no_fact: float


class RecallReply(BaseModel):
    """A text that was filled from facts."""

    text: str
    blanks: list[RecalledBlank]


class LayoutReply(BaseModel):
    """Who sees whom."""

    constructor: str
    caption: str
    tokens: list[str]
    kinds: list[str]
    fields: dict[str, list[int]] = Field(description="position, rank, horizon, branch and document of each token.")
    seen: list[str] = Field(description="A string of 0 and 1 for each row: 1 where it sees the token.")
    code: str = Field(description="The constructor's source.")
    svg: str = Field(description="The picture.")


class Span(BaseModel):
    """Where a unit (page, line, paragraph, item) begins, and its number."""

    start: int
    number: int


class DocumentReply(BaseModel):
    """The text of a document."""

    name: str
    title: str
    text: str
    language: str
    unit: str
    places: list[Span] = Field(description="Where each unit begins; empty: the units are lines.")
    skipped: list[str]


class ModelInfo(BaseModel):
    """A model of the service."""

    name: str
    kind: Literal["reader", "filler", "generator", "writer", "encoder", "collection", "facts"]
    parameters: int | None = None
    about: dict[str, str | int] = Field(default_factory=dict)


class ModelsReply(BaseModel):
    """What the service has."""

    version: str
    models: list[ModelInfo]
    decoders: list[str]
    methods: list[str]
    constructors: dict[str, str] = Field(description="Names of masks, with an example text.")
    limits: dict[str, float]


class StateReply(BaseModel):
    """The state of the service."""

    status: str
    detail: str = ""
