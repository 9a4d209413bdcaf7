"""The figures of questions of several steps in docs/working-memory.md.

    python scripts/hops_results.py OUT --shared SHARED [--model RUN] [--reader models/reader-en] [--limit N]

SHARED has multihop/ (hotpot-200.json, 2wiki-200.json); RUN is the output of 'masquerade train cogqa'. For every
question and its ten paragraphs: CogQA; the paragraphs that BM25 ranks first, as many as are needed, and those that are
named by the question or by one that it names; and a reader that reads all paragraphs in one step. Answered questions
are kept in OUT, so the script can be stopped and run again. Prints Markdown with 95 % bootstrap intervals, and writes
OUT/results.json. Without a model, it prints what BM25 and names alone find.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.files import write_text
from masquerade.memory.working.cogqa import CognitiveGraph, CogQA
from masquerade.memory.working.hop_graphs import answer_f1
from masquerade.memory.working.hop_records import HopRecord, read_hops
from masquerade.memory.working.hop_scores import question_scores
from masquerade.memory.working.questions import SPAN
from masquerade.progress import progress_bar
from masquerade.reading.reader import Reader

SETS = ("hotpot-200", "2wiki-200")
SAMPLES = 10_000  # of the bootstrap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--model", default="", help="without a model: which paragraphs BM25 and names find")
    parser.add_argument("--reader", default="models/reader-en")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--limit", type=int, default=0, help="questions of each set; 0: all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.model:
        print_floors(options)
        return
    asked, reader = CogQA.load(options.model), Reader.load(options.reader)
    results = dict[str, Any]()
    for name in options.sets.split(","):
        records = read_hops(str(options.shared / "multihop" / f"{name}.json"))[: options.limit or None]
        rows = answered(options.out / f"{name}.jsonl", records, lambda record: row_of(asked, reader, record))
        results[name] = {"questions": len(rows), **summary(rows)}
    write_text(options.out / "results.json", json.dumps(results, indent=2) + "\n")
    print_tables(results)


def print_floors(options: argparse.Namespace) -> None:
    """Print how often BM25 and names alone find all needed paragraphs; nothing is trained or read."""
    print("| needed paragraphs ranked first, % | BM25 | by names alone |\n|---|---|---|")
    for name in options.sets.split(","):
        records = read_hops(str(options.shared / "multihop" / f"{name}.json"))[: options.limit or None]
        with progress_bar(name, len(records)) as done:
            rows = list[dict[str, float]]()
            for record in records:
                rows.append(floors(record))
                done(1)
        cells = [interval([row[key] for row in rows]) for key in ("bm25_found", "names_found")]
        print(f"| {name} ({len(rows)}) | {' | '.join(cells)} |")


def floors(record: HopRecord) -> dict[str, float]:
    """Whether BM25, and names alone, find all needed paragraphs of a question."""
    count, gold = len(record.gold), set(record.gold)
    return {
        "bm25_found": float(gold == set(record.source.search(record.question, count))),
        "names_found": float(gold == set(by_names(record)[:count])),
    }


def interval(values: Sequence[float]) -> str:
    """The mean of some shares with its bootstrap interval, in percent."""
    index = np.random.default_rng(1).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.percentile(np.array(values)[index].mean(1), [2.5, 97.5])
    return f"{100 * float(np.mean(values)):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def answered(
    path: Path, records: Sequence[HopRecord], make: Callable[[HopRecord], dict[str, Any]]
) -> list[dict[str, Any]]:
    """A row for each question; those in the file are not made again."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    known = {row["id"]: row for row in map(json.loads, lines)}
    with progress_bar(path.stem, len(records)) as done, path.open("a", encoding="utf-8") as file:
        done(len([record for record in records if record.id in known]))
        for record in records:
            if record.id not in known:
                known[record.id] = make(record)
                file.write(json.dumps(known[record.id], ensure_ascii=False) + "\n")
                file.flush()
                done(1)
    return [known[record.id] for record in records]


def row_of(asked: CogQA, reader: Reader, record: HopRecord) -> dict[str, Any]:
    """All figures of one question."""
    graph = asked.ask(record.question, record.source)
    texts = [" ".join([title, *sentences]) for title, sentences in record.paragraphs.items()]
    one = reader.ask(record.question, texts, windows=0, threshold=0.0).text
    alone = best_by_margin(graph)
    scores = {f"cogqa_{name}": value for name, value in question_scores(graph, record).items()}
    return {
        "id": record.id, "kind": graph.kind, "answer": record.answer, "cogqa": graph.answer, "one_hop": one,
        **scores,
        **floors(record),
        "one_hop_f1": answer_f1(one, record.answer) if one else 0.0,
        "system1_f1": answer_f1(alone, record.answer) if alone else 0.0,
    }  # fmt: skip


def by_names(record: HopRecord) -> list[str]:
    """The titles of the paragraphs without any training: those that the question names, those that these name, and the
    others as BM25 ranks them."""
    source = record.source
    named = source.titles.named(record.question)
    others = [each for title in named for each in source.titles.named(" ".join(record.paragraphs[title]))]
    return list(dict.fromkeys([*named, *others, *source.search(record.question, len(record.paragraphs))]))


def best_by_margin(graph: CognitiveGraph) -> str:
    """The answer without system 2's choice of a node: the span that is furthest above its threshold."""
    if graph.kind != SPAN or not graph.answers():
        return graph.answer
    return graph.nodes[max(graph.answers(), key=lambda number: graph.nodes[number].margin)].name


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of every figure with its interval, in percent, and the gain over the reader of one step."""
    names = [name for name, value in rows[0].items() if isinstance(value, float)]
    columns = {name: np.array([row[name] for row in rows]) for name in names}
    columns["gain_f1"] = columns["cogqa_f1"] - columns["one_hop_f1"]
    rng = np.random.default_rng(1)
    index = rng.integers(len(rows), size=(SAMPLES, len(rows)))
    found = dict[str, Any]()
    for name, values in columns.items():
        scale = 1 if name == "cogqa_read" else 100
        low, high = np.percentile(values[index].mean(1), [2.5, 97.5])
        found[name] = [round(scale * float(each), 1) for each in (values.mean(), low, high)]
    found["f1_by_kind"] = {
        kind: {
            "questions": len(some),
            "cogqa": round(100 * float(np.mean([row["cogqa_f1"] for row in some])), 1),
            "one_hop": round(100 * float(np.mean([row["one_hop_f1"] for row in some])), 1),
        }
        for kind in sorted({row["kind"] for row in rows})
        if (some := [row for row in rows if row["kind"] == kind])
    }
    return found


def print_tables(results: dict[str, Any]) -> None:
    """Print all figures as Markdown."""
    shown = {
        "cogqa_found": "needed paragraphs ranked first, CogQA",
        "bm25_found": "needed paragraphs ranked first, BM25",
        "names_found": "needed paragraphs ranked first, by names alone",
        "cogqa_reached": "needed paragraphs read",
        "cogqa_read": "paragraphs read of a question (number)",
        "cogqa_f1": "answer F1, CogQA",
        "system1_f1": "answer F1, CogQA without system 2's choice",
        "one_hop_f1": "answer F1, the reader in one step",
        "gain_f1": "CogQA less the reader",
        "cogqa_exact": "exact answers, CogQA",
    }
    print("| | " + " | ".join(f"{name} ({each['questions']})" for name, each in results.items()) + " |")
    print("|---|" + "---|" * len(results))
    for key, words in shown.items():
        cells = [f"{each[key][0]} ({each[key][1]} to {each[key][2]})" for each in results.values()]
        print(f"| {words} | " + " | ".join(cells) + " |")
    for name, each in results.items():
        print(f"\n{name}, F1 by the kind of answer: {each['f1_by_kind']}")


if __name__ == "__main__":
    main()
