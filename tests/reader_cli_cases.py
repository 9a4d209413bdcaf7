"""Texts, and the folder of a tiny reader, for the tests of the commands ask and evaluate reader."""

from __future__ import annotations

from pathlib import Path

import torch

from masquerade import Spec, build, save
from masquerade.reading.reader import Settings
from masquerade.text.tokenizer import Tokenizer, word_pieces

RIVER = "The Danube flows\ninto the Black Sea. The Rhine does not."
CITY = "北京是中国的首都，北京有２０００万人。\r\n上海 Shanghai 在东边！"
ENGLISH = ["the", "danube", "flows", "into", "black", "sea", ".", "rhine", "does", "not", "where", "it", "?", "who"]
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *ENGLISH,
    *"北京是中国的首都，有２万人。上海在东边！谁哪里？",
    "##０",
]


def saved_reader(folder: Path) -> Path:
    """A tiny random reader with an English and Chinese vocabulary, saved into a folder."""
    torch.manual_seed(3)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    spec = Spec(
        family="masquerade", vocab=len(WORDS), width=16, layers=2, heads=2, feedforward=32, longest=128,
        between={1: ("fork", {})}, outputs=("lm", "copy", "span"), init_std=0.6,
    )  # fmt: skip
    model = build(spec)
    model.tokenizer = Tokenizer(word_pieces(folder / "vocab.txt"))
    Settings(slots=4, question=12, parts={"words": 1, "copies": 1, "pointers": 1}).put(model)
    save(model, folder)
    return folder
