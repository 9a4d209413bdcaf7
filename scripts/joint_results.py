"""What joint training brings to RAG or REALM: the answers of runs side by side, over the same collection.

    python scripts/joint_results.py prepare TRAIN TEST OUT [--passages 600] [--questions 200]
    python scripts/joint_results.py score COLLECTION OUT/test.jsonl RUN… [--bfloat16]

The first writes OUT/passages.jsonl: the passages of some test questions, and of as many training questions of the same
sources as there is room for; OUT/train.jsonl and OUT/test.jsonl are the questions about them. A RUN is the folder of
'masquerade train rag' or 'train realm' (task=answers). The second prints exact match and F1 of the answers, and how
often a part of the question's own passage is found first, and at all, in percent with intervals of 95 %; for runs after
the first one also what they gain over it. The passages are encoded anew by a retriever that has learned.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from retrieval_results import interval

from masquerade.files import write_text
from masquerade.memory.retrieval.index_refresh import RefreshedIndex, index_name, write_index
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import Rag, RagAnswer
from masquerade.memory.retrieval.realm import Realm
from masquerade.memory.retrieval.realm_loss import RETRIEVER
from masquerade.reading.records import QuestionRecord, read_questions, write_questions
from masquerade.reading.scores import squad_scores

NAMES = ("exact", "F1", "right passage first", "right passage found")


def main() -> None:
    """Select the questions, or answer them with each run and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    selects = actions.add_parser("prepare")
    for name in ("train", "test", "out"):
        selects.add_argument(name)
    selects.add_argument("--passages", type=int, default=600)
    selects.add_argument("--questions", type=int, default=200)
    scores = actions.add_parser("score")
    scores.add_argument("collection", type=Path)
    scores.add_argument("asked")
    scores.add_argument("runs", nargs="+")
    scores.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    options = parser.parse_args()
    if options.action == "prepare":
        prepare(options.train, options.test, Path(options.out), options.passages, options.questions)
        return
    half = torch.autocast("cpu", torch.bfloat16) if options.bfloat16 else nullcontext()
    with half:
        compare(options.collection, read_questions(options.asked), options.runs)


def prepare(train: str, test: str, out: Path, passages: int, questions: int) -> None:
    """Write the passages of a small collection, and the questions about them."""
    records = [each for each in read_questions(test) if each.accepted]
    chosen = np.random.default_rng(0).permutation(len(records))[:questions]
    tests = [records[index] for index in sorted(chosen)]
    sources = {source(each) for each in tests}
    found = dict.fromkeys(each.passages[0] for each in tests)
    further = dict[str, list[QuestionRecord]]()
    for each in read_questions(train):
        if source(each) in sources and each.accepted:
            further.setdefault(each.passages[0], []).append(each)
    texts = list(further)
    order = np.random.default_rng(1).permutation(len(texts))[: max(0, passages - len(found))]
    used = [texts[index] for index in sorted(order)]
    asked = [each for text in used for each in further[text]]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in [*found, *used]]
    write_text(out / "passages.jsonl", "\n".join(lines) + "\n")
    write_questions(asked, out / "train.jsonl")
    write_questions(tests, out / "test.jsonl")
    print(
        f"{out}: {len(lines)} passages, {len(asked):,} training questions about {len(used)} of them, {len(tests)} tests"
    )


def source(record: QuestionRecord) -> str:
    """The set that a question is from."""
    return record.id.split("/")[0]


def compare(collection: Path, records: list[QuestionRecord], runs: list[str]) -> None:
    """Answer the questions with each run, and print the scores."""
    first = np.zeros(0)
    with KnowledgeBase.open(collection) as kb, tempfile.TemporaryDirectory() as folder:
        for run in runs:
            answer = loaded(run, kb, Path(folder))
            scores = np.array([scored(answer(record.question), record) for record in records])  # (questions, NAMES)
            print(f"{run}, {len(records)} questions")
            first = first if len(first) else scores
            for name, own, before in zip(NAMES, scores.T, first.T, strict=True):
                low, high = interval(own)
                less, more = interval(own - before)
                gain = f", over the first {100 * (own - before).mean():+.1f} [{less:+.1f}, {more:+.1f}]"
                told = gain if first is not scores else ""
                print(f"  {name:20} {100 * own.mean():.1f} [{low:.1f}, {high:.1f}]{told}", flush=True)


def loaded(run: str, kb: KnowledgeBase, folder: Path) -> Callable[[str], RagAnswer]:
    """What answers a question with a run."""
    if not list(Path(run).glob(f"**/{RETRIEVER}")):
        rag = Rag.load(run, kb)
        return lambda question: rag.answer(question, beams=1)[0]
    realm = Realm.load(run, kb)
    if realm.encoder.fingerprint() != kb.encoder.fingerprint():
        write_index(kb.store.folder, realm.encoder, folder / index_name(0))
        realm.index = RefreshedIndex(kb.store.folder, folder, index_name(0))
    return lambda question: realm.answer(question)[0]


def scored(answer: RagAnswer, record: QuestionRecord) -> list[float]:
    """The scores of an answer and of its passages, 0 to 1, in the order of NAMES."""
    total = squad_scores({record.id: answer.text}, [record]).total
    own = "".join(record.passages[0].split())
    right = ["".join(found.text.split()) in own for found, _ in answer.passages]
    return [total["exact"] / 100, total["f1"] / 100, float(right[0]), float(any(right))]


if __name__ == "__main__":
    main()
