"""One optimizer step, part by part: what decays, what is clipped, what is seeded, and who counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from training_cases import make_home, recipe

from masquerade.data.packing import DataCursor
from masquerade.training.loop import Run

STILL = ("model.dropout=0.0", "model.attention_dropout=0.0", "held_out=[]")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("steps"))


def first_rows(run: Run) -> list[Any]:
    return next(run.job.batches(DataCursor()))[0]


def gradient(run: Run) -> Tensor:
    return torch.cat([weight.grad.flatten() for weight in run.bare.parameters() if weight.grad is not None])


@pytest.mark.parametrize("objective", ["mlm", "xlnet"])  # which has biases of two dimensions
def test_weights_decay_but_biases_and_norms_do_not(home: Path, tmp_path: Path, objective: str) -> None:
    changes = (f"objective={objective}", "decay=0.5", "rate=0.1", "warmup=0")
    run = Run(recipe(home, tmp_path, *STILL, *changes))
    names = {weight: name for name, weight in run.bare.named_parameters()}
    before = {name: weight.detach().clone() for name, weight in run.bare.named_parameters()}
    for weight in names:
        weight.grad = torch.zeros_like(weight)
    for group in run.optimizer.param_groups:
        group["lr"] = 0.1
    run.optimizer.step()
    for weight, name in names.items():
        left = 1.0 if name.endswith("bias") or "norm" in name or weight.dim() == 1 else 0.95
        assert torch.allclose(weight, before[name] * left), name
    assert {name.rpartition(".")[2] for name in names.values()} >= {"weight", "bias"}


def test_gradients_are_clipped_to_the_recipes_norm(home: Path, tmp_path: Path, monkeypatch: Any) -> None:
    seen = []
    for clip in (1000.0, 0.05):
        run = Run(recipe(home, tmp_path / str(clip), *STILL, f"clip={clip}"))

        def step(run: Run = run) -> None:
            seen.append(
                torch.cat([weight.grad.flatten() for weight in run.bare.parameters() if weight.grad is not None])
            )

        monkeypatch.setattr(run.optimizer, "step", step)
        run._step(first_rows(run))
    free, clipped = seen
    assert float(free.norm()) > 0.5
    assert float(clipped.norm()) == pytest.approx(0.05, rel=1e-3)
    assert torch.allclose(clipped, free * (0.05 / free.norm()), atol=1e-6)


def test_evaluation_is_seeded(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=electra"))  # whose generator samples tokens
    torch.manual_seed(1)
    first = run.evaluate()
    torch.manual_seed(2)
    assert run.evaluate() == first


def test_a_process_without_rows_of_its_own_changes_nothing(home: Path, tmp_path: Path, monkeypatch: Any) -> None:
    run = Run(recipe(home, tmp_path, *STILL))
    rows = first_rows(run)[:2]
    real, seen = run.accelerator, []

    monkeypatch.setattr(run.optimizer, "step", lambda: seen.append(gradient(run)))
    for rank in range(3):  # three processes share two rows
        fake = SimpleNamespace(
            process_index=rank,
            num_processes=3,
            device=real.device,
            no_sync=real.no_sync,
            autocast=real.autocast,
            backward=lambda loss: (loss / 3).backward(),  # processes are averaged
            clip_grad_norm_=lambda parameters, norm: torch.zeros(()),
            reduce=lambda values, how: values,
            unwrap_model=real.unwrap_model,
        )
        monkeypatch.setattr(run, "accelerator", fake)
        values = run._step(rows)
        assert (values["tokens"] > 0) == (rank < 2)
    monkeypatch.setattr(run, "accelerator", real)
    monkeypatch.setattr(real, "clip_grad_norm_", lambda parameters, norm: torch.zeros(()))
    run._step(rows)
    assert float(seen[2].abs().max()) == 0, "the idle process adds no gradient"
    assert torch.allclose(seen[0] + seen[1], seen[3], atol=1e-6)
