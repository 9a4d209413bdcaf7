"""The title writer that comes with Masquerade."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from masquerade.cli.main import app
from masquerade.writing.writer import Writer

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "models" / "title-en"
ABSTRACT = ROOT / "examples" / "abstract.txt"


@pytest.fixture(scope="module")
def writer() -> Writer:
    return Writer.load("title-en")


def test_the_shipped_writer_is_whole_and_small() -> None:
    digest, name = (FOLDER / "SHA256SUMS").read_text().split()
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    assert (FOLDER / name).stat().st_size <= 50_000_000
    assert {"README.md", "recipe.toml", "config.json", "tokenizer.json"} <= {path.name for path in FOLDER.iterdir()}


def test_a_title_is_short_and_about_the_text(writer: Writer) -> None:
    text = ABSTRACT.read_text(encoding="utf-8")
    found = writer.write(text)
    words = found.text.lower().split()
    assert found.ended and 3 <= len(words) <= 25 and found.text[0].isupper()
    assert sum(word.strip(".,:") in text.lower() for word in words) >= len(words) / 2


def test_several_titles_differ_and_come_best_first(writer: Writer) -> None:
    found = writer.write(ABSTRACT.read_text(encoding="utf-8"), n_best=3)
    titles = [found, *found.alternatives]
    assert len({each.text for each in titles}) == 3
    assert [each.score for each in titles] == sorted((each.score for each in titles), reverse=True)


def test_the_command_needs_no_model() -> None:
    done = CliRunner().invoke(app, ["title", str(ABSTRACT)])
    assert done.exit_code == 0 and len(done.stdout.split()) >= 3
