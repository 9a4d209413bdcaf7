"""A small corpus, a tokenizer and a recipe that the tests of training share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from masquerade.training.checkpoints import Store
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining, read_recipe

WORDS = [
    *("the", "cat", "sat", "on", ".", "warm", "mat", "and", "saw", "!", "dogs", "run", "by", "old", "?", "house"),
    *("near", "blue", "sea", "北", "京", "是", "首", "都", "。", "red"),
]
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
RECIPE = """
objective = "mlm"
length = 20
row = 40
rows = 4
micro = 4
steps = 12
warmup = 3
rate = 0.01
log_every = 1
save_every = 3
evaluate_every = 6
held_out_rows = 3

[model]
width = 16
layers = 2
heads = 2
feedforward = 24
longest = 40
"""


def make_home(home: Path, specials: Sequence[str] = SPECIALS) -> Path:
    """A folder with a corpus of 60 documents, in which one word always follows another, a tokenizer and a recipe."""
    vocabulary = [*specials, *WORDS]
    (home / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    order = torch.Generator().manual_seed(0)
    lines = []
    for _ in range(60):
        start, count = torch.randint(len(WORDS), (2,), generator=order).tolist()
        lines.append(" ".join(WORDS[(start + step) % len(WORDS)] for step in range(8 + count)))
    (home / "text.txt").write_text("\n\n".join(lines), encoding="utf-8")
    (home / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    text = f'tokenizer = "{home}"\ntrain = ["{home / "text.txt"}"]\nheld_out = ["{home / "text.jsonl"}"]\n' + RECIPE
    (home / "recipe.toml").write_text(text)
    return home


def recipe(home: Path, out: Path, *changes: str) -> Pretrain:
    return Pretrain(read_recipe(home / "recipe.toml", Pretraining, [f'out="{out}"', *changes]))


def losses(folder: Path) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in Store(folder).history() if "loss" in entry}
