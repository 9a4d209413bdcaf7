"""What happens to every request before and after its route: limits, the token, headers and metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.serve.failures import ERRORS, ServiceError, log_unexpected
from masquerade.serve.scheduler import ClientGoneError
from masquerade.serve.service import Service

UPLOAD = "/v1/document"  # whose body is a file
LOCAL = ("localhost", "127.0.0.1", "[::1]", "testserver")
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

log = logging.getLogger("masquerade.serve.requests")


class Guard:
    """Checks a request and reads its body before the application sees it; measures it afterwards."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), [0]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers[name] = value
                if scope["path"].startswith("/v1/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        self.service.requests += 1
        try:
            body = await self._admit(scope, receive)
            await self.app(scope, _replayed(body, receive), sending)
        except ServiceError as error:
            await error.response()(scope, receive, sending)
        except ClientGoneError:
            await Response(status_code=499)(scope, receive, sending)
        except Exception as error:
            log_unexpected(error)
            if not status[0]:
                await ServiceError(500, *ERRORS[500][1:]).response()(scope, receive, sending)
        finally:
            self.service.requests -= 1
            self._measure(scope, status[0], time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that may go on; an error for any other."""
        service, path, headers = self.service, scope["path"], Headers(scope=scope)
        allowed = service.hosts and {*service.hosts, *LOCAL}
        if allowed and headers.get("host", "").rsplit(":", 1)[0].lower() not in allowed:
            raise ServiceError(400, "wrong_host", "The Host header names no host of this service; see --allowed-host.")
        guarded = path.startswith("/v1/") or path == "/metrics"
        if guarded and service.token is not None:
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {service.token}".encode()):
                raise ServiceError(
                    401, "unauthorized", "Give the service's token as a bearer token.", {"WWW-Authenticate": "Bearer"}
                )
        if path.startswith("/v1/") and service.status == "stopping":
            raise ServiceError(503, "stopping", service.detail, {"Retry-After": "5", "Connection": "close"})
        limit, name = (
            (service.limits.upload_bytes, "upload_bytes")
            if path == UPLOAD
            else (service.limits.body_bytes, "body_bytes")
        )
        said = headers.get("content-length", "")
        if said.isascii() and said.isdigit() and int(said) > limit:
            raise _too_long(limit, name)
        try:
            async with asyncio.timeout(service.limits.seconds):
                return await _body(receive, limit, name)
        except TimeoutError:
            raise ServiceError(
                408, "timeout", f"The body did not arrive within {service.limits.seconds:g} seconds; send it again."
            ) from None

    def _measure(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """Count the request under its route, never under what a user wrote."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
        self.service.metrics.requests.labels(route, method, str(status)).inc()
        self.service.metrics.latency.labels(route).observe(seconds)
        log.info("%s %s %d %.0f ms", method, route, status, 1000 * seconds)


async def _body(receive: Receive, limit: int, name: str) -> bytes:
    """The whole body, up to a limit."""
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_long(limit, name)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_long(limit: int, name: str) -> ServiceError:
    return ServiceError(
        413, "too_large", f"The body is larger than {limit} bytes (limit '{name}'); send less.", {"Connection": "close"}
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and after it what the client does."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again
