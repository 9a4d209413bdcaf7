"""Routes that fill, write and encode texts."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.nn.model import Model
from masquerade.serve.batch_threads import in_similar_lengths
from masquerade.serve.failures import ServiceError, documented, too_many
from masquerade.serve.models import named
from masquerade.serve.replies import EmbedReply, FillReply, WriteReply
from masquerade.serve.requests import EmbedRequest, FillRequest, GenerateRequest, WriteRequest
from masquerade.serve.service import service_of
from masquerade.writing.fill import Filled, fill
from masquerade.writing.generate import stream
from masquerade.writing.writer import Writer

router = APIRouter(prefix="/v1", responses=documented(400, 404, 408, 413, 422, 429, 504))


@dataclass(frozen=True)
class FillGroup:
    """Texts for one model."""

    name: str
    model: Model = field(compare=False)

    def run(self, payloads: Sequence[tuple[str, int]]) -> list[Filled]:
        """Each text with its [MASK]s filled."""
        return [fill(self.model, text, top) for text, top in payloads]


@dataclass(frozen=True)
class EmbedGroup:
    """Texts for one encoder."""

    name: str
    kind: str
    encoder: Encoder = field(compare=False)

    def run(self, payloads: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        kinds = {"query": self.encoder.encode_queries, "passage": self.encoder.encode_passages}
        encode: Any = kinds.get(self.kind, self.encoder.encode)
        vectors: list[list[float]] = encode(payloads).tolist()
        return vectors


@dataclass(frozen=True)
class WriteGroup:
    """Texts for one writer."""

    name: str
    n_best: int
    writer: Writer = field(compare=False)

    def run(self, payloads: Sequence[str]) -> list[list[dict[str, Any]]]:
        """The texts that are written for each text."""
        return in_similar_lengths(self._together, payloads, len)

    def _together(self, payloads: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [
            [{"text": text.text, "score": text.score} for text in (each, *each.alternatives)]
            for each in self.writer.write_many(payloads, n_best=self.n_best)
        ]


@router.post("/fill", summary="Fill [MASK]s")
async def fill_text(body: FillRequest, request: Request) -> FillReply:
    """The most probable words for each [MASK] of a text."""
    service = service_of(request)
    name = named(service.models.fillers, body.model, "filler")
    tokens = (await service.count("filler", name, [body.text]))[0]
    model = service.models.fillers[name]
    room = model.spec.longest - model.spec.position_offset
    if 0 < room < tokens + 2:
        raise ServiceError(413, "too_large", f"The text has {tokens} tokens; this model reads at most {room - 2}.")
    service.check_tokens(tokens)
    found: Filled = await service.run(request, FillGroup(name, model), (body.text, body.top), tokens)
    words = [[asdict(guess) for guess in guesses] for guesses in found.guesses]
    return FillReply.model_validate({"text": found.text, "masks": words, "model": name})


@router.post("/embed", summary="Vectors of texts")
async def embed(body: EmbedRequest, request: Request) -> EmbedReply:
    """A vector for each text; long texts are cut at the encoder's length."""
    service = service_of(request)
    if len(body.texts) > service.limits.batch:
        raise too_many("texts", len(body.texts), service.limits.batch, "batch")
    name = named(service.models.encoders, body.model, "encoder")
    encoder = service.models.encoders[name]
    sizes = await service.count("encoder", name, body.texts)
    service.check_tokens(sum(sizes))
    groups = [EmbedGroup(name, body.kind, encoder)] * len(sizes)
    vectors = await service.scheduler.submit(request, groups, body.texts, sizes)
    return EmbedReply(vectors=vectors, width=encoder.width, model=name)


@router.post("/write", summary="Write a text for a text")
async def write(body: WriteRequest, request: Request) -> WriteReply:
    """A title, summary or question, as the writer was trained."""
    start, service = time.perf_counter(), service_of(request)
    name = named(service.models.writers, body.model, "writer")
    tokens = (await service.count("writer", name, [body.text]))[0]
    service.check_tokens(tokens)
    group = WriteGroup(name, body.n_best, service.models.writers[name])
    texts = await service.run(request, group, body.text, tokens)
    taken = round(1000 * (time.perf_counter() - start), 2)
    return WriteReply.model_validate({"texts": texts, "model": name, "milliseconds": taken})


STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: 'piece' with {text}, at the end 'done' with {text, model}; or 'error'.",
        "content": {
            "text/event-stream": {
                "itemSchema": {
                    "type": "object",
                    "properties": {
                        "event": {"enum": ["piece", "done", "error"]},
                        "data": {"type": "string", "contentMediaType": "application/json"},
                    },
                    "required": ["event", "data"],
                },
                "example": 'event: piece\ndata: {"text": "The"}\n\nevent: done\ndata: {"text": "The"}\n\n',
            }
        },
    }
}


@router.post(
    "/generate", summary="Continue a text, as server-sent events", response_class=StreamingResponse, responses=STREAMED
)
async def generate(body: GenerateRequest, request: Request) -> StreamingResponse:
    """The text is sent in pieces as it is written."""
    service = service_of(request)
    name = named(service.models.generators, body.model, "generator")
    if body.max_new > service.limits.new_tokens:
        raise too_many("new tokens", body.max_new, service.limits.new_tokens, "new_tokens")
    tokens = (await service.count("generator", name, [body.prompt]))[0] + body.max_new
    service.check_tokens(tokens)
    model = service.models.generators[name]
    given = {"temperature": body.temperature, "top_k": body.top_k, "top_p": body.top_p, "seed": body.seed}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}

    def start() -> Iterator[str]:
        return stream(model, body.prompt, body.method, max_new=body.max_new, **settings)

    pieces = await service.scheduler.stream(start, tokens)
    return StreamingResponse(_events(pieces, name), media_type="text/event-stream")


async def _events(pieces: AsyncIterator[str], name: str) -> AsyncIterator[str]:
    whole = ""
    try:
        async for piece in pieces:
            whole += piece
            yield _event("piece", {"text": piece})
        yield _event("done", {"text": whole, "model": name})
    except (ServiceError, MasqueradeError) as error:
        kind = error.error_type if isinstance(error, ServiceError) else "invalid_input"
        yield _event("error", {"error": str(error), "error_type": kind})
    except Exception:  # it has been logged where it was raised
        yield _event("error", {"error": "An error in the service; its log has the details.", "error_type": "internal"})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
