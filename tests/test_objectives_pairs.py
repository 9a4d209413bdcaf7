"""Pairs of texts: whole sentences, other documents, and no label that the surface gives away."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from reading_cases import CLS, SEP, TERMS, assert_shares, fates, labelled, restored

from masquerade.data.corpus import Pieces, Tokens, prepare
from masquerade.data.examples import Example
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.layout import visible
from masquerade.objectives.pairs import NextSentence, Pairs, SentenceOrder
from masquerade.objectives.registry import make_objective
from masquerade.objectives.span import MaskedSpans
from masquerade.text.training import train_tokenizer

STOP, QUESTION, OPENING = 5, 6, 7
MAKERS = {
    "next": NextSentence(TERMS, frozenset({STOP, QUESTION})),
    "order": SentenceOrder(TERMS, frozenset({STOP, QUESTION})),
}
ENWIKI = Path(__file__).parents[2] / "shared" / "data" / "lm" / "enwiki.jsonl"


def corpus(documents: int = 300) -> Tokens:
    """Documents of one to a dozen random sentences, which begin with a token of their own and now and then end without
    a stop. The words of a document are its own: one of thirty blocks of the vocabulary."""
    rng, ids, ends = np.random.default_rng(3), list[int](), list[int]()
    for number in range(documents):
        ids.append(OPENING)
        for _ in range(rng.integers(1, 13)):
            ids += (10 + rng.integers(0, 50, rng.integers(2, 14))).tolist()
            ids += [QUESTION] if rng.random() < 0.2 else [STOP] * int(rng.integers(1, 3))
        ids += [] if number % 3 else [11, 12]
        ends.append(len(ids))
    return Tokens(np.array(ids, dtype=np.uint32), np.array(ends))


def texts(example: Example) -> tuple[list[int], list[int], int]:
    """The two texts of a pair and its label."""
    ids, segment = restored(example.layout), example.layout.segment.tolist()
    cut = segment.index(1)
    assert ids[0] == CLS
    assert ids[cut - 1] == ids[-1] == SEP
    return ids[1 : cut - 1], ids[cut:-1], int(example.extra["sentence_label"].tensor)


def rules(pairs: Sequence[tuple[list[int], list[int], int]]) -> dict[str, float]:
    """How often each rule, fitted to one half of the pairs, is right about the other half."""
    features = {
        "last of A": lambda a, b: a[-1],
        "first of B": lambda a, b: b[0],
        "first of A": lambda a, b: a[0],
        "last of B": lambda a, b: b[-1],
        "length of A": lambda a, b: len(a) // 4,
        "length of B": lambda a, b: len(b) // 4,
        "length": lambda a, b: (len(a) + len(b)) // 4,
        "difference": lambda a, b: (len(a) - len(b)) // 4,
    }
    half, found = len(pairs) // 2, dict[str, float]()
    for name, feature in features.items():
        counts = defaultdict[int, Counter[int]](Counter)
        for a, b, label in pairs[:half]:
            counts[feature(a, b)][label] += 1
        guesses = {value: count.most_common(1)[0][0] for value, count in counts.items()}
        right = [guesses.get(feature(a, b), 0) == label for a, b, label in pairs[half:]]
        found[name] = sum(right) / len(right)
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_both_texts_are_whole_sentences_and_fit(name: str) -> None:
    objective, tokens = MAKERS[name], corpus()
    pieces = objective.cut(tokens, 40)
    sentences = set[tuple[int, ...]]()
    for start, end in zip([0, *tokens.ends[:-1]], tokens.ends, strict=True):
        ids = tokens.ids[start:end].tolist()
        stops = [i + 1 for i, n in enumerate(ids) if n in (5, 6) and (i + 1 == len(ids) or ids[i + 1] not in (5, 6))]
        sentences |= {tuple(ids[a:b]) for i, a in enumerate(stops) for b in stops[i + 1 :]}
    for number in range(len(pieces)):
        a, b, _ = texts(example := objective.example(pieces, number, rng_for(1, number), 0.5))
        assert tuple(a) in sentences
        assert tuple(b) in sentences
        assert len(example.layout) <= 40
        assert bool(visible(example.layout).all())


def test_half_of_the_next_sentences_come_from_another_document() -> None:
    tokens = corpus()
    objective = MAKERS["next"]
    pieces = objective.cut(tokens, 40)
    labels = []
    for number in range(len(pieces)):
        own = " ".join(map(str, tokens[pieces.document(number)].tolist()))
        a, b, label = texts(objective.example(pieces, number, rng_for(1, number), 0.5))
        assert " ".join(map(str, a)) in own
        follows = " ".join(map(str, a + b)) in own
        assert follows == (label == 0)
        labels.append(label)
    assert_shares(labels, {0: 0.5, 1: 0.5}, 0.06)


def test_half_of_the_texts_change_places() -> None:
    objective, labels = SentenceOrder(TERMS, frozenset({STOP, QUESTION}), MaskedSpans(TERMS)), []
    pieces = objective.cut(corpus(), 40)
    for number in range(len(pieces)):
        a, b, label = texts(example := objective.example(pieces, number, rng_for(1, number), 0.5))
        assert (b + a if label else a + b) == pieces[number]
        assert example.count("boundary_label") == len(labelled(example.layout)), "the inner objective is kept whole"
        labels.append(label)
    assert_shares(labels, {0: 0.5, 1: 0.5}, 0.06)
    assert set(objective.terms()) == {"tokens", "boundaries", "pairs"}


def test_tokens_of_pairs_are_masked_as_berts_are() -> None:
    objective, kinds = MAKERS["next"], list[str]()
    pieces = objective.cut(corpus(), 60)
    for number in range(len(pieces)):
        layout = objective.example(pieces, number, rng_for(1, number), 0.5).layout
        kinds += fates(layout, labelled(layout))
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1}, 0.05)


def pairs_of(objective: Pairs, pieces: Pieces, count: int) -> list[tuple[list[int], list[int], int]]:
    chosen = np.random.default_rng(0).permutation(len(pieces))[:count].tolist()
    return [texts(objective.example(pieces, number, rng_for(2, number), 0.5)) for number in chosen]


@pytest.mark.parametrize("name", MAKERS)
def test_no_surface_rule_tells_the_label(name: str) -> None:
    objective = MAKERS[name]
    found = rules(pairs_of(objective, objective.cut(corpus(2000), 48), 4000))
    assert max(found.values()) < 0.55, found


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nsp", "sop"])
@pytest.mark.skipif(not ENWIKI.is_file(), reason="needs ../shared/data/lm/enwiki.jsonl")
def test_no_surface_rule_tells_the_label_in_real_text(name: str, tmp_path: Path) -> None:
    from masquerade.data.corpus import read_documents

    (tmp_path / "some.jsonl").write_bytes(b"".join(ENWIKI.read_bytes().splitlines(keepends=True)[:1500]))
    documents = partial(read_documents, str(tmp_path / "some.jsonl"))
    tokenizer = train_tokenizer(documents(), size=4000)
    objective = make_objective(name, tokenizer, {})
    assert isinstance(objective, Pairs)
    pieces = objective.cut(prepare([str(tmp_path / "some.jsonl")], tokenizer, tmp_path / "tokens"), 128)
    found = rules(pairs_of(objective, pieces, 6000))
    assert max(found.values()) < 0.55, found


def test_text_without_pairs_is_one_sentence() -> None:
    ids = torch.arange(10, 40).numpy().astype(np.uint32)
    with pytest.raises(MasqueradeError, match="two neighbouring sentences of together 37 tokens"):
        MAKERS["next"].cut(Tokens(ids, np.array([30])), 40)
    one = np.array([OPENING, 5, *[10, 11, 5] * 6], dtype=np.uint32)
    pieces = MAKERS["next"].cut(Tokens(one, np.array([len(one)])), 10)
    with pytest.raises(MasqueradeError, match="need two or more"):
        [MAKERS["next"].example(pieces, 0, rng_for(seed), 0.5) for seed in range(9)]
