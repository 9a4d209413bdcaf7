"""Texts of files and folders, and the sentences that answers stand in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from masquerade.documents.files import AROUND, Page, read_pages


def test_a_folder_stands_for_its_texts(tmp_path: Path) -> None:
    for name, text in (("b.txt", "two"), ("a.md", "one"), ("empty.txt", " \n"), ("c.csv", "a,b")):
        (tmp_path / name).write_text(text)
    for folder, name in ((".git", "notes.txt"), ("inner", "d.TXT")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("three")
    pages = [Page(str(tmp_path / name), text) for name, text in (("a.md", "one"), ("b.txt", "two"))]
    pages.append(Page(str(tmp_path / "inner" / "d.TXT"), "three"))
    assert read_pages([str(tmp_path)]) == pages
    assert read_pages([str(tmp_path / "b.txt"), str(tmp_path)]) == [pages[1], pages[0], pages[2]]  # each of them once


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n二\n".encode())
    page = read_pages([str(tmp_path / "a.txt")])[0]
    assert page.text == "\ufeffone\r\n二\n"
    assert [page.line(page.text.index(word)) for word in ("one", "二")] == [1, 2]


@pytest.mark.parametrize(
    ("text", "answer", "sentence"),
    [
        ("One. Two three four. Five.", "three", "Two three four."),
        ("One! Is it two? Yes.", "two", "Is it two?"),
        ("It was Dr. J. S. Bach of the U.S. Army, e.g. No. 5. Next.", "Bach",
         "It was Dr. J. S. Bach of the U.S. Army, e.g. No. 5."),
        ("It honours Ptolemy V. At the top.", "top", "At the top."),
        ('He said "Go." Then left.', "Then", "Then left."),
        ("It is 3.14 or so. More.", "3.14", "It is 3.14 or so."),
        ("A title\n\nThe text\r\ngoes on. End", "goes", "The text goes on."),
        ("一是一。“二是二。”三是\n三！", "二", "“二是二。”"),
        ("一是一。“二是二。”三是\n三！四", "三！", "三是三！"),
        ("甲在\n乙 and\n丙。", "乙", "甲在乙 and 丙。"),
        ("One. Two. Three.", "One. Two", "One. Two."),
        ("\ufeffOne two.", "two", "One two."),
        ("no end at all", "end", "no end at all"),
    ],
)  # fmt: skip
def test_the_sentence_is_cut_where_it_ends(text: str, answer: str, sentence: str) -> None:
    page = Page("name", text)
    start = text.rindex(answer) if answer == "三！" else text.index(answer)
    before, after = page.around(start, start + len(answer))
    assert before + page.piece(start, start + len(answer)) + after == sentence


def test_a_sentence_without_end_is_cut_between_words() -> None:
    page = Page("name", "some words " * 100 + "answer" + " more words" * 100)
    before, after = page.around(1100, 1106)
    assert AROUND - 12 < len(before) <= AROUND + 1 and AROUND - 12 < len(after) <= AROUND + 1
    assert re.fullmatch("…(some |words )+", before) and re.fullmatch("( more| words)+…", after)
    page = Page("name", "字" * 500 + "答案" + "字" * 500)
    assert page.around(500, 502) == ("…" + "字" * AROUND, "字" * AROUND + "…")
