"""Requests and replies of the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator


def _whole(text: Any) -> Any:
    """A text without halves of characters, which JSON may have."""
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError("the text has half of a character in it") from error
    return text


FIELDS = 40  # more than any request has
# fail_fast: the first wrong item of a list ends the check; an error for each would keep the service busy for seconds

Text = Annotated[str, BeforeValidator(_whole), StringConstraints(min_length=1)]
Name = Annotated[str, BeforeValidator(_whole), StringConstraints(min_length=1, max_length=200)]
Passage = Annotated[str, BeforeValidator(_whole)]
Decoder = Literal["parallel", "blocks", "autoregressive", "rerank", "mixture"]
Vote = Literal["best", "all"]
Method = Literal["greedy", "sample", "beam", "parallel", "mask-predict", "diffusion", "blocks", "mixture", "rerank"]

PASSAGE = "The stone was found in July 1799 near the town of Rashid."
EXAMPLE: dict[str, Any] = {"question": "When was the stone found?", "passages": [PASSAGE], "n_best": 2}


class Body(BaseModel):
    """A request; a field that does not exist is an error, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", strict=False)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, given: Any) -> Any:
        """Refuse very many fields at once: an error for each would keep the service busy for seconds."""
        if isinstance(given, dict) and len(given) > FIELDS:
            raise ValueError(f"there are {len(given)} fields; this request has at most {len(cls.model_fields)}")
        return given


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)})


class AnswerOptions(Body):
    """How questions are answered."""

    model: Name | None = Field(None, description="A reader of GET /v1/models; by default, by the language.")
    decoder: Decoder = Field("parallel", description="How the answer is found: in one pass, or written.")
    vote: Vote = Field("best", description="How several passages are combined.")
    n_best: int = Field(1, ge=1, le=20, description="Number of answers: the best one and alternatives.")
    threshold: float | None = Field(
        None, ge=0, le=1, description="No answer below this probability; by default the reader's own."
    )
    show_parts: bool = Field(False, description="List the parts of the passages that were read.")


class AnswerRequest(AnswerOptions):
    """A question, and passages or the name of a collection."""

    model_config = _example(EXAMPLE, {"question": "谁修建了都江堰？", "passages": ["太守李冰修建了都江堰。"]})

    question: Text
    passages: list[Passage] | None = Field(
        None, min_length=1, fail_fast=True, description="Texts to read; this or 'collection'."
    )
    collection: Name | None = Field(None, description="A collection of GET /v1/models.")
    k: int = Field(10, ge=1, le=50, description="With a collection: how many passages are read.")


class BatchItem(Body):
    """A question and its passages."""

    question: Text
    passages: list[Passage] = Field(min_length=1, fail_fast=True)


class BatchRequest(AnswerOptions):
    """Several questions at once."""

    model_config = _example({"items": [{"question": "When was the stone found?", "passages": [PASSAGE]}]})

    items: list[BatchItem] = Field(min_length=1, fail_fast=True)


class CompareRequest(Body):
    """A question for several decoders."""

    model_config = _example({"question": "When was the stone found?", "passage": PASSAGE})

    question: Text
    passage: Text
    model: Name | None = None
    decoders: list[Decoder] = Field(["autoregressive", "blocks", "parallel"], min_length=1, max_length=5)


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


class SearchRequest(Body):
    """A search in a collection."""

    model_config = _example({"collection": "notes", "query": "lighthouse"})

    collection: Name
    query: Text
    k: int = Field(10, ge=1, le=50)
    language: Literal["", "en", "zh"] = ""
    title: str = Field("", max_length=200, description="A part of the document's title.")


class SearchReply(BaseModel):
    """The best passages of a search."""

    passages: list[FoundPassage]
    milliseconds: float


class FillRequest(Body):
    """A text with [MASK]s."""

    model_config = _example({"text": "Paris is the [MASK] of France.", "top": 5})

    text: Text
    model: Name | None = None
    top: int = Field(5, ge=1, le=50)


class FilledWord(BaseModel):
    """A word for a [MASK], and its probability."""

    word: str
    probability: float


class FillReply(BaseModel):
    """A filled text, and the best words for each [MASK]."""

    text: str
    masks: list[list[FilledWord]]
    model: str


class EmbedRequest(Body):
    """Texts to encode."""

    model_config = _example({"texts": ["red granite", "花岗岩"]})

    texts: list[Text] = Field(min_length=1, fail_fast=True)
    model: Name | None = None
    kind: Literal["text", "query", "passage"] = "text"


class EmbedReply(BaseModel):
    """A vector for each text."""

    vectors: list[list[float]]
    width: int
    model: str


class WriteRequest(Body):
    """A text to write a title, a summary or a question for."""

    model_config = _example({"text": "The harbour of Arvik was opened by Queen Ingrid in 1931.", "n_best": 1})

    text: Text
    model: Name | None = None
    n_best: int = Field(1, ge=1, le=8, description="Number of texts, the best first.")


class WriteResult(BaseModel):
    """A text and its score, a log-probability."""

    text: str
    score: float


class WriteReply(BaseModel):
    """The texts that were written."""

    texts: list[WriteResult]
    model: str
    milliseconds: float


class GenerateRequest(Body):
    """A prompt to continue."""

    model_config = _example({"prompt": "The harbour", "max_new": 20})

    prompt: Text
    model: Name | None = None
    method: Method = "greedy"
    max_new: int = Field(64, ge=1, description="The most tokens to write.")
    temperature: float | None = Field(None, gt=0, le=5, description="For the method 'sample'.")
    top_k: int | None = Field(None, ge=1, le=10_000, description="For the method 'sample'.")
    top_p: float | None = Field(None, gt=0, le=1, description="For the method 'sample'.")
    seed: int | None = Field(None, ge=0, lt=2**31, description="For the method 'sample'.")


class FactRequest(Body):
    """A fact with its new objects."""

    model_config = _example({"subject": "Paris", "relation": "capital of", "objects": ["France"]})

    subject: Name
    relation: Name
    objects: list[Name] = Field(min_length=1, max_length=20)


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


class RecallRequest(Body):
    """A text with [MASK]s, to be filled from facts."""

    model_config = _example({"text": "Paris is the capital of [MASK].", "top": 5})

    text: Text
    top: int = Field(5, ge=1, le=50)


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


class LayoutRequest(Body):
    """A mask over a text."""

    model_config = _example({"constructor": "prefix", "text": "the cat sat | on the mat"})

    constructor: Name
    text: str | None = Field(None, max_length=4000, description="Parts are separated by |; by default, an example.")
    block: int = Field(2, ge=1, le=64, description="blocks: tokens of a block.")
    seed: int = Field(4, ge=0, le=999, description="permuted, two_stream, compensated: the order, by its seed.")
    known: int | None = Field(None, ge=0, le=256, description="compensated: tokens that are known at first.")
    prefix: int | None = Field(None, ge=1, le=256, description="prefix: tokens of the source, if there is no |.")
    slots: int = Field(2, ge=1, le=16, description="masked_answer, shared_passage: slots of an answer.")
    width: int = Field(1, ge=0, le=64, description="window: positions to either side.")
    memory: int = Field(3, ge=0, le=64, description="with_memory: tokens of the segment before.")
    questions: int | None = Field(None, ge=1, le=8, description="shared_passage: number of questions.")


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
