"""The readers that come with Masquerade."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from masquerade.reading.reader import Reader

ROOT = Path(__file__).parents[1]
MODELS = sorted((ROOT / "models").glob("reader-*"))


@pytest.fixture(scope="module")
def english() -> Reader:
    return Reader.load("en")


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_shipped_reader_is_whole_and_small(folder: Path) -> None:
    digest, name = (folder / "SHA256SUMS").read_text().split()
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 50_000_000
    assert {"README.md", "recipe.toml", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}


QUESTIONS = [
    ("When was the treaty signed?", ["1648"]),
    ("Where did the delegates meet?", ["Münster and Osnabrück"]),
    ("How long did the war last?", ["thirty years", "thirty"]),
]
PASSAGE = (
    "After thirty years of war the delegates of the great powers met in Münster and Osnabrück. The treaty was signed "
    "in 1648, and bells were rung in all the towns of the region."
)


@pytest.mark.parametrize(("question", "accepted"), QUESTIONS)
def test_the_english_reader_reads(english: Reader, question: str, accepted: list[str]) -> None:
    found = english.ask(question, PASSAGE)
    assert found.text in accepted
    assert PASSAGE[found.start : found.end] == found.text


def test_what_was_remembered_is_answered_alike(english: Reader) -> None:
    asked = [(question, PASSAGE) for question, _ in QUESTIONS]
    cold = english.ask_many(asked)
    english.remember(PASSAGE)
    assert [answer.text for answer in english.ask_many(asked)] == [answer.text for answer in cold]


CHINESE = (
    "2000年，青城山和都江堰一起被列入《世界遗产名录》。公元前256年前后，蜀郡太守李冰带领当地百姓动工修建了都江堰。"
)


@pytest.mark.parametrize(
    ("question", "answer"), [("都江堰在哪一年被列入世界遗产名录？", "2000年"), ("谁带领百姓修建了都江堰？", "李冰")]
)
def test_the_chinese_reader_reads(question: str, answer: str) -> None:
    found = Reader.load("zh").ask(question, CHINESE)
    assert answer in found.text
    assert CHINESE[found.start : found.end] == found.text
