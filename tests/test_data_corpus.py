"""Corpora: what is a document, and what is an unknown word."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.data.corpus import prepare, read_documents
from masquerade.errors import MasqueradeError
from masquerade.text.training import train_tokenizer

WIKITEXT = (
    " \n = Lobster = \n \n A lobster is a <unk> . \n \n = = Body = = \n \n It is <unk> blue . \n"
    " = not a title = \n \n = Crab = \n \n A crab is red . \n"
)
FILES = Path(__file__).parents[2] / "shared" / "data" / "lm"


def test_blank_lines_end_the_documents_of_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone\ntwo\n\n \nthree = four\n\n\n", encoding="utf-8")
    assert list(read_documents(str(tmp_path / "a.txt"))) == ["one\ntwo", "three = four"]


def test_articles_are_the_documents_of_wikitext(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WIKITEXT)
    first, second = read_documents(str(tmp_path / "a.txt"))
    assert first.startswith("= Lobster =")
    assert "Body" in first
    assert "not a title" in first
    assert second == "= Crab = \n \n A crab is red ."


def test_unk_in_a_corpus_is_one_unknown_token(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WIKITEXT)
    tokenizer = train_tokenizer(read_documents(str(tmp_path / "a.txt")), size=90)
    assert not any("unk" in token for token in tokenizer.tokens(range(5, len(tokenizer))))
    tokens = prepare([str(tmp_path / "a.txt")], tokenizer, tmp_path / "tokens")
    assert len(tokens) == 2
    assert tokens.ids.tolist().count(tokenizer.special("unk")) == 2


@pytest.mark.data
@pytest.mark.skipif(not FILES.is_dir(), reason="needs ../shared/data/lm")
def test_wikitext_2_has_its_published_number_of_articles() -> None:
    counts = {name: sum(1 for _ in read_documents(str(FILES / f"wikitext2-{name}.txt"))) for name in ("valid", "test")}
    assert counts == {"valid": 60, "test": 60}


def test_text_that_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("北京".encode("gbk"))
    with pytest.raises(MasqueradeError, match="is not text in UTF-8"):
        list(read_documents(str(tmp_path / "a.txt")))
