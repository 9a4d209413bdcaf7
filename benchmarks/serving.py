"""Load on the service over loopback: answers a second and latencies, with and without batching, and under overload.

    python benchmarks/serving.py --out serving.json --plot serving.png     # all parts, with the shipped English reader
    python benchmarks/serving.py --smoke --parts closed                    # about 20 seconds, to see that it works

Parts: ``closed``: clients that ask one question after the other, batching on and off; ``poisson``: arrivals at random,
the highest rate whose 99th percentile stays below a second; ``overload``: four times that rate, what is refused and how
long the others take; ``memory``: the size of the process over time; ``same``: answers under load against answers alone.
What has been measured is in --out at once; the same command goes on with what is missing. The tool is a process of its
own, asks loopback only, and stops by itself."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from serving_load import COUNTS, Load, Service, Texts, ask, closed, others_share, poisson

PARTS = ("closed", "poisson", "overload", "memory", "same")
MODES = {"batching": "--batching", "alone": "--no-batching"}
QUEUE = 20_000  # tokens that may wait under overload
SECOND = 1000  # milliseconds
GAIN, AT = 1.5, "16"  # what batching has to bring, and for how many clients
QUIET, TRIES = 0.1, 3  # the share of the machine that others may have; how often a measurement is tried
GROWTH = 1.03  # of memory, from the middle of the time to its end


class Kept:
    """Measurements in a file, each written when it is made."""

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path, self.found = path, dict[str, Any]()
        if path is not None and path.is_file():
            self.found = json.loads(path.read_text(encoding="utf-8"))
            if self.found.get("settings") != settings:
                raise SystemExit(f"'{path}' was measured with other settings; delete it, or give another --out.")
        self.found["settings"] = settings

    def get(self, *names: str) -> Any:
        """A measurement by its names; None if it is missing."""
        place: Any = self.found
        for name in names:
            place = place.get(name, {})
        return place or None

    def measure(self, names: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """A measurement, made if it is missing."""
        if (known := self.get(*names)) is None:
            known = make()
            place = self.found
            for name in names[:-1]:
                place = place.setdefault(name, {})
            place[names[-1]] = known
            print(f"{' '.join(names)}: {json.dumps(known)}", flush=True)
            self.save()
        return known

    def save(self) -> None:
        """Write all measurements, if there is a file for them."""
        if self.path is not None:
            self.path.write_text(json.dumps(self.found, indent=2) + "\n", encoding="utf-8")


def measure_closed(kept: Kept, options: list[str], given: argparse.Namespace) -> None:
    """Answers a second by the number of clients, with and without batching. Both services run all the time and are
    asked in turn, so that a machine that gets slower changes both."""
    missing = [count for count in given.clients if not all(kept.get("closed", mode, str(count)) for mode in MODES)]
    if missing:
        with Service("--batching", *options) as one, Service("--no-batching", *options) as other:
            services = dict(zip(MODES, (one, other), strict=True))
            for service in services.values():
                asyncio.run(closed(service.port, given.texts, 2, min(2.0, given.seconds), seed=999))  # warm
            for count in missing:
                for mode, service in services.items():
                    load = functools.partial(closed, service.port, given.texts, count, given.seconds, seed=count)
                    run = functools.partial(quiet, load, service, (one, other))
                    kept.measure(("closed", mode, str(count)), run)
    rows = {mode: kept.get("closed", mode) for mode in MODES}
    kept.found["closed"]["gain"] = {
        count: round(each["answers_per_second"] / max(rows["alone"][count]["answers_per_second"], 1e-9), 2)
        for count, each in rows["batching"].items()
    }


def quiet(
    load: Callable[[], Coroutine[Any, Any, Load]], service: Service, services: Sequence[Service]
) -> dict[str, Any]:
    """What a load gave, with the processor time that the service took for an answer, and the share of the machine that
    other programs had; tried again where they had more than a tenth, and the quietest of three tries if they always
    had."""
    tries = list[dict[str, Any]]()
    while len(tries) < TRIES and not (tries and tries[-1]["others_share"] <= QUIET):
        before = service.seconds()
        found, share = others_share(lambda: asyncio.run(load()), services)
        taken = round(1000 * (service.seconds() - before) / max(1, found.statuses[200]), 1)
        tries.append({**found.summary(), "processor_ms": taken, "others_share": share})
    return min(tries, key=lambda each: float(each["others_share"]))


def measure_poisson(kept: Kept, options: list[str], given: argparse.Namespace) -> float:
    """The highest rate whose 99th percentile is at most a second: of eighths of what 16 clients get at once, halved
    between a rate that holds and one that does not."""
    if (known := kept.get("poisson", "held")) is not None:
        return float(known["per_second"])
    with Service("--queue-tokens", str(QUEUE), *options) as service:
        asyncio.run(closed(service.port, given.texts, 2, min(2.0, given.seconds), seed=999))  # warm

        def fastest() -> float:
            load = asyncio.run(closed(service.port, given.texts, 16, given.seconds, seed=16))
            return float(load.summary()["answers_per_second"])

        most = kept.measure(("poisson", "most_per_second"), fastest)

        def holds(eighths: int) -> bool:
            rate = round(eighths * most / 8, 1)
            seconds = given.seconds if given.smoke else max(given.seconds, 200 / rate)  # 99 % need some requests

            def arrive() -> dict[str, Any]:
                run = functools.partial(poisson, service.port, given.texts, rate, seconds)
                load, share = others_share(lambda: asyncio.run(run()), [service])
                return {**load.summary(), "others_share": share}

            load = kept.measure(("poisson", "rates", f"{rate:g}"), arrive)
            return set(load["statuses"]) == {"200"} and load["p99_ms"] <= SECOND

        low, high = 0, 16  # beyond 8 where something else had the machine while these clients were measured
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) else (low, middle)
    held = round(low * most / 8, 1)
    return float(kept.measure(("poisson", "held"), lambda: {"per_second": held})["per_second"])


def measure_overload(kept: Kept, options: list[str], given: argparse.Namespace) -> None:
    """Four times the rate that is held: what is refused, how long answers and /healthz take, and whether a request
    after it is answered."""
    rate = 4 * max(2.0, measure_poisson(kept, options, given))

    async def loaded(port: int) -> dict[str, Any]:
        health = list[float]()

        async def watch() -> None:
            while True:
                health.append((await ask(port, path="/healthz"))[2])
                await asyncio.sleep(0.2)

        watching = asyncio.create_task(watch())
        load = await poisson(port, given.texts, rate, given.seconds, seed=1)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        after = await ask(port, given.texts.body(random.Random(2)))
        slowest, total = round(1000 * max(health), 1), sum(load.statuses.values())
        return {
            "rate": rate, **load.summary(), "refused_share": round(load.statuses[429] / total, 3),
            "healthz_slowest_ms": slowest, "afterwards": {"status": after[0], "ms": round(1000 * after[2], 1)},
        }  # fmt: skip

    def run() -> dict[str, Any]:
        with Service("--queue-tokens", str(QUEUE), *options) as service:
            asyncio.run(closed(service.port, given.texts, 2, min(2.0, given.seconds), seed=999))  # warm
            found, share = others_share(lambda: asyncio.run(loaded(service.port)), [service])
            return {**found, "others_share": share}

    kept.measure(("overload",), run)


def measure_memory(kept: Kept, options: list[str], given: argparse.Namespace) -> None:
    """The size of the process, twenty times over some minutes of load with new passages."""

    def turns(service: Service) -> tuple[list[float], int]:
        sizes, answers, turn_seconds = list[float](), 0, 3 * given.minutes
        for turn in range(20):
            load = asyncio.run(closed(service.port, given.texts, 8, given.duty * turn_seconds, seed=100 + turn))
            answers += load.statuses[200]
            sizes.append(service.megabytes())
            time.sleep(max(0.0, turn_seconds - load.seconds))
        return sizes, answers

    def run() -> dict[str, Any]:
        with Service("--memory", "16", *options) as service:
            (sizes, answers), share = others_share(lambda: turns(service), [service])
        growth = round(max(sizes[15:]) / max(sizes[5:10]), 3)
        return {
            "minutes": given.minutes, "duty": given.duty, "answers": answers, "megabytes": sizes, "growth": growth,
            "others_share": share,
        }  # fmt: skip

    kept.measure(("memory",), run)


def measure_same(kept: Kept, options: list[str], given: argparse.Namespace) -> None:
    """How many answers under load differ from answers alone, and by how much the scores do. Each service reads every
    passage for the first time."""
    rng = random.Random(7)
    bodies = [given.texts.body(rng) for _ in range(12 if given.smoke else 96)]

    async def together(port: int) -> list[Any]:
        return [json.loads(each[1]) for each in await asyncio.gather(*(ask(port, data) for data in bodies))]

    async def alone(port: int) -> list[Any]:
        return [json.loads((await ask(port, data))[1]) for data in bodies]

    def run() -> dict[str, Any]:
        with Service("--no-batching", *options) as service:
            single = asyncio.run(alone(service.port))
        with Service("--batching", *options) as service:
            batched = asyncio.run(together(service.port))
        pairs = list(zip(single, batched, strict=True))
        return {
            "questions": len(pairs), "different": sum(place(one) != place(two) for one, two in pairs),
            "largest_difference_of_scores": max(abs(one["score"] - two["score"]) for one, two in pairs),
        }  # fmt: skip

    def place(reply: dict[str, Any]) -> tuple[Any, ...]:
        return reply["answer"], reply["passage"], reply["start"], reply["end"]

    kept.measure(("same",), run)


def checks(kept: Kept) -> dict[str, bool]:
    """Which of the claims hold, of those that were measured."""
    found = dict[str, bool]()
    if gain := kept.get("closed", "gain", AT):
        found[f"batching brings {GAIN} times at {AT} clients"] = gain >= GAIN
    if held := kept.get("poisson", "held"):
        found["a rate is held with a 99th percentile of a second"] = held["per_second"] > 0
    if over := kept.get("overload"):
        found["overload is refused, and no reply is lost"] = set(over["statuses"]) == {"200", "429"}
        found["after an overload requests are answered"] = over["afterwards"]["status"] == 200
    if memory := kept.get("memory"):
        found["memory is flat"] = memory["growth"] <= GROWTH
    if same := kept.get("same"):
        found["answers under load equal answers alone"] = same["different"] == 0
    return found


def plot(found: dict[str, Any], path: Path) -> None:
    """Answers a second, and the median and 99th percentile, by the number of clients."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    figure.suptitle(" ".join(found["settings"]["options"]))
    for mode, colour in zip(MODES, ("C0", "C1"), strict=True):
        rows = {int(count): each for count, each in found["closed"][mode].items()}
        left.plot(
            list(rows), [each["answers_per_second"] for each in rows.values()], marker="o", color=colour, label=mode
        )
        for percent, style in ((50, "-"), (95, "--"), (99, ":")):
            times = [each[f"p{percent}_ms"] for each in rows.values()]
            right.plot(list(rows), times, style, marker=".", color=colour, label=f"{mode}, {percent} %")
    for axis, title in ((left, "answers a second"), (right, "milliseconds until the answer")):
        axis.set(xscale="log", xlabel="clients", title=title)
        axis.set_xticks(list(rows), [str(count) for count in rows])
        axis.minorticks_off()
        axis.legend(fontsize="small")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure what is missing, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="en=en", help="NAME=PATH, as for masquerade serve")
    parser.add_argument("--language", choices=("en", "zh"), default="en", help="of the questions and passages")
    parser.add_argument("--sentences", type=int, nargs="+", default=list(COUNTS), help="of a passage, each as often")
    parser.add_argument("--threads", help="processor threads of the service")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the measurement of memory")
    parser.add_argument("--duty", type=float, default=1.0, help="the share of these minutes that is under load")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--smoke", action="store_true", help="a few seconds of each part; its figures mean little")
    parser.add_argument("--out", type=Path, help="JSON; what is in it is not measured again")
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    if given.smoke:
        given.clients, given.seconds, given.minutes = [1, 16], 4.0, 0.25
    given.texts = Texts(given.language, given.sentences)
    options = ["--reader", given.reader, *(["--threads", given.threads] if given.threads else [])]
    kept = Kept(given.out, vars(given.texts) | {"options": options, "seconds": given.seconds, "minutes": given.minutes})
    parts: dict[str, Callable[[Kept, list[str], argparse.Namespace], Any]] = {
        "closed": measure_closed, "poisson": measure_poisson, "overload": measure_overload,
        "memory": measure_memory, "same": measure_same,
    }  # fmt: skip
    for name in given.parts:
        parts[name](kept, options, given)
    kept.found["checks"] = checks(kept)
    kept.save()
    print(json.dumps({"gain": kept.get("closed", "gain"), "checks": kept.found["checks"]}, indent=2))
    if given.plot and kept.get("closed"):
        plot(kept.found, given.plot)


if __name__ == "__main__":
    main()
