"""The service: its models, its queue and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request

from masquerade.errors import MasqueradeError
from masquerade.serve.counting import PIECE, pieces
from masquerade.serve.failures import ServiceError, log_unexpected
from masquerade.serve.limits import ServiceLimits
from masquerade.serve.listing import list_models
from masquerade.serve.metrics import Metrics
from masquerade.serve.models import ServedModels, Sources
from masquerade.serve.replies import ModelInfo
from masquerade.serve.scheduler import Group, Scheduler

TOGETHER = 8  # short texts that are counted at once


class Service:
    """What the routes use. Its models are loaded after the start, while it already tells its state."""

    def __init__(
        self,
        sources: Sources | None = None,
        limits: ServiceLimits | None = None,
        token: str | None = None,
        hosts: Sequence[str] = (),
        batching: bool = True,
        models: ServedModels | None = None,
    ) -> None:
        self.sources, self.limits = sources or Sources(), limits or ServiceLimits()
        self.token, self.hosts = token, tuple(hosts)
        self.metrics, self.batching = Metrics(), batching
        self.status, self.detail = "loading", "The models are being loaded."
        self.requests = 0  # under way
        self.uploads = 0  # documents that are being read
        self.body_bytes = 0  # of the bodies of the requests under way
        self.listed = list[ModelInfo]()  # what GET /v1/models says, which so never waits for the models
        self._models = models
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="counting")

    @property
    def models(self) -> ServedModels:
        """The loaded models; an error while there are none. Requests that came before a stop still use them."""
        self.check_ready()
        assert self._models is not None
        return self._models

    def check_ready(self) -> None:
        """An error while there are no models."""
        if self._models is None or self.status not in ("ready", "stopping"):
            raise ServiceError(503, "not_ready", self.detail, {"Retry-After": "2"})

    async def start(self) -> None:
        """Begin to load the models."""
        self.scheduler = Scheduler(self.limits, self.metrics, self.batching)
        self.scheduler.start()
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            if self._models is None:
                self._models = await self.scheduler.call(lambda: ServedModels(self.sources, self.limits))
            loaded = self._models
            self.listed = await self.scheduler.call(lambda: list_models(loaded))
        except Exception as error:
            if not isinstance(error, MasqueradeError):
                log_unexpected(error)
            self.status = "failed"
            self.detail = str(error) if isinstance(error, MasqueradeError) else "The models could not be loaded."
            return
        if self.status == "loading":
            self.status, self.detail = "ready", ""

    async def loaded(self) -> None:
        """Wait until the models are loaded, or could not be."""
        await self._loading

    def begin_stop(self) -> None:
        """Refuse new requests from now on."""
        if self.status != "failed":
            self.status, self.detail = "stopping", "The service is stopping; ask another one."

    async def stop(self) -> None:
        """Stop, after the requests under way have ended."""
        self.begin_stop()
        self._loading.cancel()
        await asyncio.gather(self._loading, return_exceptions=True)
        if self._models is not None:
            await self.scheduler.call(self._models.close)
        await self.scheduler.stop()
        self._counting.shutdown(wait=False)

    async def count(self, kind: str, name: str, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, for a model. Long texts are counted piece by piece, so that short ones of
        other requests do not wait for them; an error as soon as there are more tokens than a request may have."""
        counter, loop, found = self.models.counters[kind, name], asyncio.get_running_loop(), [0] * len(texts)
        short = [index for index, text in enumerate(texts) if len(text) <= PIECE]
        for start in range(0, len(short), TOGETHER):
            part = short[start : start + TOGETHER]
            sizes = await loop.run_in_executor(self._counting, counter, [texts[index] for index in part])
            for index, size in zip(part, sizes, strict=True):
                found[index] = size
            self.check_tokens(sum(found))
        for index, text in enumerate(texts):
            if len(text) > PIECE:
                for piece in pieces(text):
                    found[index] += (await loop.run_in_executor(self._counting, counter, [piece]))[0]
                    self.check_tokens(sum(found))
        return found

    def check_tokens(self, tokens: int) -> None:
        """Refuse a request with too many tokens."""
        if tokens > self.limits.request_tokens:
            limit = self.limits.request_tokens
            raise ServiceError(
                413,
                "too_large",
                f"The request has more than {limit} tokens, which is the limit ('request_tokens'); send less.",
            )

    async def run(self, request: Request, group: Group, payload: Any, tokens: int) -> Any:
        """The result of one payload."""
        return (await self.scheduler.submit(request, [group], [payload], [tokens]))[0]


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    found: Service = request.app.state.service
    return found
