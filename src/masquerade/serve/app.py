"""The application: routes, errors and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from masquerade import __version__
from masquerade.serve.failures import handle_errors
from masquerade.serve.middleware import Guard
from masquerade.serve.routes import answers, drawing, facts, system, texts
from masquerade.serve.scheduler import ClientGoneError
from masquerade.serve.service import Service

ABOUT = """Answers from texts and collections, filled and written texts, vectors of texts, and drawn masks.

Every error is `{"error": "a sentence", "error_type": "a_name"}`. Offsets count Unicode characters. `GET /v1/models`
lists the models and the limits of this service."""


def create_app(service: Service) -> FastAPI:
    """The application of a service, whose models begin to load when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="Masquerade", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None,
        separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.service = service
    for module in (answers, texts, facts, drawing, system):
        app.include_router(module.router)
    handle_errors(app)

    @app.exception_handler(ClientGoneError)
    async def gone(request: Request, error: ClientGoneError) -> Response:
        return Response(status_code=499)  # nobody reads it

    app.add_middleware(Guard, service=service)
    return app
