"""The figures of questions about long texts in docs/working-memory.md: read in several ways, CogLTX among them.

    python scripts/working_results.py OUT --reading READING [--shared SHARED] [--stages judge,read,table]

READING is the output of scripts/reading_data.py (en-train.jsonl, en-test-amazon.jsonl, en-test-wiki.jsonl); SHARED has
lm/ and is needed for the stage ten alone. Training resumes, and questions that were answered are not answered again, so
the script can be stopped at any time. Prints Markdown with 95 % bootstrap intervals. Further stages: floors, how often
BM25's blocks hold the answer; plot, which writes OUT/lengths.png; ten, a text of 10 MB.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import load
from masquerade.data.records import read_records
from masquerade.data.rng import rng_for
from masquerade.memory.working.judge import Judge, new_judge
from masquerade.memory.working.selection import ShortText, WorkingMemory, short_text
from masquerade.memory.working.training import MemoryTraining, TrainMemory
from masquerade.progress import progress_bar
from masquerade.reading.reader import WINDOWS, Reader
from masquerade.reading.records import QuestionRecord, read_questions, write_questions
from masquerade.reading.scores import METRICS
from masquerade.training.loop import Run

CHARACTERS = 4.4  # of a token of English text, to join texts to a number of tokens
BLOCKS = 7  # blocks that BM25 chooses
SAMPLES = 10_000  # of the bootstrap
PASSAGE = "passage"  # the question's own passage alone: what could be reached
WAYS = {
    PASSAGE: "its own passage alone",
    "truncated": "the text's beginning",
    "bm25": f"{BLOCKS} blocks by BM25",
    "cogltx": "CogLTX",
    "own": "the reader's own selection",
    "windows": "all windows",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reading", type=Path, required=True)
    parser.add_argument("--shared", type=Path, default=Path())
    parser.add_argument("--reader", default="models/reader-en")
    parser.add_argument("--start", default="", help="the encoder of the judge; the reader's if empty")
    parser.add_argument("--layers", type=int, default=0, help="layers of the judge; 0: all of its encoder")
    parser.add_argument("--judge-questions", type=int, default=400)
    parser.add_argument("--most", type=int, default=128, help="blocks that are judged: the best by BM25")
    parser.add_argument("--stages", default="judge,read,table")
    parser.add_argument("--sets", default="amazon,wiki")
    parser.add_argument("--lengths", default="2000,8000,32000")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--questions", type=int, default=100, help="test questions of each set and length")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.stages.split(","):
        STAGES[name](options)


def joined(records: Sequence[QuestionRecord], pool: Sequence[str], tokens: int, seed: int) -> list[QuestionRecord]:
    """Questions whose passage stands among others, at a random place, in a text of about that many tokens."""
    found = []
    for number, record in enumerate(records):
        rng, own = rng_for(seed, tokens, number), record.passages[0]
        others, size = list[str](), len(own)
        for index in rng.permutation(len(pool)):
            if size >= tokens * CHARACTERS:
                break
            if pool[int(index)] != own:
                others.append(pool[int(index)])
                size += len(pool[int(index)])
        at = int(rng.integers(len(others) + 1))
        text = "\n".join([*others[:at], own, *others[at:]])
        shift = len("\n".join([*others[:at], ""]))
        golds = tuple(type(gold)(gold.text, gold.start + shift) for gold in record.spans[0])
        found.append(QuestionRecord(record.id, record.question, (text,), (golds,), record.accepted, record.title))
    return found


def sample(path: Path, count: int, seed: int = 1) -> tuple[list[QuestionRecord], list[str]]:
    """Random questions of a file, and all its passages."""
    records = [each for each in read_questions(str(path)) if any(each.spans)]
    order = rng_for(seed, len(records)).permutation(len(records))[:count]
    return [records[int(index)] for index in order], list(dict.fromkeys(each.passages[0] for each in records))


def train_judge(options: argparse.Namespace) -> None:
    """A judge from the layers of the reader, on joined training passages of Amazon's reviews and of articles."""
    train = options.out / "judge-train.jsonl"
    if not train.is_file():
        records = [each for each in read_questions(str(options.reading / "en-train.jsonl")) if any(each.spans)]
        kinds = defaultdict[bool, list[QuestionRecord]](list)
        for each in records:
            if each.title not in ("", "dev"):
                kinds[each.title.startswith("Amazon")].append(each)
        long = list[QuestionRecord]()
        for some in kinds.values():
            order = rng_for(1, len(some)).permutation(len(some))[: options.judge_questions // 2]
            pool = list(dict.fromkeys(each.passages[0] for each in some))
            long += joined([some[int(index)] for index in order], pool, 1500, seed=2)
        write_questions(long, train)
    recipe = MemoryTraining(
        train=(str(train),), out=str(options.out / "judge"), start=options.start or options.reader,
        layers=options.layers, reasoner=options.reader, task="read", relevance="given", fixed=True, epochs=1, batch=4,
        rate=1e-4, warmup=0.1, micro=4, save_every=20, log_every=10,
    )  # fmt: skip
    Run(TrainMemory(recipe), resume=True).train()


def read_long(options: argparse.Namespace) -> None:
    """Answer the questions on joined test passages in all ways."""
    reader = Reader.load(options.reader)
    judge = Judge.load(options.out / "judge") if "cogltx" in options.ways else Judge(new_judge(reader.model, 512, 1))
    memory = WorkingMemory(judge, most=options.most)  # for blocks by BM25, a judge's tokenizer is all that is used
    for name in options.sets.split(","):
        records, pool = sample(options.reading / f"en-test-{name}.jsonl", options.questions)
        for tokens in (0, *map(int, options.lengths.split(","))):
            long = joined(records, pool, tokens, seed=3) if tokens else records
            for way in options.ways.split(","):
                if (way == PASSAGE) == (tokens == 0):
                    answer_all(options.out / f"{name}-{tokens}-{way}.jsonl", reader, memory, way, long)


def print_floors(options: argparse.Namespace) -> None:
    """Print how often the blocks that BM25 chooses hold the answer; nothing is trained or read."""
    memory = WorkingMemory(Judge(new_judge(load(options.reader), 512, 1)))
    print(f"| {BLOCKS} blocks by BM25 hold the answer | questions | % |\n|---|---|---|")
    for name in options.sets.split(","):
        records, pool = sample(options.reading / f"en-test-{name}.jsonl", options.questions)
        for tokens in map(int, options.lengths.split(",")):
            with progress_bar(f"{name}, {tokens:,} tokens", len(records)) as done:
                held = list[float]()
                for record in joined(records, pool, tokens, seed=3):
                    held.append(100.0 * holds(places(bm25(memory, record)), record))
                    done(1)
            print(f"| {name}, {tokens:,} tokens | {len(held)} | {with_interval(np.array(held))} |", flush=True)


def answer_all(path: Path, reader: Reader, memory: WorkingMemory, way: str, records: Sequence[QuestionRecord]) -> None:
    """Answer the questions that the file does not have: a row for each, with its F1, whether what was read holds the
    answer, its CPU seconds, and the peak memory of the process so far."""
    known = {row["id"] for row in rows_of(path)}
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    with progress_bar(path.stem, len(records)) as done, path.open("a", encoding="utf-8") as file:
        for record in records:
            if record.id not in known:
                begun = time.process_time()
                text, read, windows = shortened(reader, memory, way, record)
                answer = reader.ask(record.question, text, windows=windows, threshold=0.0).text
                row = {
                    "id": record.id, "answer": answer,
                    "f1": METRICS["squad"]({record.id: answer}, [record]).total["f1"],
                    "held": 100.0 * holds(read, record),
                    "seconds": round(time.process_time() - begun, 2), "peak_mb": peak_memory(),
                }  # fmt: skip
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
            done(1)


def shortened(
    reader: Reader, memory: WorkingMemory, way: str, record: QuestionRecord
) -> tuple[str, list[tuple[int, int]], int]:
    """What the reader is given of a text, from which places (start, end) that is, and how many windows of it are read:
    0 is all of them."""
    text = record.passages[0]
    if way == "truncated":
        most = int(reader.layout.room * CHARACTERS)
        return text[:most], [(0, most)], 0
    if way == "bm25":
        short = bm25(memory, record)
    elif way == "cogltx":
        short = memory.select(record.question, record.passages, reader.layout.room)
    else:
        return text, [(0, len(text))], WINDOWS if way == "own" else 0
    return short.text, places(short), 0


def bm25(memory: WorkingMemory, record: QuestionRecord) -> ShortText:
    """The blocks that share most words with the question."""
    held = memory.blocks(record.passages)
    kept = held.best(memory.judge.query(record.question)[1:-1], BLOCKS)
    return short_text(record.passages, held, kept, (), len(held))


def places(short: ShortText) -> list[tuple[int, int]]:
    """The places (start, end) of a text that a short one comes from."""
    return [(start, end) for _, start, end in short.pieces]


def holds(kept: Sequence[tuple[int, int]], record: QuestionRecord) -> bool:
    """Whether an answer stands in one of these places of its text."""
    spans = [(gold.start, gold.start + len(gold.text)) for gold in record.spans[0]]
    return any(start <= first and last <= end for first, last in spans for start, end in kept)


def peak_memory() -> int:
    """The peak memory of the process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The answered questions of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def print_tables(options: argparse.Namespace) -> None:
    """Print F1 and the other figures of every set and length."""
    for name in options.sets.split(","):
        for tokens in map(int, options.lengths.split(",")):
            ways = {way: rows_of(options.out / f"{name}-{0 if way == PASSAGE else tokens}-{way}.jsonl") for way in WAYS}
            ways = {way: rows for way, rows in ways.items() if rows}
            if set(ways) <= {PASSAGE}:
                continue
            same = set.intersection(*({row["id"] for row in rows} for rows in ways.values()))
            print(f"\n| {name}, {tokens:,} tokens, {len(same)} questions | F1 | holds the answer | CPU s | peak MB |")
            print("|---|---|---|---|---|")
            scores = dict[str, Any]()
            for way, rows in ways.items():
                some = sorted((row for row in rows if row["id"] in same), key=lambda row: str(row["id"]))
                scores[way] = np.array([row["f1"] for row in some])
                held, seconds = (np.mean([row[key] for row in some]) for key in ("held", "seconds"))
                peak = max(row["peak_mb"] for row in some)
                kept = "" if way == "own" else f"{held:.0f} %"  # the reader does not tell which windows it chose
                print(f"| {WAYS[way]} | {with_interval(scores[way])} | {kept} | {seconds:.2f} | {peak} |")
            for other in ("truncated", "bm25", "own"):
                if other in scores and "cogltx" in scores:
                    print(f"| CogLTX less {WAYS[other]} | {with_interval(scores['cogltx'] - scores[other])} | | | |")


def with_interval(values: Any) -> str:
    """The mean of some numbers with its bootstrap interval."""
    index = np.random.default_rng(1).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.percentile(values[index].mean(1), [2.5, 97.5])
    return f"{values.mean():.1f} ({low:.1f} to {high:.1f})"


def select_from_ten_megabytes(options: argparse.Namespace) -> None:
    """Time and peak memory of what is kept of 10 MB of Wikipedia for a question."""
    articles, size = list[str](), 0
    for record in read_records(str(options.shared / "lm" / "enwiki.jsonl")):
        articles.append(str(record["text"]))
        size += len(articles[-1])
        if size > 10_000_000:
            break
    folder, begun = options.out / "judge", time.process_time()
    judge = Judge.load(folder) if folder.is_dir() else Judge(new_judge(load(options.reader), 512, options.layers))
    before, question = peak_memory(), "Who was the first person to climb the mountain?"
    short = WorkingMemory(judge, most=options.most).select(question, "\n".join(articles)[:10_000_000], 440)
    print(f"{short.total} blocks, {short.judged} judged, {len(short.blocks)} kept; {time.process_time() - begun:.0f} s")
    print(f"of CPU, peak memory {peak_memory()} MB, {before} MB before")


def plot(options: argparse.Namespace) -> None:
    """Draw F1 and CPU time of a question against the length of the text, a panel for each set."""
    from matplotlib.figure import Figure

    sets, lengths = options.sets.split(","), sorted(map(int, options.lengths.split(",")))
    figure = Figure(figsize=(4.5 * len(sets), 7), layout="constrained")
    panels = figure.subplots(2, len(sets), squeeze=False)
    for column, name in enumerate(sets):
        found = {
            tokens: {way: rows for way in WAYS if (rows := rows_of(options.out / f"{name}-{tokens}-{way}.jsonl"))}
            for tokens in lengths
        }
        same = {
            tokens: set.intersection(*({row["id"] for row in rows} for rows in ways.values()))
            for tokens, ways in found.items()
            if ways
        }  # questions that were answered in all ways
        for row, (key, label) in enumerate((("f1", "F1"), ("seconds", "CPU seconds a question"))):
            axes = panels[row][column]
            for way, words in WAYS.items():
                points = [
                    (tokens, np.mean([each[key] for each in ways[way] if each["id"] in same[tokens]]))
                    for tokens, ways in found.items()
                    if way in ways
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), marker="o", label=words)
            axes.set(xscale="log", xlabel="tokens", ylabel=label, title=name)
            axes.grid(alpha=0.3)
            axes.legend()
    figure.savefig(options.out / "lengths.png", dpi=130)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "floors": print_floors,
    "judge": train_judge,
    "read": read_long,
    "table": print_tables,
    "plot": plot,
    "ten": select_from_ten_megabytes,
}


if __name__ == "__main__":
    main()
