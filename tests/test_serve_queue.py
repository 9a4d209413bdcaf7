"""The queue: batches by tokens, fairness, overload, clients that have gone, and streams."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from serve_cases import (
    ASK,
    PASSAGE,
    Running,
    Service,
    ServiceLimits,
    Sources,
    client,
    sources,
    wait_until,
)

from masquerade.errors import MasqueradeError
from masquerade.serve.failures import ServiceError
from masquerade.serve.metrics import Metrics
from masquerade.serve.scheduler import ClientGoneError, Scheduler


class Connection:
    """A client that goes when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


@dataclass(frozen=True)
class Recorder:
    """A group that notes what it ran together."""

    name: str = "a"
    seconds: float = 0.0
    ran: list[list[Any]] = field(default_factory=list, compare=False)

    def run(self, payloads: Sequence[Any]) -> list[Any]:
        self.ran.append(list(payloads))
        time.sleep(self.seconds)
        if any(payload == "bad" for payload in payloads):
            raise MasqueradeError("This text is bad; give another one.")
        return [f"{payload}!" for payload in payloads]


def scheduled(test: Callable[[Scheduler], Any], limits: ServiceLimits | None = None, batching: bool = True) -> None:
    """Run a test with a scheduler."""

    async def run() -> None:
        scheduler = Scheduler(limits or ServiceLimits(), Metrics(), batching)
        scheduler.start()
        try:
            await test(scheduler)
        finally:
            await scheduler.stop()

    asyncio.run(run())


def test_jobs_that_come_together_run_together_up_to_a_number_of_tokens() -> None:
    async def test(scheduler: Scheduler) -> None:
        group, other = Recorder(), Recorder("b")
        tasks = [scheduler.submit(Connection(), [group], [n], [30]) for n in range(5)]
        tasks.append(scheduler.submit(Connection(), [other], ["x"], [1]))
        found = await asyncio.gather(*tasks)
        assert found == [[f"{n}!"] for n in range(5)] + [["x!"]]
        assert [len(batch) for batch in group.ran] == [3, 2] and other.ran == [["x"]]
        assert scheduler.tokens == 0

    scheduled(test, ServiceLimits(batch_tokens=100, wait_seconds=0.05))


def test_only_after_several_have_come_together_a_job_waits_for_others() -> None:
    async def test(scheduler: Scheduler) -> None:
        group, taken = Recorder(), list[float]()
        for count in (1, 1, 3, 1):
            start = time.monotonic()
            await asyncio.gather(*(scheduler.submit(Connection(), [group], [n], [30]) for n in range(count)))
            taken.append(time.monotonic() - start)
        assert max(taken[:3]) < 0.4 <= taken[3]

    scheduled(test, ServiceLimits(wait_seconds=0.4))


def test_the_first_job_is_in_the_batch_and_what_fits_beside_it() -> None:
    async def test(scheduler: Scheduler) -> None:
        group = Recorder()
        sizes = [200, 20, 190, 22, 210]
        await asyncio.gather(*(scheduler.submit(Connection(), [group], [size], [size]) for size in sizes))
        assert group.ran[0][:1] == [20] and all(sum(batch) <= 300 for batch in group.ran)
        assert sorted(size for batch in group.ran for size in batch) == sorted(sizes) and len(group.ran) == 3

    scheduled(test, ServiceLimits(batch_tokens=300, wait_seconds=0.2))


def test_without_batching_jobs_run_alone() -> None:
    async def test(scheduler: Scheduler) -> None:
        group = Recorder()
        await asyncio.gather(*(scheduler.submit(Connection(), [group], [n], [30]) for n in range(3)))
        assert group.ran == [[0], [1], [2]]

    scheduled(test, batching=False)


def test_a_short_job_passes_a_long_one_that_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("masquerade.serve.scheduler.time.monotonic", lambda: clock[0])

    async def test() -> None:
        scheduler, group = Scheduler(ServiceLimits(), Metrics(), batching=False), Recorder()  # it has not been started
        tasks = list[asyncio.Task[Any]]()
        # 4,000 tokens take 0.2 seconds at the rate of the start, so that what comes 0.3 seconds later has to wait
        for name, tokens, later in (("long", 4000, 0.1), ("short", 10, 0.2), ("late", 10, 0.0), ("later", 10, 0.0)):
            tasks.append(asyncio.create_task(scheduler.submit(Connection(), [group], [name], [tokens])))
            await asyncio.sleep(0)
            clock[0] += later
        order = [job.payload for _ in range(4) for job in scheduler._take()]
        assert order == ["short", "long", "late", "later"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        scheduler.thread.shutdown()

    asyncio.run(test())


def test_freed_memory_is_given_back_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[float]()
    monkeypatch.setattr("masquerade.serve.scheduler.give_back", lambda: given.append(time.monotonic()))
    monkeypatch.setattr("masquerade.serve.scheduler.GIVE_BACK", 0.2)

    async def test(scheduler: Scheduler) -> None:
        for _ in range(12):
            await scheduler.submit(Connection(), [Recorder(seconds=0.05)], ["a"], [10])

    scheduled(test)
    assert len(given) >= 2 and all(later - earlier >= 0.2 for earlier, later in pairwise(given))


def test_one_bad_text_spoils_no_other() -> None:
    async def test(scheduler: Scheduler) -> None:
        group = Recorder()
        tasks = [scheduler.submit(Connection(), [group], [name], [1]) for name in ("a", "bad", "c")]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0] == ["a!"] and found[2] == ["c!"] and isinstance(found[1], MasqueradeError)

    scheduled(test, ServiceLimits(wait_seconds=0.02))


def test_a_full_queue_refuses_with_the_time_to_wait() -> None:
    async def test(scheduler: Scheduler) -> None:
        group = Recorder(seconds=0.05)
        running = asyncio.create_task(scheduler.submit(Connection(), [group], ["a"], [900]))
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as caught:
            await scheduler.submit(Connection(), [group], ["b"], [200])
        assert caught.value.status == 429 and int(caught.value.headers["Retry-After"]) >= 1
        assert await running == ["a!"]
        assert await scheduler.submit(Connection(), [group], ["b"], [5000]) == ["b!"]  # alone it may be longer

    scheduled(test, ServiceLimits(queue_tokens=1000))


def test_a_request_whose_client_has_gone_is_not_run_and_one_that_takes_too_long_ends() -> None:
    async def test(scheduler: Scheduler) -> None:
        group, client = Recorder(seconds=0.1), Connection()
        first = asyncio.create_task(scheduler.submit(Connection(), [group], ["first"], [10]))
        await asyncio.sleep(0.03)
        second = asyncio.create_task(scheduler.submit(client, [group], ["second"], [10]))
        await asyncio.sleep(0)
        client.gone.set()
        with pytest.raises(ClientGoneError):
            await second
        assert await first == ["first!"]
        slow = Recorder("slow", 0.6)
        with pytest.raises(ServiceError) as caught:
            await scheduler.submit(Connection(), [slow], ["slow"], [10])
        assert caught.value.status == 504
        await asyncio.sleep(0.5)
        assert group.ran == [["first"]] and scheduler.tokens == 0

    scheduled(test, ServiceLimits(seconds=0.3))


def test_a_stream_goes_on_between_batches() -> None:
    async def test(scheduler: Scheduler) -> None:
        group, found = Recorder(), list[int]()

        def pieces() -> Iterator[int]:
            number, end = 0, time.monotonic() + 20
            while not group.ran and time.monotonic() < end:  # until the batch has run in between
                time.sleep(0.002)
                yield number
                number += 1

        stream = await scheduler.stream(pieces, 20)
        ended = asyncio.create_task(_all(stream, found))
        await asyncio.sleep(0.02)
        assert await scheduler.submit(Connection(), [group], ["a"], [1]) == ["a!"]
        await asyncio.wait_for(ended, 10)
        assert found == list(range(len(found))) and scheduler.tokens == 0
        with pytest.raises(MasqueradeError):
            await scheduler.stream(lambda: iter(Recorder().run(["bad"])), 1)
        assert scheduler.tokens == 0

    scheduled(test)


def test_streams_that_wait_for_their_first_turn_count_too() -> None:
    async def test(scheduler: Scheduler) -> None:
        blocked = threading.Event()
        scheduler.thread.submit(blocked.wait, 20)
        begun = [asyncio.create_task(scheduler.stream(lambda: iter([1, 2]), 10)) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert scheduler.tokens == 20
        blocked.set()
        found = await asyncio.gather(*begun, return_exceptions=True)
        refused = [each for each in found if isinstance(each, ServiceError)]
        assert len(refused) == 3 and {each.status for each in refused} == {429}
        for stream in found:
            if not isinstance(stream, BaseException):
                pieces = list[int]()
                await _all(stream, pieces)
                assert pieces == [1, 2]
        assert scheduler.tokens == 0

    scheduled(test, ServiceLimits(streams=2))


async def _all(stream: Any, found: list[int]) -> None:
    async for piece in stream:
        found.append(piece)


def test_answers_under_load_equal_answers_alone(tmp_path: Path) -> None:
    questions = ["who sat ?", "where is the cat", "two dogs ?", "who walk in", "what mat"] * 3
    passages = [PASSAGE, "the old cat was born by the sea .", "a red mat is on the cat . two dogs saw nasa"]
    bodies = [
        {"question": question, "passages": passages[: 1 + number % 3]} for number, question in enumerate(questions)
    ]
    with Running(Service(sources(tmp_path), ServiceLimits(wait_seconds=0.05))) as service:
        alone = [service.post("/v1/answer", body)[2] for body in bodies]
        with ThreadPoolExecutor(len(bodies)) as pool:
            together = list(pool.map(lambda body: service.post("/v1/answer", body)[2], bodies))
        sizes = service.service.metrics.registry.get_sample_value
        assert sizes("masquerade_batch_size_sum") == 2 * len(bodies)
        assert sizes("masquerade_batch_size_count") < 1.7 * len(bodies)  # some ran together
    for one, other in zip(alone, together, strict=True):
        assert (one["answer"], one["start"]) == (other["answer"], other["start"])
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_a_client_that_closes_its_connection_is_noticed(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path))) as service:
        blocked = threading.Event()
        service.service.scheduler.thread.submit(blocked.wait, 20)
        connection = socket.create_connection(("127.0.0.1", service.port))
        body = json.dumps(ASK).encode()
        head = f"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        wait_until(lambda: service.service.scheduler.tokens > 0)
        health = http.client.HTTPConnection("127.0.0.1", service.port, timeout=5)
        health.request("GET", "/healthz")  # is never behind inference
        assert health.getresponse().status == 200
        health.close()
        connection.close()
        value = service.service.metrics.registry.get_sample_value
        wait_until(lambda: value("masquerade_dropped_total") == 1)
        blocked.set()
        wait_until(lambda: service.service.scheduler.tokens == 0)


def test_weights_are_mapped_from_a_file_and_give_the_same_answers(tmp_path: Path) -> None:
    with client(sources(tmp_path)) as found:
        alone = found.post("/v1/answer", json=ASK).json()
    with client(sources(tmp_path, shared_weights=str(tmp_path / "shared"))) as found:
        shared = found.post("/v1/answer", json=ASK).json()
        files = list((tmp_path / "shared").iterdir())
        assert len(files) == 1 and str(files[0]) in Path("/proc/self/maps").read_text()
    assert (shared["answer"], shared["score"]) == (alone["answer"], alone["score"])
    before = files[0].stat().st_mtime_ns
    with client(sources(tmp_path, shared_weights=str(tmp_path / "shared"))):
        assert files[0].stat().st_mtime_ns == before  # another process finds it


def test_options_name_models() -> None:
    from masquerade.cli.show.serving import _named, _pair

    assert _named(["a=x/y", "runs/b/"]) == {"a": "x/y", "b": "runs/b/"}
    assert _pair("hub:m:kb") == ("hub:m", "kb")
    for wrong in (["=x"], ["a="], ["a=x", "a=y"]):
        with pytest.raises(MasqueradeError):
            _named(wrong)
    assert Sources().readers == {}
