"""What the service accepts: the bodies of its requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StringConstraints, model_validator


def _whole(text: Any) -> Any:
    """A text without halves of characters, which JSON may have."""
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError("the text has half of a character in it") from error
    return text


def _number(given: Any) -> Any:
    """A number; true and "5" are none, although Python takes them for one."""
    if isinstance(given, bool | str):
        raise ValueError("it has to be a number")
    return given


FIELDS = 40  # more than any request has
# fail_fast: the first wrong item of a list ends the check; an error for each would keep the service busy for seconds

Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, Strict()]
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
    n_best: Whole = Field(1, ge=1, le=20, description="Number of answers: the best one and alternatives.")
    threshold: Number | None = Field(
        None, ge=0, le=1, description="No answer below this probability; by default the reader's own."
    )
    show_parts: Flag = Field(False, description="List the parts of the passages that were read.")


class AnswerRequest(AnswerOptions):
    """A question, and passages or the name of a collection."""

    model_config = _example(EXAMPLE, {"question": "谁修建了都江堰？", "passages": ["太守李冰修建了都江堰。"]})

    question: Text
    passages: list[Passage] | None = Field(
        None, min_length=1, fail_fast=True, description="Texts to read; this or 'collection'."
    )
    collection: Name | None = Field(None, description="A collection of GET /v1/models.")
    k: Whole = Field(10, ge=1, le=50, description="With a collection: how many passages are read.")


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


class SearchRequest(Body):
    """A search in a collection."""

    model_config = _example({"collection": "notes", "query": "lighthouse"})

    collection: Name
    query: Text
    k: Whole = Field(10, ge=1, le=50)
    language: Literal["", "en", "zh"] = ""
    title: str = Field("", max_length=200, description="A part of the document's title.")


class FillRequest(Body):
    """A text with [MASK]s."""

    model_config = _example({"text": "Paris is the [MASK] of France.", "top": 5})

    text: Text
    model: Name | None = None
    top: Whole = Field(5, ge=1, le=50)


class EmbedRequest(Body):
    """Texts to encode."""

    model_config = _example({"texts": ["red granite", "花岗岩"]})

    texts: list[Text] = Field(min_length=1, fail_fast=True)
    model: Name | None = None
    kind: Literal["text", "query", "passage"] = "text"


class WriteRequest(Body):
    """A text to write a title, a summary or a question for."""

    model_config = _example({"text": "The harbour of Arvik was opened by Queen Ingrid in 1931.", "n_best": 1})

    text: Text
    model: Name | None = None
    n_best: Whole = Field(1, ge=1, le=8, description="Number of texts, the best first.")


class GenerateRequest(Body):
    """A prompt to continue."""

    model_config = _example({"prompt": "The harbour", "max_new": 20})

    prompt: Text
    model: Name | None = None
    method: Method = "greedy"
    max_new: Whole = Field(64, ge=1, description="The most tokens to write.")
    temperature: Number | None = Field(None, gt=0, le=5, description="For the method 'sample'.")
    top_k: Whole | None = Field(None, ge=1, le=10_000, description="For the method 'sample'.")
    top_p: Number | None = Field(None, gt=0, le=1, description="For the method 'sample'.")
    seed: Whole | None = Field(None, ge=0, lt=2**31, description="For the method 'sample'.")


class FactRequest(Body):
    """A fact with its new objects."""

    model_config = _example({"subject": "Paris", "relation": "capital of", "objects": ["France"]})

    subject: Name
    relation: Name
    objects: list[Name] = Field(min_length=1, max_length=20)


class RecallRequest(Body):
    """A text with [MASK]s, to be filled from facts."""

    model_config = _example({"text": "Paris is the capital of [MASK].", "top": 5})

    text: Text
    top: Whole = Field(5, ge=1, le=50)


class LayoutRequest(Body):
    """A mask over a text."""

    model_config = _example({"constructor": "prefix", "text": "the cat sat | on the mat"})

    constructor: Name
    text: str | None = Field(None, max_length=4000, description="Parts are separated by |; by default, an example.")
    block: Whole = Field(2, ge=1, le=64, description="blocks: tokens of a block.")
    seed: Whole = Field(4, ge=0, le=999, description="permuted, two_stream, compensated: the order, by its seed.")
    known: Whole | None = Field(None, ge=0, le=256, description="compensated: tokens that are known at first.")
    prefix: Whole | None = Field(None, ge=1, le=256, description="prefix: tokens of the source, if there is no |.")
    slots: Whole = Field(2, ge=1, le=16, description="masked_answer, shared_passage: slots of an answer.")
    width: Whole = Field(1, ge=0, le=64, description="window: positions to either side.")
    memory: Whole = Field(3, ge=0, le=64, description="with_memory: tokens of the segment before.")
    questions: Whole | None = Field(None, ge=1, le=8, description="shared_passage: number of questions.")
