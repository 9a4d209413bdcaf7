"""A tiny encoder with a few English and Chinese words, for the tests of working memory."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch

from masquerade import Model, Spec
from masquerade.text.tokenizer import Tokenizer, word_pieces

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the play is good bad film it long but who was born in paris rome anna bo city of "
    "director a an which ? . , ! : ' yes no river old new year one two three north south market ship king queen "
    "北 京 是 首 都 上 海 城 市 很 大 。 ， ！ 谁 导 演 的 电 影 国 人 s are both or and older he she lives near"
)


@cache
def tokenizer() -> Tokenizer:
    """The tokenizer of WORDS."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(WORDS.split()) + "\n")
        file.flush()
        return Tokenizer(word_pieces(Path(file.name), lowercase=True))


def encoder(
    width: int = 32,
    longest: int = 96,
    outputs: tuple[str, ...] = (),
    seed: int = 5,
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1"),
) -> Model:
    """A random encoder of two layers."""
    torch.manual_seed(seed)
    spec = Spec(
        vocab=len(tokenizer()), width=width, layers=2, heads=2, feedforward=48, longest=longest, outputs=outputs,
        labels=labels, init_std=0.2, dropout=0.0, attention_dropout=0.0, family="bert" if not outputs else "masquerade",
    )  # fmt: skip
    return Model(spec, tokenizer()).eval()
