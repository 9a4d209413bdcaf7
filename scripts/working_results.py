"""The figures of long texts in docs/working-memory.md: asked and classified with CogLTX and without.

    python scripts/working_results.py OUT --reading READING --shared SHARED [--stages judge,read,news,ten,plot]

READING is the output of scripts/reading_data.py (en-train.jsonl, en-test-amazon.jsonl, en-test-wiki.jsonl); SHARED has
longtext/ and lm/. What is done is not done again; trained models resume. Prints Markdown, and writes OUT/results.json
and, as the stage plot, OUT/lengths.png.
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

from masquerade import load
from masquerade.data.records import read_records
from masquerade.data.rng import rng_for
from masquerade.files import write_text
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.training import TrainClassifier
from masquerade.memory.working.judge import Judge, new_judge
from masquerade.memory.working.reasoners import MemoryReader
from masquerade.memory.working.selection import WorkingMemory, short_text
from masquerade.memory.working.training import MemoryTraining, TrainMemory
from masquerade.progress import progress_bar
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.training.loop import Run
from masquerade.training.recipe import FineTuning

CHARACTERS = 4.4  # of a token of English text, to join texts to a number of tokens
BLOCKS = 7  # blocks that BM25 chooses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reading", type=Path, required=True)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--reader", default="models/reader-en")
    parser.add_argument("--encoder", default=".cache/checkpoints/minilm-en")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--questions", type=int, default=60, help="test questions of each set and length")
    parser.add_argument("--lengths", default="2000,8000,32000")
    parser.add_argument("--judge-questions", type=int, default=240)
    parser.add_argument("--documents", type=int, default=400, help="training documents of 20 Newsgroups")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.stages.split(","):
        STAGES[name](options)
    results = {path.stem: json.loads(path.read_text()) for path in sorted(options.out.glob("*.result.json"))}
    write_text(options.out / "results.json", json.dumps(results, indent=2) + "\n")
    for name, values in results.items():
        print(
            f"| {name.removesuffix('.result')} | "
            + " | ".join(f"{key} {value}" for key, value in values.items())
            + " |"
        )


def measured(out: Path, name: str, make: Callable[[], dict[str, Any]]) -> None:
    """Write what ``make`` returns, with its time and the peak memory of the process, unless that is done already."""
    path = out / f"{name}.result.json"
    if path.is_file():
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    begun = time.perf_counter()
    values = make()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
    write_text(path, json.dumps({**values, "seconds": round(time.perf_counter() - begun, 1), "peak_mb": peak}) + "\n")


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


def write_records(records: Sequence[QuestionRecord], path: Path) -> None:
    """Questions as flat records."""
    lines = []
    for record in records:
        golds = record.spans[0]
        answers = {"text": [gold.text for gold in golds], "answer_start": [gold.start for gold in golds]}
        row = {"id": record.id, "question": record.question, "context": record.passages[0], "answers": answers}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def sample(path: Path, count: int, seed: int = 1, keep: str = "") -> tuple[list[QuestionRecord], list[str]]:
    """Random questions of a file, and all its passages; ``keep`` is how the ids of those begin that are used."""
    records = [each for each in read_questions(str(path)) if each.id.startswith(keep) and any(each.spans)]
    order = rng_for(seed, len(records)).permutation(len(records))[:count]
    return [records[int(index)] for index in order], list(dict.fromkeys(each.passages[0] for each in records))


def train_judge(options: argparse.Namespace) -> None:
    """A judge from the reader's layers, on joined training passages of Amazon's reviews and of articles."""

    def make() -> dict[str, Any]:
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
            write_records(long, train)
        recipe = MemoryTraining(
            train=str(train), out=str(options.out / "judge"), start=options.reader, reasoner=options.reader,
            task="read", relevance="given", fixed=True, epochs=1, batch=6, rate=1e-4, warmup=0.1, micro=4,
            save_every=10, log_every=2,
        )  # fmt: skip
        Run(TrainMemory(recipe), resume=True).train()
        return {"questions": options.judge_questions}

    measured(options.out, "judge", make)


def read_long(options: argparse.Namespace) -> None:
    """F1 of the reader on joined test passages, by how the text is shortened."""
    reader, plain = Reader.load(options.reader), Reader.load(options.reader)
    plain.scorer = None  # reads windows whole; ``reader`` selects blocks, if it is one that can
    judge = Judge.load(options.out / "judge")
    memory = WorkingMemory(judge)
    for name in ("amazon", "wiki"):
        records, pool = sample(options.reading / f"en-test-{name}.jsonl", options.questions)
        for tokens in (0, *map(int, options.lengths.split(","))):
            long = joined(records, pool, tokens, seed=3) if tokens else records
            ways: dict[str, Callable[[QuestionRecord], str]] = {
                "passage": lambda r: reader.ask(r.question, r.passages).text
            }
            if tokens:
                ways = {
                    "truncated": lambda r: reader.ask(r.question, r.passages[0][: int(440 * CHARACTERS)]).text,
                    "windows": lambda r: plain.ask(r.question, r.passages, windows=0).text,
                    **({"blocks": lambda r: reader.ask(r.question, r.passages).text} if reader.scorer else {}),
                    "bm25": lambda r: reader.ask(r.question, bm25_text(memory, r)).text,
                    "cogltx": lambda r: MemoryReader(reader, memory).ask(r.question, r.passages)[0].text,
                }
            for way, answer in ways.items():

                def make(answer: Callable[[QuestionRecord], str] = answer, long: Any = long) -> dict[str, Any]:
                    found = dict[str, str]()
                    with progress_bar("questions", len(long)) as done:
                        for record in long:
                            found[record.id] = answer(record)
                            done(1)
                    return {"f1": round(METRICS["squad"](found, long).total["f1"], 1), "questions": len(long)}

                measured(options.out, f"read-{name}-{tokens}-{way}", make)

            def kept(long: Any = long) -> dict[str, Any]:
                counts = {"cogltx": 0, "bm25": 0}
                for record in long:
                    texts = {
                        "cogltx": memory.select(record.question, record.passages, reader.layout.room).text,
                        "bm25": bm25_text(memory, record),
                    }
                    for way, text in texts.items():
                        counts[way] += any(gold.text in text for gold in record.spans[0])
                return {way: round(100 * count / len(long), 1) for way, count in counts.items()}

            if tokens:
                measured(options.out, f"read-{name}-{tokens}-answer-kept", kept)


def bm25_text(memory: WorkingMemory, record: QuestionRecord) -> str:
    """The blocks that share most words with the question, as one text."""
    held = memory.blocks(record.passages)
    kept = held.best(memory.judge.query(record.question)[1:-1], BLOCKS)
    return short_text(record.passages, held, kept, (), len(held)).text


def classify_news(options: argparse.Namespace) -> None:
    """20 Newsgroups with a window of 128 tokens: truncation against CogLTX by intervention, and linear classifiers."""
    rows = {
        part: list(read_records(str(options.shared / "longtext" / f"20news-{part}.jsonl")))
        for part in ("train", "test")
    }
    for part, count, seed in (("train", options.documents, 1), ("test", 300, 2)):
        order = rng_for(seed, len(rows[part])).permutation(len(rows[part]))[:count]
        rows[part] = [rows[part][int(index)] for index in order]
        lines = [json.dumps({"text": row["text"], "label": row["label"]}) + "\n" for row in rows[part]]
        write_text(options.out / f"news-{part}.jsonl", "".join(lines))
    files = {"train": str(options.out / "news-train.jsonl"), "held_out": str(options.out / "news-test.jsonl")}
    plain: dict[str, Any] = {
        "start": options.encoder,
        "batch": 16,
        "rate": 2e-4,
        "warmup": 0.1,
        "evaluate_every": 10**6,
    }

    def truncated() -> dict[str, Any]:
        recipe = FineTuning(**files, **plain, out=str(options.out / "news-truncated"), length=128, row=128, epochs=4)
        Run(TrainClassifier(recipe), resume=True).train()
        scores, _ = Classifier(load(options.out / "news-truncated"), 128).evaluate(TrainClassifier(recipe).test)
        return {"accuracy": round(100 * scores["accuracy"], 1)}

    def cogltx() -> dict[str, Any]:
        recipe = MemoryTraining(
            **files, **plain, out=str(options.out / "news-cogltx"), window=128, block=40, length=128, row=128, epochs=4,
            held_out_documents=0, save_every=25,
        )  # fmt: skip
        job = TrainMemory(recipe)
        Run(job, resume=True).train()
        memory = WorkingMemory(Judge.load(options.out / "news-cogltx"), 40)
        scores = job.task.scores(load(options.out / "news-cogltx"), memory)
        return {"accuracy": round(100 * scores["accuracy"], 1), "labels_changed": job.kept.get("changed", [])}

    measured(options.out, "news-truncated", truncated)
    measured(options.out, "news-cogltx", cogltx)


def select_from_ten_megabytes(options: argparse.Namespace) -> None:
    """Time and peak memory of what is kept of 10 MB of Wikipedia for a question."""

    def make() -> dict[str, Any]:
        articles, size = list[str](), 0
        for record in read_records(str(options.shared / "lm" / "enwiki.jsonl")):
            articles.append(str(record["text"]))
            size += len(articles[-1])
            if size > 10_000_000:
                break
        folder = options.out / "judge"
        judge = Judge.load(folder) if folder.is_dir() else Judge(new_judge(load(options.reader), 512))
        question = "Who was the first person to climb the mountain?"
        short = WorkingMemory(judge).select(question, "\n".join(articles)[:10_000_000], 440)
        return {"blocks": short.total, "judged": short.judged, "kept": len(short.blocks)}

    measured(options.out, "ten-megabytes", make)


def plot(options: argparse.Namespace) -> None:
    """F1 and time of a question against the length of the text, a panel for each set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    panels = figure.subplots(2, 2)
    for column, name in enumerate(("amazon", "wiki")):
        series = defaultdict[str, list[tuple[int, float, float]]](list)
        for path in options.out.glob(f"read-{name}-*.result.json"):
            tokens, way = path.name.removesuffix(".result.json").removeprefix(f"read-{name}-").split("-", 1)
            values = json.loads(path.read_text())
            if "f1" in values and int(tokens):
                series[way].append((int(tokens), values["f1"], values["seconds"] / values["questions"]))
        for row, label in enumerate(("F1", "seconds a question")):
            axes = panels[row][column]
            for way, points in sorted(series.items()):
                ordered = sorted(points)
                axes.plot([each[0] for each in ordered], [each[1 + row] for each in ordered], marker="o", label=way)
            axes.set(xscale="log", xlabel="tokens", ylabel=label, title=name)
            axes.grid(alpha=0.3)
            axes.legend()
    figure.savefig(options.out / "lengths.png", dpi=130)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "judge": train_judge,
    "read": read_long,
    "news": classify_news,
    "ten": select_from_ten_megabytes,
    "plot": plot,
}


if __name__ == "__main__":
    main()
