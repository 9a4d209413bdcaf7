"""Encoder–decoders from training to decoding: they start as they were trained, and stop."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from masquerade import load
from masquerade.cli.main import app
from masquerade.training.loop import Run
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining, read_recipe
from masquerade.writing.generate import generate
from masquerade.writing.prompts import Decode, frame_for

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"<extra_id_{n}>" for n in range(6))]
RECIPE = """
length = 16
row = 32
rows = 8
micro = 8
rate = 0.01
steps = 250
warmup = 20
save_every = 1000
precision = "float32"

[model]
width = 32
layers = 1
heads = 2
feedforward = 64
longest = 40
dropout = 0.0
attention_dropout = 0.0
"""
FIRST = {"t5": ("[PAD]",), "pegasus": ("[PAD]",), "bart": ("[SEP]", "[CLS]"), "palm": ("[CLS]",), "mass": ("[MASK]",)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy language: twelve words in a fixed circle, which begin and end anywhere."""
    home = tmp_path_factory.mktemp("decoders")
    (home / "vocab.txt").write_text("\n".join([*SPECIALS, *WORDS, "."]) + "\n")
    texts = [[WORDS[(start + step) % 12] for step in range(length)] for start in range(12) for length in range(4, 13)]
    lines = [" ".join([*text[: len(text) // 2], ".", *text[len(text) // 2 :], "."]) for text in texts]
    (home / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    (home / "recipe.toml").write_text(f'tokenizer = "{home}"\ntrain = ["{home / "text.jsonl"}"]\n' + RECIPE)
    return home


SOURCES = {
    "bart": "c d e [MASK] g . h i j k .",
    "palm": "a b c d e . f g h i",
    "pegasus": "[MASK] d e f g .",
    "mass": "[MASK] [MASK] [MASK] [MASK] f g h i .",
    "t5": "a b c d <extra_id_0> g h i .",
}


@pytest.mark.parametrize("objective", sorted(FIRST))
def test_a_trained_decoder_starts_as_it_was_trained_and_stops(home: Path, tmp_path: Path, objective: str) -> None:
    changes = [f"objective={objective}", f'out="{tmp_path}"']
    Run(Pretrain(read_recipe(home / "recipe.toml", Pretraining, changes))).train()
    model = load(tmp_path)
    assert model.spec.family == objective
    frame, backend = frame_for(model), model.tokenizer.backend
    assert isinstance(frame, Decode)
    assert tuple(backend.id_to_token(number) for number in frame.start) == FIRST[objective]
    assert frame.end == model.tokenizer.special("sep")
    written = generate(model, [SOURCES[objective]], max_new=30)[0]
    assert written.ended, written.text
    assert 0 < len(written.ids) < 20
    found = model.tokenizer.tokens(written.ids)
    inside = [pair for pair in pairwise(found) if set(pair) <= set(WORDS)]
    assert all((WORDS.index(other) - WORDS.index(one)) % 12 == 1 for one, other in inside), written.text
    if objective == "t5":
        assert (found[0], found[-1]) == ("<extra_id_0>", "<extra_id_1>")


def test_the_t5_recipe_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n\n".join(f"The {word} of the story went home and slept for {n} days." for n, word in enumerate(WORDS * 9))
    (tmp_path / "corpus.txt").write_text(text)
    recipe = Path(__file__).parents[1] / "recipes" / "t5.toml"
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    words = ["vocab", "corpus.txt", "--size", "200", "--sentinels", "20", "--out", "my-vocab"]
    assert runner.invoke(app, words).exit_code == 0
    small = ["steps=2", "model.width=16", "model.layers=1", "model.heads=2", "model.feedforward=16", "rows=2"]
    done = runner.invoke(app, ["pretrain", str(recipe), *small])
    assert done.exit_code == 0, done.output
    model = load(tmp_path / "runs" / "t5")
    assert model.tokenizer.tokens([5, 24]) == ["<extra_id_0>", "<extra_id_19>"]
    assert model.tokenizer.encode("slept <extra_id_3> days")[1:-1] == [8]
