"""ELECTRA's two networks are trained at once, with one table of embeddings or two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training_cases import make_home, recipe

from masquerade import load
from masquerade.data.packing import DataCursor, collate
from masquerade.objectives.electra import ElectraLoss
from masquerade.training.loop import Run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("electra"))


def test_electra_trains_two_networks_that_share_their_embeddings(home: Path, tmp_path: Path) -> None:
    changes = ("objective=electra", "options.size=0.5", "steps=6", "save_every=3")
    run = Run(recipe(home, tmp_path, *changes))
    loss = run.bare
    assert isinstance(loss, ElectraLoss)
    assert loss.generator.spec.width == 8
    assert loss.generator.words is loss.model.words
    assert loss.generator.embeddings.positions is loss.model.embeddings.positions
    rows, _ = next(run.job.batches(DataCursor()))
    parts = loss(collate(rows))
    assert loss.total(parts, loss.counts(rows)).item() == pytest.approx(
        parts["tokens"].item() / loss.counts(rows)["tokens"]
        + 50 * parts["replaced"].item() / loss.counts(rows)["replaced"]
    )
    parts["replaced"].backward()
    assert all(weight.grad is None for weight in loss.generator.stack.parameters())
    assert loss.model.words.table.weight.grad is not None
    run.optimizer.zero_grad()
    run.train()
    saved = [load(tmp_path / "step-6" / name) for name in ("", "generator")]
    assert [model.spec.outputs for model in saved] == [("detect",), ("lm",)]
    assert torch.equal(saved[0].words.table.weight, saved[1].words.table.weight)
    assert load(tmp_path).spec == saved[0].spec, "a run's folder stands for its last checkpoint"


def test_electra_trains_two_networks_with_embeddings_of_their_own(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=electra", "options.size=0.5", "options.shared=false", "steps=2"))
    loss = run.bare
    assert isinstance(loss, ElectraLoss)
    assert loss.generator.words is not loss.model.words
    loss(collate(next(run.job.batches(DataCursor()))[0]))["replaced"].backward()
    assert all(weight.grad is None for weight in loss.generator.parameters())
    run.optimizer.zero_grad()
    run.train()
    saved = [load(tmp_path / "step-2" / name) for name in ("", "generator")]
    assert not torch.equal(saved[0].words.table.weight, saved[1].words.table.weight)


def test_electra_judges_every_token(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=electra"))
    rows, _ = next(run.job.batches(DataCursor()))
    assert run.bare.counts(rows)["replaced"] == sum(len(example.layout) for row in rows for example in row)
