"""Tiny writers of every kind, and pairs of English and Chinese, that the tests of writing share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from masquerade import Model, Spec, save
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.training import Writing

ENGLISH = "the cat sat on a warm red mat two old dogs walk in sea by . ##s : - title sum"
CHINESE = "北 京 是 中 国 的 首 都 上 海 。 ， 大 城 市"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *ENGLISH.split(), *CHINESE.split()]
PAIRS = [
    ("The cat sat on a warm red mat.", "Red Cat"),
    ("Two old dogs walk in the sea.", "Old Dogs"),
    ("Two cats sat by the sea.", "Sea Cats"),
    ("北京是中国的首都。", "首都北京"),
    ("上海是中国的大城市。", "大上海"),
]


@cache
def tokenizer() -> Tokenizer:
    """Word pieces in small letters; Chinese characters by themselves."""
    return Tokenizer(BertWordPieceTokenizer({word: number for number, word in enumerate(WORDS)})._tokenizer)


def bert(**changes: Any) -> Model:
    """A small BERT without a language head, as published encoders are."""
    torch.manual_seed(0)
    plain: dict[str, Any] = {
        "vocab": len(tokenizer()), "width": 32, "layers": 2, "heads": 2, "feedforward": 48, "longest": 48,
        "dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.1, "family": "bert",
    }  # fmt: skip
    return Model(Spec(**plain | changes), tokenizer()).eval()


def saved(folder: Path, model: Model | None = None) -> str:
    save(model or bert(), folder)
    return str(folder)


def written(path: Path, pairs: Sequence[tuple[str, str]] = PAIRS) -> str:
    """Pairs as JSON lines."""
    rows = (json.dumps({"text": source, "title": target}, ensure_ascii=False) for source, target in pairs)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def recipe(folder: Path, **changes: Any) -> Writing:
    """A recipe that learns the pairs by heart in some seconds."""
    plain: dict[str, Any] = {
        "train": [written(folder / "pairs.jsonl")], "out": str(folder / "run"), "length": 20, "row": 64,
        "target_length": 8, "batch": 5, "epochs": 40, "rate": 1e-2, "warmup": 3, "dropout": 0.0, "precision": "float32",
        "save_every": 1000, "log_every": 1000,
    }  # fmt: skip
    if not changes.get("family"):
        plain["start"] = saved(folder / "start")
    return Writing(**plain | changes)
