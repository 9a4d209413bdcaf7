"""What happens to every request before and after its route: limits, the token, headers and metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.serve.failures import ERRORS, ServiceError, log_unexpected
from masquerade.serve.scheduler import ClientGoneError
from masquerade.serve.service import Service

UPLOAD = "/v1/document"  # whose body is a file
DISCARDED_BYTES, DISCARDED_SECONDS = 128 << 20, 10.0  # of the body of a refused request, read and thrown away
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
        start, status, method, seconds = time.perf_counter(), [0], scope["method"], self.service.limits.seconds
        body, limit = ReceivedBody(self.service, receive), asyncio.timeout(seconds)
        if method == "HEAD":  # as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers[name] = value
                if scope["path"].startswith("/v1/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        async def replying(message: Message) -> None:
            limit.reschedule(None)  # from now on; generated texts have a limit of their own
            await sending(message)

        self.service.requests += 1
        try:
            async with limit:
                self._admit(scope)
                await body.read(*self._largest(scope))
                await self.app(scope, body.replayed, replying)
        except TimeoutError:
            late, said = 408, f"The body did not arrive within {seconds:g} seconds; send it again."
            if body.whole:
                late, said = 504, f"The request took longer than {seconds:g} seconds; send a shorter one."
            await ServiceError(late, "timeout", said).response()(scope, receive, sending)
        except ServiceError as error:
            if "expect" not in Headers(scope=scope):  # a client that asks before it sends need not send
                await body.discard()
            await error.response()(scope, receive, sending)
        except ClientGoneError:
            await Response(status_code=499)(scope, receive, sending)
        except Exception as error:
            log_unexpected(error)
            if not status[0]:
                await ServiceError(500, *ERRORS[500][1:]).response()(scope, receive, sending)
        finally:
            body.drop()
            self.service.requests -= 1
            self._measure(scope, method, status[0], time.perf_counter() - start)

    def _admit(self, scope: Scope) -> None:
        """An error for a request that may not go on."""
        service, path, headers = self.service, scope["path"], Headers(scope=scope)
        allowed = service.hosts and {*service.hosts, *LOCAL}
        if allowed and headers.get("host", "").rsplit(":", 1)[0].lower() not in allowed:
            raise ServiceError(421, *ERRORS[421][1:])
        guarded = path.startswith("/v1/") or path == "/metrics"
        if guarded and service.token is not None:
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {service.token}".encode()):
                raise ServiceError(
                    401, "unauthorized", "Give the service's token as a bearer token.", {"WWW-Authenticate": "Bearer"}
                )
        if path.startswith("/v1/") and service.status == "stopping":
            raise ServiceError(503, "stopping", service.detail, {"Retry-After": "5", "Connection": "close"})

    def _largest(self, scope: Scope) -> tuple[int, str]:
        """The greatest number of bytes of a request's body, and the name of that limit."""
        limits = self.service.limits
        limit = (limits.upload_bytes, "upload_bytes") if scope["path"] == UPLOAD else (limits.body_bytes, "body_bytes")
        said = Headers(scope=scope).get("content-length", "")
        if said.isascii() and said.isdigit() and int(said) > limit[0]:
            raise _too_long(*limit)
        return limit

    def _measure(self, scope: MutableMapping[str, Any], method: str, status: int, seconds: float) -> None:
        """Count the request under its route, never under what a user wrote."""
        route = getattr(scope.get("route"), "path", "other")
        method = method if method in ("GET", "POST", "HEAD") else "other"
        self.service.metrics.requests.labels(route, method, str(status)).inc()
        self.service.metrics.latency.labels(route).observe(seconds)
        log.info("%s %s %d %.0f ms", method, route, status, 1000 * seconds)


class ReceivedBody:
    """The body of a request, which counts among the bytes that the service holds until it is dropped."""

    def __init__(self, service: Service, receive: Receive) -> None:
        self.service, self.receive, self.whole = service, receive, False
        self._parts, self._size = list[bytes](), 0

    async def read(self, limit: int, name: str) -> None:
        """Read it all, up to a limit."""
        while not self.whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            self.service.body_bytes += len(self._parts[-1])
            if self._size > limit:
                raise _too_long(limit, name)
            if self.service.body_bytes > self.service.limits.held_bytes:
                headers = {"Retry-After": "2", "Connection": "close"}
                raise ServiceError(429, "overloaded", "Other large requests are being read; try again.", headers)
            self.whole = not message.get("more_body", False)

    async def replayed(self) -> Message:
        """The body as one message, and after it what the client does."""
        if self._parts:
            body, self._parts = b"".join(self._parts), []
            return {"type": "http.request", "body": body, "more_body": False}
        return await self.receive()

    async def discard(self) -> None:
        """Read what has not arrived yet, without keeping it: many clients, and nginx, see an error only after they have
        sent all. Of very large or slow bodies the rest is not awaited."""
        discarded, self._parts = 0, []
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARDED_SECONDS):
                while not self.whole and discarded < DISCARDED_BYTES:
                    message = await self.receive()
                    discarded += len(message.get("body", b""))
                    self.whole = not message.get("more_body", False)  # also where the client has gone

    def drop(self) -> None:
        """Count its bytes no more."""
        self.service.body_bytes -= self._size
        self._size, self._parts = 0, []


def _too_long(limit: int, name: str) -> ServiceError:
    return ServiceError(
        413, "too_large", f"The body is larger than {limit} bytes (limit '{name}'); send less.", {"Connection": "close"}
    )
