"""A tiny encoder and a small knowledge base for the tests of entity memory."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from masquerade import Model, Spec
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.sources import build
from masquerade.memory.entity.vectors import TextVectors
from masquerade.text.tokenizer import Tokenizer, word_pieces

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] paris is the capital of france germany berlin was born in city country river hotel "
    "new york rome ital ##y a town and texas hilton . , speaks french german 北 京 是 中 国 的 首 都 大 学 上 海 ##s"
)

FACTS = [
    {
        "subject": {
            "id": "Q90",
            "label": "Paris",
            "aliases": {"Paris": 9, "City of Light": 1},
            "description": "a city",
        },
        "relation": {"id": "P1376", "label": "capital of"},
        "object": {"id": "Q142", "label": "France"},
    },
    {
        "subject": {"id": "Q64", "label": "Berlin"},
        "relation": {"id": "P1376", "label": "capital of"},
        "object": {"id": "Q183", "label": "Germany"},
    },
    {
        "subject": {"id": "Q830149", "label": "Paris, Texas", "aliases": {"Paris": 1}},
        "relation": {"id": "P31", "label": "is a"},
        "object": {"id": "Q3957", "label": "town"},
    },
    {
        "subject": {"id": "Q956", "label": "北京"},
        "relation": {"id": "P1376", "label": "capital of"},
        "object": {"id": "Q148", "label": "中国"},
    },
]


def encoder(width: int = 16) -> Model:
    """A random encoder of two layers with a WordPiece vocabulary of a few words."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(WORDS.split()) + "\n")
        file.flush()
        tokenizer = Tokenizer(word_pieces(Path(file.name), lowercase=True))
    torch.manual_seed(5)
    spec = Spec(
        vocab=len(tokenizer), width=width, layers=2, heads=2, feedforward=24, longest=32, outputs=("lm",), init_std=0.3,
        dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    return Model(spec, tokenizer).eval()


def write_facts(path: Path, facts: list[dict[str, object]] | None = None) -> Path:
    """The facts as JSON lines."""
    lines = [json.dumps(fact, ensure_ascii=False) for fact in (FACTS if facts is None else facts)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def knowledge(folder: Path) -> FactMemory:
    """A knowledge base of FACTS in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return build([str(write_facts(folder / "facts.jsonl"))], folder / "kb", TextVectors(encoder()))
