"""Files of every format as documents, what is refused, and the sentences around answers."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import docx
import pytest
from pdf_files import write_pdf

from masquerade.documents import docx as word_files
from masquerade.documents import folders, limits, pdf
from masquerade.documents.document import AROUND, Citation, Document
from masquerade.documents.folders import read_document, read_documents
from masquerade.documents.line_ends import join_line_ends
from masquerade.errors import MasqueradeError

CHINESE = "都江堰是李冰修建的，位于四川。"


def saved(folder: Path, name: str, content: str | bytes, encoding: str = "utf-8") -> str:
    """The path of a file with this content."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return str(folder / name)


def cited(document: Document, words: str) -> Citation:
    return document.place(document.text.index(words))


# Files and folders


def test_a_folder_stands_for_its_files_of_every_format(tmp_path: Path) -> None:
    for name, text in (("b.txt", "two"), ("a.md", "one"), ("c.csv", "x,y\n1,2"), ("e.py", "x = 1")):
        saved(tmp_path, name, text)
    for folder, name in ((".git", "notes.txt"), ("inner", "d.TXT"), ("__pycache__", "e.txt")):
        (tmp_path / folder).mkdir()
        saved(tmp_path / folder, name, "three")
    found, skipped = read_documents([str(tmp_path)])
    assert [(Path(each.name).name, each.text) for each in found] == [
        ("a.md", "one"), ("b.txt", "two"), ("c.csv", "x: 1\ny: 2"), ("e.py", "x = 1"), ("d.TXT", "three"),
    ]  # fmt: skip
    assert not skipped
    again, _ = read_documents([str(tmp_path / "b.txt"), str(tmp_path / "*.md"), str(tmp_path), str(tmp_path)])
    assert [Path(each.name).name for each in again] == ["b.txt", "a.md", "c.csv", "e.py", "d.TXT"], "each of them once"
    assert [Path(each.name).name for each in read_documents([str(tmp_path / "**" / "*.[tT]*")])[0]] == [
        "e.txt", "b.txt", "d.TXT",
    ]  # fmt: skip


def test_bad_files_of_a_folder_are_listed_with_their_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_BYTES", 2000)
    monkeypatch.setattr(limits, "MAX_BYTES", 2000)
    bad = {
        "binary.bin": (b"\x7fELF\0\0\1", "is a binary file"),
        "broken.docx": (b"PK\x03\x04 cut off", "is no readable Word file"),
        "broken.json": ("{", "is not readable JSON"),
        "broken.pdf": ("%PDF-1.7 cut off", "is no readable PDF"),
        "deep.json": ("[" * 1500, "is not readable JSON"),
        "empty.txt": ("\ufeff \n", "There are no words"),
        "huge.txt": ("x" * 2001, "is too large"),
        "old.doc": (b"\xd0\xcf\x11\xe0", "save it as .docx or PDF"),
        "photo.jpg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "is a binary file"),
        "table.xlsx": (b"PK\x03\x04", "save it as .csv"),
    }
    for name, (content, _) in bad.items():
        saved(tmp_path, name, content)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(MasqueradeError, match="There is no file to read in"):
        read_documents([str(tmp_path)])
    saved(tmp_path, "good.txt", "words")
    found, skipped = read_documents([str(tmp_path)])
    assert [Path(each.name).name for each in found] == ["good.txt"]
    assert [Path(each.name).name for each in skipped] == list(bad)
    for each, (_, reason) in zip(skipped, bad.values(), strict=True):
        assert reason in each.reason and "\n" not in each.reason
    for name, (_, reason) in bad.items():
        with pytest.raises(MasqueradeError, match=re.escape(reason)):
            read_documents([str(tmp_path / name), str(tmp_path / "good.txt")])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [("nowhere.txt", "There is no file 'nowhere.txt'"), ("*.pdf", "no file to read in"), ("a\0b", "cannot be read")],
)
def test_a_path_without_a_file_is_one_sentence(
    source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MasqueradeError, match=re.escape(sentence)):
        read_documents([source])


def test_a_name_with_brackets_is_a_file_before_it_is_a_glob(tmp_path: Path) -> None:
    assert read_documents([saved(tmp_path, "a[1].txt", "words")])[0][0].text == "words"


@pytest.mark.parametrize(
    ("name", "content", "module"),
    [("a.pdf", b"%PDF-1.7", "pypdfium2"), ("a.docx", b"PK\x03\x04", "docx"), ("a.html", b"<p>x", "selectolax.lexbor"),
     ("a.txt", "Привет".encode("cp1251"), "charset_normalizer")],
)  # fmt: skip
def test_without_the_extra_one_sentence_names_it(
    name: str, content: bytes, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MasqueradeError, match=r"pip install 'masquerade\[documents\]'"):
        read_document(saved(tmp_path, name, content))


def test_the_base_install_needs_no_package_of_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("pypdfium2", "docx", "selectolax.lexbor", "charset_normalizer"):
        monkeypatch.setitem(sys.modules, module, None)
    files = {"a.txt": "one", "b.md": "# two", "c.csv": "x,y\n1,2", "d.jsonl": '{"text": "four"}', "e.py": "x = 5"}
    for name, content in files.items():
        saved(tmp_path, name, content)
    saved(tmp_path, "f.txt", CHINESE, "gbk")
    assert len(read_documents([str(tmp_path)])[0]) == 6


# Encodings


@pytest.mark.parametrize(
    ("encoding", "text", "named", "guessed"),
    [
        ("utf-8", CHINESE, "utf-8", False),
        ("utf-8-sig", CHINESE, "utf-8-sig", False),
        ("utf-16", CHINESE, "utf-16", False),
        ("utf-32", CHINESE, "utf-32", False),
        ("utf-16-le", "Line one\n" + CHINESE, "utf-16-le", True),
        ("utf-16-be", "Line one\n" + CHINESE, "utf-16-be", True),
        ("gbk", CHINESE, "gb18030", True),
        ("gbk", "北京", "gb18030", True),
        ("gb18030", "龍𠀀" + CHINESE, "gb18030", True),
        ("big5", "這是一個繁體中文的文件，內容不長。", "big5hkscs", True),
        ("latin-1", "Der Müller wohnt über der Straße.", "cp1252", True),
        ("cp1252", "It’s “quoted” – a naïve café.", "cp1252", True),
        ("cp1251", "Привет, как дела? Это русский текст.", "cp1251", True),
        ("shift_jis", "日本語のテキストです。これはテストです。", "cp932", True),
    ],
)
def test_encodings_are_found(encoding: str, text: str, named: str, guessed: bool, tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.txt", text, encoding))
    assert document.text == text
    assert (document.encoding, document.guessed) == (named, guessed)


def test_damaged_unicode_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="is damaged: it is not utf-16 at byte"):
        read_document(saved(tmp_path, "a.txt", b"\xff\xfea\0b"))


# Formats


def test_a_text_is_read_as_it_is_and_cited_by_line(tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.txt", "one\r\n二\rthree\nfour\n"))
    assert document.text == "one\r\n二\rthree\nfour\n"
    assert [cited(document, word).number for word in ("one", "二", "three", "four")] == [1, 2, 3, 4]
    assert document.cite(document.text.index("二")) == f"{tmp_path / 'a.txt'}:2"
    assert document.language == "en" and Document("a", CHINESE).language == "zh"


@pytest.mark.parametrize(
    ("text", "title"),
    [("intro\n\n## 标题 one ##\ntext", "标题 one"), ("Title\n=====\ntext", "Title"), ("no heading", "")],
)
def test_the_first_heading_is_the_title_of_markdown(text: str, title: str, tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.md", text))
    assert (document.text, document.title) == (text, title)


HTML = """<!doctype html><html><head><title>A &amp; B</title><style>p {}</style><script>var x = "<p>no</p>"</script>
</head><body><h1>Head</h1><p>One <b>bold</b>word&nbsp;and
 more<br>next &lt;line&gt;</p><ul><li>first</li><li><p>second</p><ul><li>inner</li></ul></li></ul>
<table><tr><th>Name<th>年龄</tr><tr><td><p>Ann</p><p>Lee</p><td>30</table>
<pre>a  b
  c</pre><div hidden>no</div>text<div>in div</div>tail<!-- no --><p>都江堰&#26159;李冰修建的。</p></body></html>"""


@pytest.mark.parametrize("name", ["a.html", "saved page"])
def test_html_is_its_words_in_lines(name: str, tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, name, HTML))
    assert document.title == "A & B"
    assert document.text == (
        "Head\n\nOne boldword and more\nnext <line>\n\n- first\n- second\n- inner\n\nName | 年龄\nAnn Lee | 30\n\n"
        "a  b\n  c\n\ntext\n\nin div\n\ntail\n\n都江堰是李冰修建的。"
    )
    assert cited(document, "second") == Citation("paragraph", 4)
    assert document.cite(document.text.index("李冰")).endswith(", paragraph 12")


def test_html_says_which_encoding_it_has(tmp_path: Path) -> None:
    page = '<html><head><meta http-equiv="Content-Type" content="text/html; charset=gb2312"></head><p>镕基</p>'
    document = read_document(saved(tmp_path, "a.html", page, "gbk"))
    assert (document.text, document.guessed) == ("镕基", False)
    wrong = read_document(saved(tmp_path, "b.html", f'<meta charset="koi8-nothing"><p>{CHINESE}</p>', "gbk"))
    assert (wrong.text, wrong.guessed) == (CHINESE, True)


def test_html_nested_deeply_is_read(tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.html", "<div>" * 20000 + "deep" + "</div>" * 20000))
    assert document.text == "deep"


def test_a_pdf_has_pages_and_whole_words(tmp_path: Path) -> None:
    pages = [["The inter-", "national group met in 1999. It is a"],
             ["well-", "known group of the", "Franco-", "Prussian War."],
             ["都江堰是李冰", "修建的。"], ["The well-known end."]]  # fmt: skip
    document = read_document(str(write_pdf(tmp_path / "a.pdf", pages, "标题 T")))
    assert document.title == "标题 T"
    for number, words in enumerate(("1999", "Franco", "李冰", "end"), 1):
        assert cited(document, words) == Citation("page", number)
    assert document.cite(document.text.index("end")).endswith("a.pdf, page 4")
    joined = document.joined.text
    for words, there in (("international", "inter-\nnational"), ("well-known group", "well-\nknown group"),
                         ("Franco-Prussian", "Franco-\nPrussian"), ("李冰", "李冰"), ("end.", "end.")):  # fmt: skip
        start, end = document.joined.original(joined.index(words), joined.index(words) + len(words))
        assert document.text[start:end] == there
        assert document.piece(start, end) == words
    start = document.text.index("inter")
    assert document.around(start, start + 15) == ("The ", " group met in 1999.")


def test_a_pdf_without_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="is a PDF without text"):
        read_document(str(write_pdf(tmp_path / "a.pdf", [[], []])))


def test_a_pdf_with_too_many_pages_or_letters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write_pdf(tmp_path / "a.pdf", [["one"], ["two"], ["three"]]))
    monkeypatch.setattr(pdf, "MAX_CHARACTERS", 5)
    with pytest.raises(MasqueradeError, match="at most 5 characters"):
        read_document(path)
    monkeypatch.setattr(pdf, "MAX_PAGES", 2)
    with pytest.raises(MasqueradeError, match="at most 2 pages"):
        read_document(path)


def word_file(path: Path) -> str:
    made = docx.Document()
    made.add_heading("Report 报告", 0)
    made.add_paragraph(CHINESE)
    made.add_heading("Part", 1)
    made.add_paragraph("item a", style="List Bullet")
    made.add_paragraph("item b", style="List Number")
    table = made.add_table(2, 3)
    for column, words in enumerate(("名", "Value", "Unit")):
        table.cell(0, column).text = words
    table.cell(1, 0).merge(table.cell(1, 1)).text = "merged"
    table.cell(1, 2).text = "two\nlines"
    made.add_paragraph("End\twith\nbreak")
    made.save(str(path))
    return str(path)


def test_a_word_file_is_its_blocks(tmp_path: Path) -> None:
    document = read_document(word_file(tmp_path / "a.docx"))
    assert document.title == "Report 报告"
    assert document.text == (
        f"Report 报告\n\n{CHINESE}\n\nPart\n\n- item a\n- item b\n\n名 | Value | Unit\nmerged | two lines\n\n"
        "End\twith\nbreak"
    )
    assert cited(document, "item b") == Citation("paragraph", 5)
    assert read_document(str((tmp_path / "a.docx").rename(tmp_path / "a.bin"))).title == "Report 报告", "by its bytes"


def test_insertions_links_and_controls_are_text_and_deletions_are_not(tmp_path: Path) -> None:
    made = docx.Document()
    paragraph = made.add_paragraph("kept ")
    space = paragraph._p.nsmap["w"]
    for tag, inner, words in (("ins", "t", "inserted"), ("del", "delText", "deleted"), ("hyperlink", "t", " link"),
                              ("sdt", "t", " control"), ("moveFrom", "t", "moved")):  # fmt: skip
        outer = paragraph._p.makeelement(f"{{{space}}}{tag}")
        run = paragraph._p.makeelement(f"{{{space}}}r")
        text = paragraph._p.makeelement(f"{{{space}}}{inner}")
        text.text = words
        run.append(text)
        outer.append(run)
        paragraph._p.append(outer)
    made.save(str(tmp_path / "a.docx"))
    assert read_document(str(tmp_path / "a.docx")).text == "kept inserted link control"


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = word_file(tmp_path / "a.docx")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/bomb.xml", b"0" * 300_000)
    monkeypatch.setattr(word_files, "MAX_UNPACKED", 300_000)
    with pytest.raises(MasqueradeError, match="is too large"):
        read_document(path)


def test_an_archive_that_is_no_word_file_is_one_sentence(tmp_path: Path) -> None:
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.txt", "words")
    with pytest.raises(MasqueradeError, match="is an archive, but no Word file"):
        read_document(saved(tmp_path, "a.zip", data.getvalue()))


@pytest.mark.parametrize(
    ("name", "content", "text", "numbers"),
    [
        ("a.csv", '姓名,年龄,备注\r\n张三,30,"多\r\n行"\r\n李四,,好\r\n',
         "姓名: 张三\n年龄: 30\n备注: 多 行\n\n姓名: 李四\n备注: 好", (2, 4)),
        ("a.tsv", "name\tage\n\nAnn\t3\n", "name: Ann\nage: 3", (3,)),
        ("a.csv", "name;age\nAnn;3,5\n", "name: Ann\nage: 3,5", (2,)),
        ("a.csv", "Ann,3\nBob,4\n", "column 1: Ann\ncolumn 2: 3\n\ncolumn 1: Bob\ncolumn 2: 4", (1, 2)),
        ("a.csv", "just lines\nof words\n", "just lines\n\nof words", (1, 2)),
        ("a.csv", "a,b\n1,2,3\n", "a: 1\nb: 2\ncolumn 3: 3", (2,)),
    ],
)  # fmt: skip
def test_a_table_is_its_rows_with_the_names_of_columns(
    name: str, content: str, text: str, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    for encoding in ("utf-8", "gbk", "utf-16"):
        document = read_document(saved(tmp_path, name, content, encoding))
        assert (document.text, document.numbers, document.unit) == (text, numbers, "line")


def test_a_table_with_an_endless_cell_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="is no readable table at line 2"):
        read_document(saved(tmp_path, "a.csv", 'a,b\n"' + "x" * 200_000))


def test_json_lines_are_their_texts_by_line(tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "title": "T", "text": "都江堰"}',
        "",
        '{"name": "Ann", "pets": ["cat", {"kind": "dog"}], "n": 3}',
    ]
    document = read_document(saved(tmp_path, "a.jsonl", "\n".join(lines)))
    assert document.text == "T\n都江堰\n\nname: Ann\npets: cat\npets kind: dog\nn: 3"
    assert cited(document, "dog") == Citation("line", 3)


def test_lines_that_are_no_json_are_skipped_and_listed(tmp_path: Path) -> None:
    name = saved(tmp_path, "b.jsonl", '{"text": "首先"}\n{\n{"text": "last"}\n' + "[" * 1500)
    documents, skipped = read_documents([name])
    assert documents[0].text == "首先\n\nlast" and documents[0].numbers == (1, 3)
    assert [each.name for each in skipped] == [name, name]
    assert "b.jsonl' line 2 is not readable JSON" in skipped[0].reason and "line 4" in skipped[1].reason
    with pytest.raises(MasqueradeError, match="line 1 is not readable JSON"):  # nothing in it can be read
        read_document(saved(tmp_path, "c.jsonl", "{\n{"))


def test_json_is_its_items(tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.json", '[{"内容": "一"}, "two", null, {"k": true, "v": 3.5}]'))
    assert document.text == "一\n\ntwo\n\nv: 3.5"
    assert document.cite(document.text.index("3.5")).endswith("a.json, item 4")


def test_code_keeps_its_hyphens(tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.py", "x = a-\nb"))
    assert document.joined.text == document.text


# Words divided at line ends


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("inter-\nnational", "international"),
        ("inter- \r\n  national", "international"),
        ("a-\nb-\nc", "abc"),
        ("soft\u00adhyphen", "softhyphen"),
        ("soft\u00ad\nhyphen", "softhyphen"),
        ("well-known, well-\nknown", "well-known, well-known"),
        ("cooperation, co-operation, co-\noperation", "cooperation, co-operation, cooperation"),
        ("1990-\n1995", "1990-\n1995"),
        ("one - \ntwo", "one - \ntwo"),
        ("- item\n- item", "- item\n- item"),
    ],
)
def test_divided_words_are_joined_and_found_again(text: str, joined: str) -> None:
    made = join_line_ends(text)
    assert made.text == joined
    for start in range(len(joined)):
        for end in range(start + 1, len(joined) + 1):
            first, last = made.original(start, end)
            assert text[first] == joined[start] and text[last - 1] == joined[end - 1]
            assert Document("a", text).piece(first, last) == re.sub(r"\s+", " ", joined[start:end])


def test_a_long_text_without_blanks_is_joined_quickly() -> None:
    assert join_line_ends("字" * 300_000 + "-\nend").cuts == ((300_000, 300_002),)


# Sentences


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
        ("no end at all", "end", "no end at all"),
    ],
)  # fmt: skip
def test_the_sentence_is_cut_where_it_ends(text: str, answer: str, sentence: str) -> None:
    document = Document("name", text)
    start = text.rindex(answer) if answer == "三！" else text.index(answer)
    before, after = document.around(start, start + len(answer))
    assert before + document.piece(start, start + len(answer)) + after == sentence


def test_a_sentence_without_end_is_cut_between_words() -> None:
    document = Document("name", "some words " * 100 + "answer" + " more words" * 100)
    before, after = document.around(1100, 1106)
    assert AROUND - 12 < len(before) <= AROUND + 1 and AROUND - 12 < len(after) <= AROUND + 1
    assert re.fullmatch("…(some |words )+", before) and re.fullmatch("( more| words)+…", after)
    document = Document("name", "字" * 500 + "答案" + "字" * 500)
    assert document.around(500, 502) == ("…" + "字" * AROUND, "字" * AROUND + "…")


def test_lines_of_a_table_are_shown_apart(tmp_path: Path) -> None:
    document = read_document(saved(tmp_path, "a.csv", "姓名,城市,年龄\n张三,北京,34\n李四,上海,41\n"))
    start = document.text.index("北京")
    assert document.around(start, start + 2) == ("姓名: 张三 | 城市: ", " | 年龄: 34")
    start = document.text.index("张三")
    assert document.around(start, start + 2) == ("姓名: ", " | 城市: 北京 | 年龄: 34")
