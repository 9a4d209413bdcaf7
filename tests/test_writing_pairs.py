"""Pairs of source and target from files, the scores of texts, windows of long texts, and spelling."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from rouge_score.rouge_scorer import RougeScorer
from writer_cases import tokenizer

from masquerade.errors import MasqueradeError
from masquerade.writing.baselines import first_words, lead
from masquerade.writing.pairs import TextPair, read_pairs
from masquerade.writing.rouge import copied, rouge_l, rouge_n, rouge_units, score_texts
from masquerade.writing.spelling import casing_of, tidy, with_capitals
from masquerade.writing.windows import cut_windows

ONE = TextPair("a text", "a title")


def put(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return str(path)


def test_pairs_come_from_every_kind_of_file(tmp_path: Path) -> None:
    record = {"abstract": "a text", "title": "a title", "id": 3}
    lines = put(tmp_path / "a.jsonl", json.dumps(record) + "\n\n")
    zipped = tmp_path / "b.jsonl.gz"
    zipped.write_bytes(gzip.compress(Path(lines).read_bytes()))
    files = {
        lines: ("", ""),
        str(zipped): ("", ""),
        put(tmp_path / "c.json", json.dumps([record])): ("", ""),
        put(tmp_path / "d.tsv", "a text\ta title\n"): ("", ""),
        put(tmp_path / "e.tsv", "a title\ta text\n"): ("2", "1"),
        put(tmp_path / "f.csv", 'id,title,text\n1,"a title",a text\n'): ("", ""),
        put(tmp_path / "g.tsv", "frage\tantwort\na text\ta title\n"): ("frage", "antwort"),
    }
    for source, names in files.items():
        assert read_pairs(source, *names).pairs == [ONE], source


def test_chinese_pairs_in_another_encoding_are_read(tmp_path: Path) -> None:
    text = "\n".join("上海是中国的大城市，北京是中国的首都。\t北京和上海" for _ in range(20)) + "\n"
    assert read_pairs(put(tmp_path / "a.tsv", text, "gb18030")).pairs[0].target == "北京和上海"


def test_what_teaches_nothing_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{"text": "x y", "title": "x"}, {"text": "", "title": "y"}, {"text": "same", "title": "same"}]
    found = read_pairs(put(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert found.pairs == [TextPair("x y", "x")]
    assert "1 pairs with an empty source or target are left out (the first: line 2)" in found.notes[0]
    assert "1 pairs with a target that equals its source are left out (the first: line 3)" in found.notes[1]


@pytest.mark.parametrize(
    ("name", "text", "names", "sentence"),
    [
        ("a.tsv", "text\ttitle\na\tb\nonly one\n", ("", ""), r"Line 3 of .*a\.tsv has 1 columns instead of 2"),
        ("a.tsv", "one column\n", ("", ""), r"Line 1 of .* has no field with a usual name for the target"),
        ("a.jsonl", '{"text": "a"}\n', ("", ""), r"Line 1 of .* \(it has text\); name it: target = '…'"),
        ("a.jsonl", '{"text": "a", "title": "b"}\n', ("", "headline"), r"Line 1 of .* has no field 'headline'"),
        ("a.jsonl", '{"text": "a", "title": 3}\n', ("", ""), "'title' in line 1 of .* is no text"),
        ("a.jsonl", "{broken\n", ("", ""), r"Line 1 of .* is not JSON"),
        ("a.jsonl", "[1]\n", ("", ""), "is no object with named fields"),
        ("a.txt", "words\n", ("", ""), r"holds no pairs; give a \.jsonl"),
        ("a.jsonl", "\n", ("", ""), "There is no pair of source and target"),
        ("a.jsonl", '{"text": "a", "title": "a"}\n', ("", ""), r"jsonl \(left out: 1 with a target that equals its"),
    ],
)
def test_files_that_hold_no_pairs_are_one_sentence(
    tmp_path: Path, name: str, text: str, names: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        read_pairs(put(tmp_path / name, text), *names)


def test_rouge_equals_the_published_scorer() -> None:
    scorer, rng = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False), random.Random(0)
    words = ["the", "Cat", "sat-on", "it's", "BERT", "2021", "a", "mat."]
    for _ in range(100):
        one, other = (" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(2))
        expected = {name: score.fmeasure for name, score in scorer.score(other, one).items()}
        found, reference = rouge_units(one), rouge_units(other)
        assert rouge_n(found, reference, 1) == pytest.approx(expected["rouge1"])
        assert rouge_n(found, reference, 2) == pytest.approx(expected["rouge2"])
        assert rouge_l(found, reference) == pytest.approx(expected["rougeL"])


def test_chinese_is_scored_by_characters() -> None:
    assert rouge_units("北京BERT-2模型", chinese=True) == ["北", "京", "bert", "2", "模", "型"]
    scores = score_texts(["北京是首都"], ["北京首都"], ["北京是首都。"]).total
    assert scores["rouge_l"] == pytest.approx(100 * 2 * 4 / 9)
    assert scores["length"] == 5
    assert scores["copied"] == 100


def test_copied_ngrams_and_bleu() -> None:
    assert copied(list("abcd"), list("xabcy")) == 0.5
    assert copied(["a"], ["a"]) is None
    texts = ["the cat sat on the mat today", "two old dogs"]
    assert score_texts(texts, texts, texts).total["bleu"] == pytest.approx(100)


def test_baselines_are_the_beginning_of_a_text() -> None:
    assert lead("Dr. Lee saw it. Then she left.") == "Dr. Lee saw it."
    assert lead("北京是首都。上海是城市。") == "北京是首都。"
    assert first_words("one two, three four", 2) == "one two,"
    assert first_words("北京是首都", 3) == "北京是"
    assert first_words("one", 3) == "one"


def test_windows_hold_all_of_a_text_and_end_with_sentences() -> None:
    text = "The cat sat. Two old dogs walk. The sea. " * 5
    for room in (3, 7, 12, 1000):
        pieces = cut_windows(tokenizer(), text, room)
        assert " ".join(pieces).split() == text.split() or room == 3
        assert all(len(tokenizer().encode(piece)) <= room for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece.endswith(".") for piece in cut_windows(tokenizer(), text, 12))
    assert cut_windows(tokenizer(), "北京是首都。上海是城市。", 8) == ["北京是首都。", "上海是城市。"]


def test_spaces_and_capitals_come_back() -> None:
    assert tidy("pre - training ( bert): a 3. 5% gain, what' s new") == "pre-training (bert): a 3.5% gain, what's new"
    assert tidy('" all " of the u. s. and / or c + +') == '"all" of the u.s. and/or c++'
    assert tidy("北京是首都") == "北京是首都"
    source = "We show that BERT works. Transformers help in NLP and for iPhone users; McCann agrees."
    assert with_capitals("bert for nlp: the case of mccann", source, "title") == "BERT for NLP: The Case of McCann"
    assert with_capitals("transformers help iphone users", source, "source") == "Transformers help iPhone users"
    assert with_capitals("self-training of bert", source, "title") == "Self-Training of BERT"
    assert with_capitals("bert", source, "none") == "bert"


def test_the_casing_is_that_of_the_targets() -> None:
    assert casing_of(["A Cat on the Mat", "Two Dogs"]) == "title"
    assert casing_of(["A cat on the mat", "Two dogs walk"]) == "source"
    assert casing_of(["a cat", "北京"]) == "none"
