"""Which requests run next, and together: one thread for all models, and a queue bounded by tokens.

Jobs of one group (the same model and options) run as one batch; the group sees to it that those of similar length are
computed together. Jobs are taken in the order of a deadline: when they came, plus the time that their own tokens take.
So a short job passes a long one that came just before it, and a long one waits no longer than its own length: what
comes later has a later deadline. Between batches every text that is being generated goes on for a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from masquerade.errors import MasqueradeError
from masquerade.serve.failures import ServiceError, log_unexpected
from masquerade.serve.heap import give_back
from masquerade.serve.limits import ServiceLimits
from masquerade.serve.metrics import Metrics

RATE = 20_000.0  # tokens a second, until it has been measured
GIVE_BACK = 30.0  # seconds after which freed memory is given back again; that takes some 20 ms
SLICE = 0.03  # seconds that a generated text goes on between two batches

T = TypeVar("T")


class Group(Protocol):
    """What runs jobs together; groups that are equal do."""

    def __hash__(self) -> int: ...

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """The result of each payload; called in the thread of the models."""


class ClientGoneError(Exception):
    """The client of a request has closed its connection."""


@dataclass(eq=False)
class Job:
    """A payload that waits for its result."""

    group: Group
    payload: Any
    tokens: int
    deadline: float
    future: asyncio.Future[Any]


@dataclass(eq=False)
class Stream:
    """A text that is being generated, piece by piece."""

    pieces: Iterator[Any]
    out: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    wanted: bool = True  # whether it goes on


_END = object()


class Scheduler:
    """Runs jobs and streams. All methods but ``Group.run`` are called in the event loop."""

    def __init__(self, limits: ServiceLimits, metrics: Metrics, batching: bool = True) -> None:
        self.limits, self.metrics, self.batching = limits, metrics, batching
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="models")
        self.rate, self.tokens = RATE, 0  # tokens a second; tokens that wait or run
        self._jobs = list[Job]()
        self._streams = list[Stream]()
        self._starting = 0  # streams that wait for their first turn
        self._give_back_at = 0.0
        self._together = False  # whether the last batch had several jobs, so that more may be on their way
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take jobs."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; jobs that still wait are refused."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for job in self._jobs:
            if not job.future.done():
                job.future.set_exception(ServiceError(503, "stopping", "The service is stopping; ask another one."))
        self.thread.shutdown(wait=True, cancel_futures=True)

    async def call(self, function: Callable[[], T]) -> T:
        """The result of a function that runs in the thread of the models."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function)

    async def submit(
        self, request: Request, groups: Sequence[Group], payloads: Sequence[Any], tokens: Sequence[int]
    ) -> list[Any]:
        """The results of some payloads of one request, each with its group. An error if the queue is full, the time is
        over, or the client has gone; what has not begun then does not begin."""
        self._admit(sum(tokens))
        now, loop = time.monotonic(), asyncio.get_running_loop()
        jobs = [
            Job(group, payload, size, now + size / self.rate, loop.create_future())
            for group, payload, size in zip(groups, payloads, tokens, strict=True)
        ]
        self._jobs += jobs
        self._count(sum(tokens))
        self._wake.set()
        try:
            results: asyncio.Future[list[Any]] = asyncio.gather(*(job.future for job in jobs))
            return await self.unless_gone(request, results)
        finally:
            for job in jobs:
                job.future.cancel()

    async def unless_gone(self, request: Request, results: asyncio.Future[T]) -> T:
        """The result of a future. It is cancelled if the client goes, or the time is over."""
        gone = asyncio.create_task(_gone(request))
        either: set[asyncio.Future[Any]] = {results, gone}
        try:
            await asyncio.wait(either, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if results.done():
                return results.result()
            if gone.done():
                self.metrics.dropped.inc()
                raise ClientGoneError
            raise ServiceError(
                504, "timeout", f"The request took longer than {self.limits.seconds:g} seconds; send a shorter one."
            )
        finally:
            gone.cancel()
            results.cancel()
            await asyncio.gather(gone, results, return_exceptions=True)

    async def stream(self, start: Callable[[], Iterator[Any]], tokens: int) -> AsyncIterator[Any]:
        """The pieces of an iterator that runs in the thread of the models, between batches."""
        if len(self._streams) + self._starting >= self.limits.streams:
            raise self._full()
        self._admit(tokens)
        self._starting += 1  # while it waits for the thread, others count it
        self._count(tokens)
        try:
            stream = Stream(await self.call(start))
        finally:
            self._starting -= 1
            self._count(-tokens)
        return self._pieces(stream, tokens)

    async def _pieces(self, stream: Stream, tokens: int) -> AsyncIterator[Any]:
        """The pieces of a stream, which goes on while they are asked for."""
        self._streams.append(stream)
        self._count(tokens)
        self.metrics.streams.set(len(self._streams))
        self._wake.set()
        try:
            async with asyncio.timeout(self.limits.seconds):
                while (piece := await stream.out.get()) is not _END:
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
        except TimeoutError:
            raise ServiceError(
                504, "timeout", f"The time limit of {self.limits.seconds:g} seconds was reached."
            ) from None
        finally:
            stream.wanted = False
            self._streams.remove(stream)
            self._count(-tokens)
            self.metrics.streams.set(len(self._streams))

    def _admit(self, tokens: int) -> None:
        """Refuse more tokens than the queue may hold."""
        if self.tokens and self.tokens + tokens > self.limits.queue_tokens:
            raise self._full()

    def _full(self) -> ServiceError:
        self.metrics.refused.inc()
        seconds = max(1, min(60, round(self.tokens / self.rate)))
        return ServiceError(
            429, "overloaded", f"The queue is full; try again in {seconds} s.", {"Retry-After": str(seconds)}
        )

    def _count(self, tokens: int) -> None:
        self.tokens += tokens
        self.metrics.queue_tokens.set(self.tokens)
        self.metrics.queue_jobs.set(len(self._jobs))

    async def _run(self) -> None:
        while True:
            if not self._jobs and not any(stream.wanted for stream in self._streams):
                self._wake.clear()
                await self._wake.wait()
                if self.batching and self._together:
                    await asyncio.sleep(self.limits.wait_seconds)
            batch = self._take()
            if batch:
                await self._run_batch(batch)
                if time.monotonic() > self._give_back_at:
                    await self.call(give_back)
                    self._give_back_at = time.monotonic() + GIVE_BACK
            for stream in [each for each in self._streams if each.wanted]:
                for piece in await self.call(lambda stream=stream: _advance(stream)):  # type: ignore[misc]
                    stream.out.put_nowait(piece)
            await asyncio.sleep(0)  # others get their turn, also where all is done at once

    def _take(self) -> list[Job]:
        """The next jobs to run together. Those whose request has ended are dropped."""
        for job in [each for each in self._jobs if each.future.done()]:
            self._jobs.remove(job)
            self._count(-job.tokens)
        if not self._jobs:
            return []
        first = min(self._jobs, key=lambda job: job.deadline)
        batch = self._joined(first) if self.batching else [first]
        chosen = set(map(id, batch))
        self._jobs = [job for job in self._jobs if id(job) not in chosen]
        return batch

    def _joined(self, first: Job) -> list[Job]:
        """A job and those that run with it: the most urgent ones of its group, up to ``batch_tokens``."""
        others = [job for job in self._jobs if job.group == first.group and job is not first]
        batch, tokens = [first], first.tokens
        for job in sorted(others, key=lambda job: job.deadline):
            if tokens + job.tokens <= self.limits.batch_tokens:
                batch.append(job)
                tokens += job.tokens
        return batch

    async def _run_batch(self, batch: Sequence[Job]) -> None:
        tokens, start = sum(job.tokens for job in batch), time.monotonic()
        self._together = len(batch) > 1
        self.metrics.batch.observe(len(batch))
        self.metrics.batch_tokens.observe(tokens)
        try:
            results = await self.call(lambda: _results(batch))
        except asyncio.CancelledError:
            results = [ServiceError(503, "stopping", "The service is stopping; ask another one.")] * len(batch)
            raise
        finally:
            self._count(-tokens)
            for job, result in zip(batch, results, strict=True):
                if job.future.done():
                    continue
                if isinstance(result, BaseException):
                    job.future.set_exception(result)
                else:
                    job.future.set_result(result)
        taken = max(time.monotonic() - start, 1e-4)
        self.rate = max(100.0, 0.9 * self.rate + 0.1 * tokens / taken)


def _results(batch: Sequence[Job]) -> list[Any]:
    """The result or the error of each job. If a batch fails, its jobs run one by one: one bad text spoils no other."""
    group = batch[0].group
    try:
        return list(group.run([job.payload for job in batch]))
    except Exception as error:
        if len(batch) == 1:
            if not isinstance(error, MasqueradeError | ServiceError):
                log_unexpected(error)
            return [error]
    return [result for job in batch for result in _results([job])]


def _advance(stream: Stream) -> list[Any]:
    """The pieces of a stream's next moment; _END or an error at its end."""
    found, end = list[Any](), time.monotonic() + SLICE
    while True:
        try:
            found.append(next(stream.pieces))
        except StopIteration:
            found.append(_END)
        except Exception as error:
            if not isinstance(error, MasqueradeError | ServiceError):
                log_unexpected(error)
            found.append(error)
        ended = found[-1] is _END or isinstance(found[-1], Exception)
        stream.wanted = stream.wanted and not ended
        if ended or time.monotonic() > end:
            return found


async def _gone(request: Request) -> None:
    """Return when the client has closed its connection. The body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
