"""A tiny reader, a tiny vocabulary of English and Chinese words, and layouts that the tests of reading share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from masquerade import Layout, Model, Spec
from masquerade.layout import batch, join
from masquerade.masks import pack
from masquerade.reading.answers import Answer
from masquerade.reading.layouts import ReaderLayout
from masquerade.reading.reader import Reader, Settings
from masquerade.text.tokenizer import Tokenizer

PAD, UNK, CLS, SEP, MASK = range(5)
ENGLISH = "the cat sat on a warm red mat who where what cafe nasa saw two old dogs ##s ##ing walk in was born by sea is"
CHINESE = "北 京 是 中 国 的 首 都 在 哪 里 谁 上 海 。 ， ？ . , ? 1 2 ##0 ##2 ##1 ２０２１ ##年 年 e"
WORDS = [*ENGLISH.split(), *CHINESE.split()]
SHEET = ReaderLayout(
    slots=4, question=7, longest=64, cls=CLS, sep=SEP, mask=MASK
)  # passages from position 14 on, 49 tokens
PARTS = {"words": 0.5, "copies": 1.0, "pointers": 2.0}
SHORT = "The cat sat on a warm red mat."
CITY = "北京是中国的首都。上海在中国。"
ROOMS = ("by the sea", "on a mat", "in Shanghai 上海", "中国", "1, 2 and 2021", "NASA", "Café", "the red house")
LONG = " ".join(f"The old dogs saw two cats {one}, and was born {other}." for one in ROOMS for other in ROOMS[:3])
ASKED: list[tuple[str, Any]] = [
    ("Who sat on the mat?", SHORT),
    ("中国的首都是哪里？", CITY),
    ("Where?", [SHORT, CITY]),
    ("What is the red cat?", LONG),
    ("Who sat on the mat?", [LONG, SHORT, CITY, ""]),
    ("谁在上海？", [CITY, SHORT + CITY]),
    ("Who was born by the sea in 1 2 0 2 1, and what is the cat who sat on a mat?", SHORT),
]


@cache
def tokenizer() -> Tokenizer:
    """Word pieces in small letters, without accents; Chinese characters by themselves."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    return Tokenizer(BertWordPieceTokenizer({word: number for number, word in enumerate(words)})._tokenizer)


def spec(fork: int | None = 1, **changes: Any) -> Spec:
    """Three layers, as narrow as can be; weights large enough that everything makes a difference."""
    plain = Spec(
        vocab=len(tokenizer()), width=16, layers=3, heads=2, feedforward=24, longest=SHEET.longest,
        dropout=0.0, attention_dropout=0.0, init_std=0.4, outputs=("lm", "copy", "span"),
    )  # fmt: skip
    return replace(plain, **{"between": {} if fork is None else {fork: ("fork", {})}, **changes})


def network(fork: int | None = 1, seed: int = 0, **changes: Any) -> Model:
    """A network with weights by chance, and the tokenizer."""
    torch.manual_seed(seed)
    return Model(spec(fork, **changes), tokenizer()).eval()


def reader(
    fork: int | None = 1,
    seed: int = 0,
    parts: Mapping[str, float] = PARTS,
    threshold: float = 0.0,
    stored: torch.dtype = torch.float16,
    memory: int = 2**20,
    apart: bool = False,
    **changes: Any,
) -> Reader:
    """A reader that knows nothing, but answers."""
    settings = Settings(SHEET.slots, SHEET.question, parts, threshold, apart=apart)
    return Reader(settings.put(network(fork, seed, **changes)), memory, stored)


words = st.integers(MASK + 1, MASK + len(WORDS))
passages = st.lists(words, min_size=1, max_size=8)
questions = st.lists(words, max_size=5)
documents = st.tuples(passages, st.lists(questions, max_size=3))
packings = st.lists(st.lists(documents, min_size=1, max_size=3), min_size=1, max_size=3).filter(
    lambda rows: any(asked for row in rows for _, asked in row)
)
Packing = Sequence[Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]]]  # rows of passages with their questions

ROWS: Packing = [  # several documents a row, several questions a passage, and padding
    [([6, 7, 8, 9, 10, 11], [[12, 13], [14, 15, 16, 17]]), ([20, 21, 22], [[23]])],
    [([30, 31, 32, 33, 34], [[35], [36, 37], [38]])],
    [([40, 41], []), ([42, 43, 44, 45, 46, 47, 48], [[49, 50, 51]])],
]


def shared(passage: Sequence[int], asked: Sequence[Sequence[int]], sheet: ReaderLayout = SHEET) -> Layout:
    """A passage with all its questions: (n,)"""
    return join([sheet.trunk(passage), *(sheet.branch(ids, number) for number, ids in enumerate(asked, start=1))])


def packed(rows: Packing) -> Layout:
    """ReaderRows of passages with their questions: (rows, longest)"""
    return batch([pack([shared(passage, asked) for passage, asked in row]) for row in rows], PAD)


def asked_in(rows: Packing) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Every question with its passage, in the order of the rows, passages and questions."""
    return [(question, passage) for row in rows for passage, asked in row for question in asked]


def every(answer: Answer) -> list[Answer]:
    return [answer, *answer.alternatives] if answer else list(answer.alternatives)


def same(one: Answer, other: Answer, near: float = 1e-5) -> bool:
    """The same answers at the same places, with nearly the same scores."""
    places = [[(each.text, each.passage, each.start, each.end) for each in every(answer)] for answer in (one, other)]
    scores = [[each.score for each in (answer, *answer.alternatives)] for answer in (one, other)]
    return places[0] == places[1] and scores[0] == pytest.approx(scores[1], abs=near)
