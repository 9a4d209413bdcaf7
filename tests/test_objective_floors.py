"""The floors beside the objectives' losses are what they are called."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from training_cases import make_home, recipe

from masquerade.data.packing import DataCursor
from masquerade.layout import IGNORE
from masquerade.nn.model import build
from masquerade.objectives.electra import ElectraLoss
from masquerade.objectives.networks import fresh_spec
from masquerade.objectives.registry import entry
from masquerade.training.loop import Run
from masquerade.training.recipe import Pretraining, read_recipe

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import objective_floors as floors
import pretraining_table as rows

RECIPE = Path(__file__).parents[1] / "recipes" / "table.toml"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    floors.COUNTED = 10  # steps
    return make_home(tmp_path_factory.mktemp("floors"))


def test_the_unigram_floor_is_the_loss_of_fixed_frequencies(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=span", "steps=1"))
    job, loss = run.job, run.bare.eval()
    run.train()
    with torch.no_grad():
        before = floors.words_loss(job, loss)  # type: ignore[arg-type]
        found, frequencies = floors.floor(job, loss)  # type: ignore[arg-type]
        after = floors.words_loss(job, loss)  # type: ignore[arg-type]
    text = floors.text_counts(job)  # type: ignore[arg-type]
    own = floors.label_counts(job, 31)  # type: ignore[arg-type]
    rows = job.held_out  # type: ignore[attr-defined]
    held = np.concatenate([example.layout.label.numpy() for row in rows for example in row])
    held = held[held != IGNORE]
    expected = []
    for share in floors.SHARES:
        mixed = (1 - share) * text / text.sum() + share * own / own.sum()
        expected.append(-np.log(mixed[held]).mean())
    assert found == pytest.approx(min(expected), abs=1e-4)
    assert after == before, "the network predicts by itself again"
    assert 2.0 < found < np.log(31)
    assert -np.log(frequencies[held]).mean() == pytest.approx(found, abs=1e-4)


def test_copying_what_is_shown_lowers_the_floor_of_bert_and_of_no_queries(home: Path, tmp_path: Path) -> None:
    gains = {}
    for name in ("mlm", "xlnet", "next"):
        run = Run(recipe(home, tmp_path / name, f"objective={name}", 'model.positions=["transformer-xl"]'))
        rows, flat = run.job.held_out, np.full(31, 1 / 31)  # type: ignore[attr-defined]
        gains[name] = floors.copying(run.job, run.bare.eval(), rows, flat)  # type: ignore[arg-type]
        if name == "mlm":
            mask = run.job.objective.vocabulary.mask  # type: ignore[attr-defined]
            layouts = [example.layout for row in rows for example in row]
            shown = np.concatenate([each.ids[each.label != IGNORE].numpy() for each in layouts])
            label = np.concatenate([each.label[each.label != IGNORE].numpy() for each in layouts])
            seen = shown != mask
            same = (shown == label)[seen].mean()
            sure = [c for c in np.arange(0, 1, 0.001) if c < 1]
            share = [same * np.log(c + (1 - c) / 31) + (1 - same) * np.log((1 - c) / 31) + np.log(31) for c in sure]
            assert gains[name] == pytest.approx(seen.mean() * max(share), abs=1e-3)
    assert gains["mlm"] > 0.05 and gains["xlnet"] == 0 and gains["next"] < 0.01


def test_a_row_is_measured_with_its_five_grams_and_its_curve(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    changes = ["objective=next", "steps=3", "model.longest=40"]
    Run(recipe(home, out, *changes)).train()
    floors.measure([str(home / "recipe.toml"), *changes, f'out="{out}"'], 1, tmp_path, tmp_path / "r" / "next.json")
    found = json.loads((tmp_path / "r" / "next.json").read_text())
    assert found["five"] < 0.5 * found["floor"], "in this text every word has one successor"
    assert [point[0] for point in found["curve"]] == [0, 3 * 4 * 40]
    assert found["after"] == found["curve"][-1][1]


def test_the_auc_of_a_detector_is_that_of_its_ranks(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=electra"))
    loss = run.bare.eval()
    assert isinstance(loss, ElectraLoss)
    rows = next(run.job.batches(DataCursor()))[0]
    with torch.no_grad():
        chance = floors.detector_auc(loss, rows)
        real = loss.model.scores
        truth = {}

        def knows(layout: object, head: str, at: torch.Tensor) -> torch.Tensor:
            assert head == "detect"
            return truth["changed"][at].float()[:, None]

        original = floors.replaced

        def spied(layout: object, sampled: torch.Tensor) -> object:
            shown, changed = original(layout, sampled)  # type: ignore[arg-type]
            truth["changed"] = changed + 0.001 * torch.rand(changed.shape)
            return shown, changed

        floors.replaced = spied  # type: ignore[assignment]
        loss.model.scores = knows  # type: ignore[method-assign, assignment]
        try:
            assert floors.detector_auc(loss, rows) == pytest.approx(1.0)
        finally:
            floors.replaced = original
            loss.model.scores = real  # type: ignore[method-assign]
    assert 0.2 < chance < 0.8


def test_every_row_of_the_table_is_a_recipe_that_reads_the_files_of_its_folder() -> None:
    for name in rows.ROWS:
        given = read_recipe(RECIPE, Pretraining, rows.command(name, 2, Path("out"), 1500)[2:])
        assert (given.steps, given.seed, given.out) == (1500, 2, f"out/{name}-1500-2")
        assert {Path(file).parent for file in (*given.train, *given.held_out, given.tokenizer)} == {Path("out")}
        found = entry(given.objective, given.options)
        needed = {"vocab": 90, "pad": 0, "outputs": ("lm",), **found.model}
        spec = fresh_spec(found.family, needed, given.model, found.decoder)
        assert build(spec).words.table.weight.shape == (90, spec.sum_width)


def test_pairs_are_judged_on_more_rows_than_the_loss_is_measured_on(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=nsp", "steps=1"))
    tokenizer = run.bare.model.tokenizer
    more = floors.more_rows(run.job, tokenizer, 9)  # type: ignore[arg-type]
    assert len(more) == 9
    for row, first in zip(more, run.job.held_out, strict=False):  # type: ignore[attr-defined]
        assert [example.layout.ids.tolist() for example in row] == [example.layout.ids.tolist() for example in first]
    assert 0 <= floors.pair_accuracy(run.bare.eval(), more) <= 1
