"""A reader that learns from another one: from its span probabilities and its last hidden states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from reader_cases import SHEET, network

from masquerade import save
from masquerade.data.packing import Batch, DataCursor, collate
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.examples import ReadingLoss
from masquerade.reading.odds import log_probabilities
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.span_scores import ReaderRows, score_spans
from masquerade.reading.training import Reading, TrainReader
from masquerade.training.loop import Run

HEADS = {"copies": 1.0, "pointers": 1.0}
TAUGHT = {**HEADS, "taught": 1.0, "states": 1.0}
QUESTIONS = [
    ("The cat sat on a warm red mat by the sea.", "Who sat on the mat?", "The cat"),
    ("The cat sat on a warm red mat by the sea.", "Where?", "by the sea"),
    ("Two old dogs saw NASA in the cafe.", "Who saw NASA?", "Two old dogs"),
    ("Two old dogs saw NASA in the cafe.", "What was born?", ""),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions, a network to begin with, and a reader that teaches."""
    home = tmp_path_factory.mktemp("taught")
    lines = []
    for number, (passage, question, answer) in enumerate(QUESTIONS):
        answers = {"text": [answer], "answer_start": [passage.index(answer)]} if answer else {"text": []}
        record = {"id": str(number), "context": passage, "question": question, "answers": answers}
        lines.append(json.dumps(record) + "\n")
    (home / "questions.jsonl").write_text("".join(lines))
    save(network(None, outputs=("lm",)), home / "start")
    save(teacher(), home / "teacher")
    return home


def teacher(fork: int = 0, seed: int = 5, **changes: Any) -> Model:
    """A reader with random weights; the passage sees its question in every layer."""
    settings = Settings(SHEET.slots, SHEET.question, HEADS)
    return settings.put(network(fork, seed, **{"outputs": ("copy", "span"), **changes}))


def recipe(home: Path, out: Path, **changes: Any) -> Reading:
    given: dict[str, Any] = {
        "start": str(home / "start"), "train": (str(home / "questions.jsonl"),), "out": str(out), "fork": 1,
        "slots": SHEET.slots, "question": SHEET.question, "dropout": 0.0, "unanswerable": 0.0, "batch": 4, "row": 128,
        "parts": HEADS, "teacher": str(home / "teacher"), "log_every": 1,
    }  # fmt: skip
    return Reading(**{**given, **changes})


def first_batch(home: Path, out: Path, **changes: Any) -> Batch:
    job = TrainReader(recipe(home, out, **changes))
    job.read(job.begin()[""], out)
    return collate(next(job.batches(DataCursor()))[0])


@pytest.mark.parametrize("written", [0.0, 0.5, 1.0])
@torch.no_grad()
def test_a_reader_that_equals_its_teacher_has_nothing_to_learn_from_it(
    home: Path, tmp_path: Path, written: float
) -> None:
    batch = first_batch(home, tmp_path, written=written)
    loss = ReadingLoss(teacher(), SHEET, TAUGHT, teacher())
    costs = loss(batch)
    assert float(costs["states"]) == pytest.approx(0.0, abs=1e-9)
    assert float(costs.get("taught", torch.zeros(()))) == pytest.approx(0.0, abs=1e-5)
    assert ("taught" in costs) == (written < 1), "an answer without slots has no span scores"


@torch.no_grad()
def test_what_is_learnt_is_the_divergence_of_all_span_probabilities(home: Path, tmp_path: Path) -> None:
    batch, right, mine = first_batch(home, tmp_path), teacher(), teacher(fork=1, seed=6)
    costs = ReadingLoss(mine, SHEET, TAUGHT, right)(batch)

    def probabilities(model: Model) -> list[list[float]]:
        flow = model.flow(batch.layout)
        scores = score_spans(model, ReaderRows(flow.states, flow.layout, SHEET), HEADS)
        spans, none = log_probabilities(scores.spans, scores.none)
        return [[float(b), *a.flatten().tolist()] for a, b in zip(spans.exp(), none.exp(), strict=True)]

    def divergence(theirs: Sequence[float], ours: Sequence[float]) -> float:
        pairs = [(p, q) for p, q in zip(theirs, ours, strict=True) if p > 0]
        return sum(p * float(torch.tensor(p / q).log()) for p, q in pairs)

    expected = sum(map(divergence, probabilities(right), probabilities(mine)))
    assert expected > 0.5
    assert float(costs["taught"]) == pytest.approx(expected, rel=1e-3)
    ours, theirs = (model.flow(batch.layout) for model in (mine, right))
    pairs = zip(ours.states, theirs.states, ours.layout.real, strict=True)
    difference = sum(float((a[real] - b[real]).pow(2).mean()) for a, b, real in pairs)
    assert float(costs["states"]) == pytest.approx(difference, rel=1e-4)


def test_only_the_student_has_gradients_and_all_of_them_are_numbers(home: Path, tmp_path: Path) -> None:
    loss = ReadingLoss(teacher(fork=1, seed=6), SHEET, TAUGHT, teacher())
    costs = loss(first_batch(home, tmp_path))
    (costs["taught"] + costs["states"]).backward()  # type: ignore[no-untyped-call]
    grads = [weight.grad for weight in loss.model.parameters() if weight.grad is not None]
    assert grads and all(bool(grad.isfinite().all()) for grad in grads)
    assert sum(float(grad.abs().sum()) for grad in grads) > 0
    assert loss.teacher is not None and all(weight.grad is None for weight in loss.teacher.parameters())
    assert list(loss.networks) == [""], "the teacher is not saved with the run"


def test_a_shared_passage_comes_close_to_its_teacher_and_is_saved_without_it(home: Path, tmp_path: Path) -> None:
    given = recipe(home, tmp_path / "run", apart=True, block=4, epochs=60, rate=1e-2, taught=30.0)
    run = Run(TrainReader(given))
    batch = collate(next(run.job.batches(DataCursor()))[0])
    with torch.no_grad():
        before = run.bare(batch)
    run.train()
    with torch.no_grad():
        after = run.bare(batch)
    assert float(after["taught"]) < 0.5 * float(before["taught"])
    assert float(after["states"]) < 0.5 * float(before["states"])
    reader = Reader.load(tmp_path / "run")
    assert reader.model.spec.fork == 1 and reader.settings.apart
    assert reader.ask("Who sat?", QUESTIONS[0][0]).text in QUESTIONS[0][0]


@pytest.mark.parametrize("changes", [{"slots": 3}, {"question": 6}, {"reach": 9}])
def test_a_teacher_of_other_sizes_is_refused(home: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(MasqueradeError, match=r"has other sizes than this recipe"):
        Run(TrainReader(recipe(home, tmp_path, **changes)))
