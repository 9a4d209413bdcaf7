"""Load on the service over loopback: answers a second and latencies, with and without batching, and under overload.

    python benchmarks/serving.py                      # all parts, with the shipped English reader
    python benchmarks/serving.py --seconds 3 --clients 1 16 --parts closed
    python benchmarks/serving.py --out serving.json --plot serving.png

Parts: ``closed``: clients that ask one question after the other, batching on and off; ``poisson``: arrivals at random,
the highest rate whose 99th percentile stays below a second; ``overload``: four times that rate, what is refused and how
long the others take; ``memory``: the size of the process over time; ``same``: answers under load against answers alone.
The tool is a process of its own, asks loopback only, and stops by itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORPUS = (
    "The Rosetta Stone was found in July 1799 near the town of Rashid by soldiers who repaired a fort",
    "Jean-François Champollion announced in 1822 how hieroglyphs work",
    "The harbour of Arvik was opened by Queen Ingrid in 1931",
    "Its lighthouse stands on the northern pier, is built of red granite, and is 34 metres high",
    "The first master of the harbour was Olaf Lund, who had been a pilot for twenty years",
    "The bakery in Mill Street sells rye bread and closes at noon",
)
QUESTIONS = (
    "When was the stone found?", "Who announced how hieroglyphs work?", "Who opened the harbour?",
    "How high is the lighthouse?", "Who was the first master?", "When does the bakery close?",
)  # fmt: skip


@dataclass
class Load:
    """What a load gave."""

    latencies: list[float] = field(default_factory=list)  # seconds, of answers
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Answers a second and percentiles in milliseconds."""
        ordered = sorted(self.latencies)
        share = {p: round(1000 * ordered[min(len(ordered) - 1, int(p / 100 * len(ordered)))], 1) if ordered else None
                 for p in (50, 95, 99)}  # fmt: skip
        return {
            "answers_per_second": round(len(ordered) / max(self.seconds, 1e-9), 2), "p50_ms": share[50],
            "p95_ms": share[95], "p99_ms": share[99], "statuses": dict(self.statuses),
        }  # fmt: skip


def body(rng: random.Random, fresh: bool) -> bytes:
    """A question about a passage of a few sentences: new ones, or one of a few that come again."""
    chooser = rng if fresh else random.Random(rng.randrange(8))
    count = chooser.choice((2, 4, 8, 12))
    passage = ". ".join(chooser.choice(CORPUS) for _ in range(count)) + "."
    return json.dumps({"question": rng.choice(QUESTIONS), "passages": [passage]}).encode()


async def ask(port: int, data: bytes) -> tuple[int, bytes, float]:
    """Status, body and seconds of one request on a connection of its own."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = (
            "POST /v1/answer HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Connection: close",
            f"Content-Length: {len(data)}", "", "",
        )  # fmt: skip
        writer.write("\r\n".join(lines).encode() + data)
        await writer.drain()
        reply = await reader.read()
    finally:
        writer.close()
    head_end = reply.index(b"\r\n\r\n")
    return int(reply[9:12]), reply[head_end + 4 :], time.perf_counter() - start


async def closed(port: int, clients: int, seconds: float, fresh: bool = True, seed: int = 0) -> Load:
    """Clients that ask one question after the other."""
    load, end = Load(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        while time.perf_counter() < end:
            status, _, taken = await ask(port, body(rng, fresh))
            load.statuses[status] += 1
            if status == 200:
                load.latencies.append(taken)

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    load.seconds = time.perf_counter() - start
    return load


async def poisson(port: int, rate: float, seconds: float, seed: int = 0) -> Load:
    """Requests that arrive at random, ``rate`` a second, whether or not earlier ones have been answered."""
    load, rng, tasks = Load(), random.Random(seed), list[asyncio.Task[None]]()

    async def one(data: bytes) -> None:
        status, _, taken = await ask(port, data)
        load.statuses[status] += 1
        if status == 200:
            load.latencies.append(taken)

    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        tasks.append(asyncio.create_task(one(body(rng, True))))
        await asyncio.sleep(rng.expovariate(rate))
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

    def megabytes(self) -> float:
        """The resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def measure_closed(options: Sequence[str], clients: Sequence[int], seconds: float) -> dict[str, Any]:
    """Answers a second by the number of clients, with and without batching."""
    found: dict[str, Any] = {}
    for name, flag in (("batching", "--batching"), ("alone", "--no-batching")):
        with Service(flag, *options) as service:
            asyncio.run(closed(service.port, 2, min(2.0, seconds)))  # warm
            found[name] = {
                str(count): asyncio.run(closed(service.port, count, seconds, seed=count)).summary() for count in clients
            }
    found["gain"] = {
        count: round(each["answers_per_second"] / max(found["alone"][count]["answers_per_second"], 1e-9), 2)
        for count, each in found["batching"].items()
    }
    return found


def measure_poisson(options: Sequence[str], seconds: float) -> dict[str, Any]:
    """The highest rate whose 99th percentile is at most a second, and what happens at four times that rate."""
    found: dict[str, Any] = {"rates": {}}
    with Service("--queue-tokens", "20000", *options) as service:
        rate, held = 1.0, 0.0
        while rate <= 512:
            load = asyncio.run(poisson(service.port, rate, seconds)).summary()
            found["rates"][str(rate)] = load
            if load["p99_ms"] is None or load["p99_ms"] > 1000 or load["statuses"].get(429):
                break
            held, rate = rate, rate * 2
        found["held_per_second"] = held
        found["overload"] = asyncio.run(poisson(service.port, max(4 * held, 8), seconds, seed=1)).summary()
    return found


def measure_memory(options: Sequence[str], minutes: float) -> dict[str, Any]:
    """The size of the process, ten times over some minutes of load with new passages."""
    sizes = list[float]()
    with Service("--memory", "64", *options) as service:
        for turn in range(10):
            asyncio.run(closed(service.port, 8, 6 * minutes, seed=100 + turn))
            sizes.append(service.megabytes())
    return {"megabytes": sizes}


def measure_same(options: Sequence[str]) -> dict[str, Any]:
    """How many answers under load differ from answers alone, and by how much the scores do."""
    rng = random.Random(7)
    bodies = [body(rng, True) for _ in range(48)]
    with Service(*options) as service:

        async def both() -> tuple[list[Any], list[Any]]:
            alone = [json.loads((await ask(service.port, data))[1]) for data in bodies]
            together = await asyncio.gather(*(ask(service.port, data) for data in bodies))
            return alone, [json.loads(each[1]) for each in together]

        alone, together = asyncio.run(both())
    pairs = list(zip(alone, together, strict=True))
    return {
        "questions": len(pairs), "different": sum(one["answer"] != two["answer"] for one, two in pairs),
        "largest_difference_of_scores": max(abs(one["score"] - two["score"]) for one, two in pairs),
    }  # fmt: skip


def plot(found: dict[str, Any], path: Path) -> None:
    """Answers a second and the 95th percentile by the number of clients."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name in ("batching", "alone"):
        rows = found["closed"][name]
        counts = [int(count) for count in rows]
        left.plot(counts, [each["answers_per_second"] for each in rows.values()], marker="o", label=name)
        right.plot(counts, [each["p95_ms"] for each in rows.values()], marker="o", label=name)
    for axis, title in ((left, "answers a second"), (right, "95th percentile, ms")):
        axis.set(xscale="log", xlabel="clients", title=title)
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="en=en", help="NAME=PATH, as for masquerade serve")
    parser.add_argument("--threads", help="processor threads of the service")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the measurement of memory")
    parser.add_argument("--parts", nargs="+", default=["closed", "poisson", "memory", "same"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    options = ["--reader", given.reader, *(["--threads", given.threads] if given.threads else [])]
    parts = {
        "closed": lambda: measure_closed(options, given.clients, given.seconds),
        "poisson": lambda: measure_poisson(options, given.seconds),
        "memory": lambda: measure_memory(options, given.minutes),
        "same": lambda: measure_same(options),
    }
    found = {name: parts[name]() for name in given.parts}
    print(json.dumps(found, indent=2))
    if given.out:
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if given.plot and "closed" in found:
        plot(found, given.plot)


if __name__ == "__main__":
    main()
