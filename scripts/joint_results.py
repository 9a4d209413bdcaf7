"""What joint training brings to RAG or REALM: the answers of runs side by side, over the same collection.

    python scripts/joint_results.py COLLECTION QUESTIONS RUN… [--questions 200]

A RUN is the folder of 'masquerade train rag' or 'train realm' (task=answers). Prints exact match and F1 of the answers,
and how often a part of the question's own passage is found first, and at all, in percent with intervals of 95 %; for
runs after the first one also what they gain over it. The passages are encoded anew by the retriever that a REALM run
has learned.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from retrieval_results import interval

from masquerade.memory.retrieval.index_refresh import RefreshedIndex, index_name, write_index
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import Rag, RagAnswer
from masquerade.memory.retrieval.realm import Realm
from masquerade.memory.retrieval.realm_loss import RETRIEVER
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import squad_scores

NAMES = ("exact", "F1", "right passage first", "right passage found")


def main() -> None:
    """Answer the questions with each run, and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("asked")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    records = [each for each in read_questions(options.asked) if each.accepted]
    chosen = np.random.default_rng(0).permutation(len(records))[: options.questions]
    records = [records[index] for index in sorted(chosen)]
    first = np.zeros(0)
    with KnowledgeBase.open(options.collection) as kb, tempfile.TemporaryDirectory() as folder:
        for run in options.runs:
            answer = loaded(run, kb, Path(folder))
            scores = np.array([scored(answer(record.question), record) for record in records])  # (questions, NAMES)
            print(f"{run}, {len(records)} questions")
            first = first if len(first) else scores
            for name, own, before in zip(NAMES, scores.T, first.T, strict=True):
                low, high = interval(own)
                less, more = interval(own - before)
                gain = f", over the first {100 * (own - before).mean():+.1f} [{less:+.1f}, {more:+.1f}]"
                print(
                    f"  {name:20} {100 * own.mean():.1f} [{low:.1f}, {high:.1f}]{gain if first is not scores else ''}"
                )


def loaded(run: str, kb: KnowledgeBase, folder: Path) -> Callable[[str], RagAnswer]:
    """What answers a question with a run."""
    if not list(Path(run).glob(f"**/{RETRIEVER}")):
        rag = Rag.load(run, kb)
        return lambda question: rag.answer(question, beams=1)[0]
    realm = Realm.load(run, kb)
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
