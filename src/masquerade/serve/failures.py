"""Errors of the service: a status, a type for programs, and one sentence for people."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from masquerade.errors import MasqueradeError

log = logging.getLogger(__name__)


class ServiceError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, error_type: str, error: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error_type, self.error, self.headers = status, error_type, error, dict(headers or {})

    def response(self) -> JSONResponse:
        """The error as JSON."""
        return JSONResponse({"error": self.error, "error_type": self.error_type}, self.status, self.headers)


class ErrorReply(BaseModel):
    """Every error has this form."""

    error: str = Field(description="What is wrong, and what to do, in one sentence.")
    error_type: str = Field(description="The kind of error, for programs.")


ERRORS: dict[int, tuple[str, str, str]] = {  # status → description, type and sentence of its example
    400: ("The body is no JSON.", "malformed_json", "The body is no readable JSON (line 1, column 2)."),
    401: ("The bearer token is missing or wrong.", "unauthorized", "Give the service's token as a bearer token."),
    404: (
        "There is nothing of that name.",
        "unknown_name",
        "There is no reader 'x'; GET /v1/models lists what there is.",
    ),
    408: ("The body did not arrive in time.", "timeout", "The body did not arrive within 60 seconds; send it again."),
    413: ("The request is too large.", "too_large", "The request has 300000 tokens; at most 200000 are read."),
    421: (
        "The Host header names another host.",
        "wrong_host",
        "The Host header names no host of this service; see --allowed-host.",
    ),
    422: (
        "A field is wrong, or the text cannot be used.",
        "invalid_request",
        "question: String should have at least 1 character.",
    ),
    429: (
        "The queue is full; Retry-After says when to come again.",
        "overloaded",
        "The queue is full; try again in 3 seconds.",
    ),
    500: ("An error in the service.", "internal", "An error in the service; its log has the details."),
    503: (
        "The models are still loading, or the service is stopping.",
        "not_ready",
        "The models are still being loaded; try again soon.",
    ),
    504: ("The time limit was reached.", "timeout", "The request took longer than 60 seconds; send a shorter one."),
}
METHODS = ("GET", "POST")  # HEAD is answered as GET
HEADERS = {
    401: {"WWW-Authenticate": {"description": "Bearer", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}},
    503: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}},
}


def documented(*statuses: int, always: tuple[int, ...] = (401, 500, 503)) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its OpenAPI description."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*statuses, *always, 421}):
        description, kind, sentence = ERRORS[status]
        example = {"error": sentence, "error_type": kind}
        found[status] = {"model": ErrorReply, "description": description}
        found[status]["content"] = {"application/json": {"example": example}}
        if status in HEADERS:
            found[status]["headers"] = HEADERS[status]
    return found


def too_large(what: str, size: int, limit: int, name: str) -> ServiceError:
    """An error that names a limit."""
    return ServiceError(
        413, "too_large", f"There are {size} {what}; at most {limit} are accepted (limit '{name}'). Send less."
    )


def too_many(what: str, size: int, limit: int, name: str) -> ServiceError:
    """An error that names the limit of a field."""
    return ServiceError(
        422, "invalid_request", f"There are {size} {what}; at most {limit} are accepted (limit '{name}'). Send fewer."
    )


def handle_errors(app: FastAPI) -> None:
    """Give every error of the application the form of ErrorReply."""

    @app.exception_handler(ServiceError)
    async def refused(request: Request, error: ServiceError) -> JSONResponse:
        return error.response()

    @app.exception_handler(MasqueradeError)
    async def unusable(request: Request, error: MasqueradeError) -> JSONResponse:
        return ServiceError(422, "invalid_input", str(error)).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return _validation(error, request.headers.get("content-type", "")).response()

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # JSON that Python does not read: nested too deeply, bytes that are no UTF-8 …
            return _malformed("bytes that are no JSON in UTF-8, or nested too deeply").response()
        if error.status_code == 405:
            allowed = ", ".join(_methods(app, request))
            said = f"This address takes {allowed}, not {request.method}."
            return ServiceError(405, "method_not_allowed", said, {"Allow": allowed}).response()
        kind = {404: "unknown_path"}.get(error.status_code, "invalid_request")
        return ServiceError(error.status_code, kind, f"{error.detail}.", error.headers).response()


def _methods(app: FastAPI, request: Request) -> list[str]:
    """The methods that an address takes, over all of its routes."""
    return [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in app.routes)
    ]


def log_unexpected(error: BaseException) -> None:
    """Log where an error came from; not its message, which may have a user's text in it."""
    log.error("%s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))


def _malformed(reason: str) -> ServiceError:
    return ServiceError(400, "malformed_json", f"The body is no readable JSON ({reason}); check it.")


def _validation(error: RequestValidationError, content_type: str) -> ServiceError:
    """What is wrong with a request's fields; the values themselves are not repeated."""
    found = error.errors()
    if found[0]["loc"] == ("body",) and found[0]["type"] == "model_attributes_type" and "json" not in content_type:
        return ServiceError(
            422, "invalid_request", "The body is not said to be JSON; send the header 'Content-Type: application/json'."
        )
    for each in found:
        if each["type"] == "json_invalid":
            return _malformed(each.get("ctx", {}).get("error", ""))
    said = []
    for each in found[:3]:
        place = ".".join(str(part) for part in each["loc"] if part not in ("body", "query", "path"))
        said.append(f"{place or 'the body'}: {each['msg'].removeprefix('Value error, ')}")
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return ServiceError(422, "invalid_request", "; ".join(said) + more + ".")
