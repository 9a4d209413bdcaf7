"""Requests to a service over loopback, from clients that wait for their answers and from arrivals at random."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

SENTENCES = {
    "en": (
        "The Rosetta Stone was found in July 1799 near the town of Rashid by soldiers who repaired a fort. ",
        "Jean-François Champollion announced in 1822 how hieroglyphs work. ",
        "The harbour of Arvik was opened by Queen Ingrid in 1931. ",
        "Its lighthouse stands on the northern pier, is built of red granite, and is 34 metres high. ",
        "The first master of the harbour was Olaf Lund, who had been a pilot for twenty years. ",
        "The bakery in Mill Street sells rye bread and closes at noon. ",
    ),
    "zh": (
        "罗塞塔石碑于1799年7月在拉希德镇附近由修缮堡垒的士兵发现。",
        "商博良于1822年宣布了象形文字的读法。",
        "阿尔维克港由英格丽德王后于1931年主持启用。",
        "灯塔位于北码头，用红色花岗岩建成，高三十四米。",
        "第一任港务长是奥拉夫·伦德，他曾做过二十年领航员。",
        "磨坊街的面包店出售黑麦面包，中午关门。",
    ),
}
QUESTIONS = {
    "en": (
        "When was the stone found?", "Who announced how hieroglyphs work?", "Who opened the harbour?",
        "How high is the lighthouse?", "Who was the first master?", "When does the bakery close?",
    ),
    "zh": (
        "石碑是什么时候发现的？", "谁宣布了象形文字的读法？", "谁主持启用了港口？", "灯塔有多高？",
        "第一任港务长是谁？", "面包店什么时候关门？",
    ),
}  # fmt: skip
T = TypeVar("T")
COUNTS = (2, 4, 8, 12)  # sentences of a passage
OPEN = 400  # connections at a time; further requests are not sent, and counted as such
NOT_SENT, BROKEN = 0, 1  # in the place of a status


@dataclass
class Load:
    """What a load gave."""

    latencies: list[float] = field(default_factory=list)  # seconds, of answers
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def note(self, status: int, seconds: float) -> None:
        """Count a reply; the time of an answer counts too."""
        self.statuses[status] += 1
        if status == 200:
            self.latencies.append(seconds)

    def summary(self) -> dict[str, Any]:
        """Answers a second, percentiles in milliseconds, and the number of replies by status."""
        found: dict[str, Any] = {"answers_per_second": round(len(self.latencies) / max(self.seconds, 1e-9), 2)}
        found |= {f"p{p}_ms": percentile(self.latencies, p) for p in (50, 95, 99)}
        names = {NOT_SENT: "not_sent", BROKEN: "broken"}
        return {**found, "statuses": {names.get(key, str(key)): n for key, n in sorted(self.statuses.items())}}


def percentile(seconds: list[float], percent: float) -> float | None:
    """The time, in milliseconds, that ``percent`` of the answers took at most; None without answers."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    place = max(0, min(len(ordered) - 1, -int(-percent * len(ordered) // 100) - 1))  # the nearest rank
    return round(1000 * ordered[place], 1)


@dataclass(frozen=True)
class Texts:
    """Questions about passages of some sentences. A number makes every passage new: none was read before."""

    language: str = "en"
    counts: Sequence[int] = COUNTS

    def body(self, rng: random.Random) -> bytes:
        """A request."""
        sentences = rng.choices(SENTENCES[self.language], k=rng.choice(self.counts))
        passage = f"{''.join(sentences)}{rng.randrange(10**9)}."
        return json.dumps({"question": rng.choice(QUESTIONS[self.language]), "passages": [passage]}).encode()


async def ask(port: int, data: bytes | None = None, path: str = "/v1/answer") -> tuple[int, bytes, float]:
    """Status, body and seconds of one request on a connection of its own: POST with data, else GET."""
    start = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            lines = [f"{'GET' if data is None else 'POST'} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
            if data is not None:
                lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
            writer.write("\r\n".join([*lines, "", ""]).encode() + (data or b""))
            await writer.drain()
            reply = await reader.read()
        finally:
            writer.close()
        end = reply.index(b"\r\n\r\n")
        return int(reply[9:12]), reply[end + 4 :], time.perf_counter() - start
    except (OSError, ValueError):
        return BROKEN, b"", time.perf_counter() - start


async def closed(port: int, texts: Texts, clients: int, seconds: float, seed: int = 0) -> Load:
    """Clients that ask one question after the other."""
    load, start = Load(), time.perf_counter()

    async def client(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        while time.perf_counter() - start < seconds:
            status, _, taken = await ask(port, texts.body(rng))
            load.note(status, taken)

    await asyncio.gather(*(client(number) for number in range(clients)))
    load.seconds = time.perf_counter() - start
    return load


async def poisson(port: int, texts: Texts, rate: float, seconds: float, seed: int = 0) -> Load:
    """Requests that arrive at random, ``rate`` a second, whether or not earlier ones have been answered."""
    load, rng, tasks, start = Load(), random.Random(seed), set[asyncio.Task[None]](), time.perf_counter()

    async def one(data: bytes) -> None:
        status, _, taken = await ask(port, data)
        load.note(status, taken)

    due = 0.0
    while due < seconds:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - start)))
        if len(tasks) >= OPEN:
            load.note(NOT_SENT, 0.0)
        else:
            task = asyncio.create_task(one(texts.body(rng)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        due += rng.expovariate(rate)  # by the clock, so that a slow sender does not lower the rate
    await asyncio.gather(*tasks)
    load.seconds = time.perf_counter() - start
    return load


class Service:
    """A service in a process of its own, on a free port."""

    def __init__(self, *options: str) -> None:
        words = [sys.executable, "-m", "masquerade", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.port = int(self.process.stderr.readline().strip().rpartition(":")[2])
        if "ready" not in (said := self.process.stderr.readline()):
            raise SystemExit(f"The service did not start: {said}")

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(90)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def megabytes(self) -> float:
        """The resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)

    def seconds(self) -> float:
        """The processor time that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def others_share(run: Callable[[], T], services: Sequence[Service]) -> tuple[T, float]:
    """The result of a function, and the share of the machine that other programs had meanwhile."""

    def taken() -> tuple[float, float]:
        fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
        busy = (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
        return busy, time.process_time() + sum(service.seconds() for service in services)

    start, before = time.perf_counter(), taken()
    result = run()
    seconds, after = time.perf_counter() - start, taken()
    others = (after[0] - before[0]) - (after[1] - before[1])
    return result, round(max(0.0, others) / seconds / (os.cpu_count() or 1), 3)
