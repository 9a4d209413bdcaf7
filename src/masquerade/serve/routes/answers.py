"""Routes that answer questions."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import APIRouter, Request

from masquerade.memory.retrieval.search import Filters
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader
from masquerade.reading.traced import TracedAnswer, traced_answers
from masquerade.serve.answering import (
    Answered,
    Asked,
    CitedReply,
    CollectionGroup,
    ReaderGroup,
    SearchGroup,
    plain_found,
)
from masquerade.serve.failures import ServiceError, documented, too_many
from masquerade.serve.models import named
from masquerade.serve.replies import AnswerReply, BatchReply, CompareReply, SearchReply
from masquerade.serve.requests import (
    AnswerOptions,
    AnswerRequest,
    BatchItem,
    BatchRequest,
    CompareRequest,
    SearchRequest,
)
from masquerade.serve.service import Service, service_of

router = APIRouter(prefix="/v1", responses=documented(400, 404, 408, 413, 422, 429, 504))


@router.post("/answer", summary="Answer a question from passages or a collection")
async def answer(body: AnswerRequest, request: Request) -> AnswerReply:
    """The best answer, its probability, its place, and alternatives."""
    start, service = time.perf_counter(), service_of(request)
    if (body.passages is None) == (body.collection is None):
        raise ServiceError(422, "invalid_request", "Give either 'passages' or 'collection'.")
    if body.collection is not None:
        reply = await _from_collection(service, request, body)
    else:
        item = BatchItem(question=body.question, passages=body.passages or [])
        reply = (await _answers(service, request, [item], body))[0]
    return AnswerReply(**reply, milliseconds=_milliseconds(start))


@router.post("/answer/batch", summary="Answer several questions")
async def answer_batch(body: BatchRequest, request: Request) -> BatchReply:
    """The answers to several questions, each with its own passages. They need not be read together: long and short ones
    take turns with other requests."""
    start, service = time.perf_counter(), service_of(request)
    if len(body.items) > service.limits.batch:
        raise too_many("questions", len(body.items), service.limits.batch, "batch")
    found = await _answers(service, request, body.items, body)
    taken = _milliseconds(start)
    return BatchReply(answers=[AnswerReply(**each, milliseconds=taken) for each in found], milliseconds=taken)


@router.post("/answer/compare", summary="Compare decoders on one question")
async def compare(body: CompareRequest, request: Request) -> CompareReply:
    """The answers of several decoders, with their times and with the pass of the network that wrote each token."""
    service = service_of(request)
    name = service.models.reader_for(body.model, body.question, body.passage)
    sizes = await service.count("reader", name, [body.question, body.passage])
    _check_question(service, sizes[0])
    service.check_tokens(sum(sizes))
    group = CompareGroup(name, tuple(body.decoders), service.models.readers[name])
    found = await service.run(request, group, (body.question, body.passage), sum(sizes) * len(body.decoders))
    answers = [{**asdict(each), "answer": each.text, "milliseconds": round(1000 * each.seconds, 2)} for each in found]
    return CompareReply.model_validate({"model": name, "answers": answers})


@router.post("/search", summary="Search a collection")
async def search(body: SearchRequest, request: Request) -> SearchReply:
    """The best passages of a collection for a query."""
    start, service = time.perf_counter(), service_of(request)
    name = named(service.models.collections, body.collection, "collection")
    base = service.models.collections[name]
    filters = Filters(title=body.title, language=body.language)
    found = await service.run(request, SearchGroup(name, base), (body.query, body.k, filters), 16)
    folder = service.models.folders[name]
    passages = [plain_found(each, folder) for each in found]
    return SearchReply.model_validate({"passages": passages, "milliseconds": _milliseconds(start)})


@dataclass(frozen=True)
class CompareGroup:
    """Questions for several decoders; they run one by one, so that their times are their own."""

    name: str
    decoders: tuple[str, ...]
    reader: Reader = field(compare=False)

    def run(self, payloads: Any) -> list[list[TracedAnswer]]:
        """The answers of all decoders to each question."""
        return [traced_answers(self.reader, question, passage, self.decoders) for question, passage in payloads]


async def _answers(
    service: Service, request: Request, items: list[BatchItem], options: AnswerOptions
) -> list[dict[str, Any]]:
    """The answers to questions with passages; all are admitted to the queue, or none."""
    chosen, sizes = list[str](), list[int]()
    for item in items:
        if len(item.passages) > service.limits.passages:
            raise too_many("passages", len(item.passages), service.limits.passages, "passages")
        name = service.models.reader_for(options.model, item.question, *item.passages)
        counts = await service.count("reader", name, [item.question, *item.passages])
        _check_question(service, counts[0])
        service.check_tokens(sum(counts))
        chosen.append(name)
        sizes.append(sum(counts))
    service.check_tokens(sum(sizes))
    groups = {
        name: ReaderGroup(
            name, options.decoder, options.vote, options.n_best, options.threshold, service.models.readers[name],
            service.metrics, service.models.threads,
        )
        for name in chosen
    }  # fmt: skip
    payloads = [Asked(item.question, tuple(item.passages), options.show_parts) for item in items]
    found = await service.scheduler.submit(request, [groups[name] for name in chosen], payloads, sizes)
    return [
        {**_plain(each, options), "model": name, "decoder": options.decoder, "tokens": size}
        for each, name, size in zip(found, chosen, sizes, strict=True)
    ]


async def _from_collection(service: Service, request: Request, body: AnswerRequest) -> dict[str, Any]:
    """The answer from a collection, with the passages that were read."""
    if body.model is not None or body.decoder != "parallel" or body.threshold is not None or body.show_parts:
        raise ServiceError(
            422,
            "invalid_request",
            "A collection has no 'model', 'decoder', 'threshold' or 'show_parts'; leave them out.",
        )
    name = named(service.models.collections, body.collection, "collection")
    base = service.models.collections[name]
    spoken = service.models.reader_for(None, body.question)
    tokens = (await service.count("reader", spoken, [body.question]))[0]
    _check_question(service, tokens)
    group = CollectionGroup(name, body.k, body.n_best, body.vote, base, service.metrics)
    reply: CitedReply = await service.run(request, group, body.question, tokens + 256 * body.k)
    folder = service.models.folders[name]

    def place(cited: Any) -> dict[str, Any]:
        where: dict[str, int | None] = {"passage": None, "start": None, "end": None}
        for number, found in enumerate(reply.found):
            passage = found.stored.passage
            same = found.stored.name == cited.file and found.stored.title == cited.title
            if same and passage.start <= cited.start and cited.end <= passage.end:
                start = cited.start - passage.start
                where = {
                    "passage": number,
                    "start": start,
                    "end": start + cited.end - cited.start,
                }
                break
        return {"answer": cited.text, "score": cited.score, "before": cited.before, "after": cited.after, **where}

    return {
        **place(reply.answer), "alternatives": [place(each) for each in reply.answer.alternatives], "model": spoken,
        "decoder": "parallel", "tokens": tokens, "windows": len(reply.found), "remembered": 0,
        "passages": [plain_found(each, folder) for each in reply.found],
    }  # fmt: skip


def _plain(found: Answered, options: AnswerOptions) -> dict[str, Any]:
    """An answer as the service shows it."""

    def place(answer: Answer) -> dict[str, Any]:
        there = answer.start >= 0
        return {
            "answer": answer.text, "score": answer.score, "passage": answer.passage if answer.passage >= 0 else None,
            "start": answer.start if there else None, "end": answer.end if there else None,
        }  # fmt: skip

    others = [place(each) for each in found.answer.alternatives][: max(options.n_best - bool(found.answer.text), 0)]
    parts = None if found.parts is None else [asdict(each) for each in found.parts]
    return {
        **place(found.answer), "alternatives": others, "windows": found.windows, "remembered": found.remembered,
        "parts": parts,
    }  # fmt: skip


def _check_question(service: Service, tokens: int) -> None:
    if tokens > service.limits.question_tokens:
        limit = service.limits.question_tokens
        raise ServiceError(
            422, "invalid_request",
            f"The question has {tokens} tokens; at most {limit} are accepted (limit 'question_tokens'). Ask shorter.",
        )  # fmt: skip


def _milliseconds(start: float) -> float:
    return round(1000 * (time.perf_counter() - start), 2)
