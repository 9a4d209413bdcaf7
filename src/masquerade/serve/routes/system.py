"""Routes about the service itself, uploads, and the page."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from masquerade import __version__
from masquerade.drawing.gallery import EXAMPLES
from masquerade.reading.decoders import DECODERS
from masquerade.serve.failures import ServiceError, documented
from masquerade.serve.replies import DocumentReply, ModelsReply, StateReply
from masquerade.serve.service import service_of
from masquerade.serve.uploads import read_upload
from masquerade.writing.generate import DECODING_METHODS

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

router = APIRouter()


@router.get("/healthz", summary="Is the process alive?", responses=documented(always=()))
async def healthz() -> StateReply:
    """Always answers at once, whatever the models do."""
    return StateReply(status="alive")


@router.get(
    "/readyz",
    summary="Can it answer?",
    responses=documented(always=()) | {503: {"model": StateReply, "description": "Not now."}},
)
async def readyz(request: Request) -> JSONResponse:
    """200 when the models are loaded; 503 while they load, could not be loaded, or the service stops."""
    service = service_of(request)
    reply = StateReply(status=service.status, detail=service.detail)
    return JSONResponse(reply.model_dump(), 200 if service.status == "ready" else 503)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **documented()},
)
async def metrics(request: Request) -> Response:
    """Requests, latencies, batch sizes, the queue in tokens, and passages that need not be read again."""
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/models", summary="What the service has", responses=documented())
async def models(request: Request) -> ModelsReply:
    """Models, collections and knowledge bases by name, decoders, masks and limits."""
    service = service_of(request)
    service.check_ready()
    limits = {name: float(value) for name, value in asdict(service.limits).items()}
    constructors = {name: usual for name, (usual, _, _) in EXAMPLES.items()}
    return ModelsReply(
        version=__version__, models=service.listed,
        decoders=list(DECODERS), methods=list(DECODING_METHODS), constructors=constructors, limits=limits,
    )  # fmt: skip


@router.post(
    "/v1/document",
    summary="The text of a document",
    response_model=DocumentReply,
    responses=documented(408, 413, 422, 429, 504),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def document(
    request: Request, name: Annotated[str, Query(max_length=255, min_length=1, examples=["report.pdf"])]
) -> Response:
    """The text of a file (txt, md, html, pdf, docx, csv, json), which is the body as it is. The name tells the format;
    no file of that name is opened, and nothing is kept."""
    service = service_of(request)
    data = await request.body()
    if not data:
        raise ServiceError(422, "invalid_request", "The body is empty; send the bytes of the file.")
    if service.uploads >= service.limits.uploads:
        raise ServiceError(429, "overloaded", "Other documents are being read; try again.", {"Retry-After": "2"})
    service.uploads += 1
    try:
        found = await service.scheduler.unless_gone(
            request, asyncio.ensure_future(read_upload(data, name, service.limits))
        )
    finally:
        service.uploads -= 1
    return Response(found, media_type="application/json")


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    """The files of the page by their paths, with their types and tags; read once, so that no path reaches the disk."""
    found = dict[str, tuple[bytes, str, str]]()
    for file in (files("masquerade.serve") / "page").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in TYPES:
            data = file.read_bytes()
            found[file.name] = data, TYPES[suffix], f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return found


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    return _file(request, "index.html")


@router.get("/page/{name}", include_in_schema=False)
async def page_file(request: Request, name: str) -> Response:
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    if name not in page_files():
        raise ServiceError(404, "unknown_path", "There is no such page.")
    data, kind, tag = page_files()[name]
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=f"{kind}; charset=utf-8", headers=headers)
