"""Scores of written texts against references: ROUGE, BLEU, copied n-grams, length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.text.chinese import CHINESE

_WORDS = re.compile(r"[a-z0-9]+")
_MIXED = re.compile(rf"{CHINESE.pattern}|[a-z0-9]+")
NGRAM = 3  # the length of the n-grams whose copying is measured


def rouge_units(text: str, chinese: bool = False) -> list[str]:
    """The units that ROUGE compares: words of letters and digits in lower case; with ``chinese`` also each Chinese
    character, as a unit of its own."""
    return (_MIXED if chinese else _WORDS).findall(text.lower())


def rouge_n(found: Sequence[str], reference: Sequence[str], n: int) -> float:
    """The F1 of shared n-grams, each counted as often as both texts have it."""
    one, other = (Counter(_ngrams(units, n)) for units in (found, reference))
    return _f1((one & other).total(), one.total(), other.total())


def rouge_l(found: Sequence[str], reference: Sequence[str]) -> float:
    """The F1 of the longest common subsequence."""
    row = [0] * (len(reference) + 1)
    for unit in found:
        before = 0
        for place, other in enumerate(reference, start=1):
            above = row[place]
            row[place] = before + 1 if unit == other else max(above, row[place - 1])
            before = above
    return _f1(row[-1], len(found), len(reference))


def copied(found: Sequence[str], source: Sequence[str], n: int = NGRAM) -> float | None:
    """The share of a text's n-grams that its source has too; None if the text is shorter than n units."""
    grams, there = _ngrams(found, n), set(_ngrams(source, n))
    return sum(gram in there for gram in grams) / len(grams) if grams else None


def bleu(found: Sequence[str], references: Sequence[str], chinese: bool = False) -> float:
    """The corpus BLEU of sacrebleu, from 0 to 100, in lower case, as the texts of uncased models are."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise MasqueradeError("BLEU needs sacrebleu; run pip install 'masquerade[write]'.") from error
    metric: Any = BLEU(lowercase=True, tokenize="zh" if chinese else "13a")
    return float(metric.corpus_score(list(found), [list(references)]).score)


@dataclass(frozen=True)
class TextScores:
    """Scores of many texts, from 0 to 100 except the length, and those of each text."""

    total: dict[str, float]
    each: list[dict[str, float]]


def score_texts(
    found: Sequence[str], references: Sequence[str], sources: Sequence[str], chinese: bool | None = None
) -> TextScores:
    """The scores of texts: ROUGE-1, -2 and -L, BLEU, the share of n-grams copied from the source, and the length in
    units. Chinese is scored by characters; by default if the references are Chinese."""
    chinese = language(" ".join(references[:100])) == "zh" if chinese is None else chinese
    each, shares = list[dict[str, float]](), list[float]()
    for text, reference, source in zip(found, references, sources, strict=True):
        one, other = rouge_units(text, chinese), rouge_units(reference, chinese)
        row = {f"rouge_{n}": 100 * rouge_n(one, other, n) for n in (1, 2)}
        row |= {"rouge_l": 100 * rouge_l(one, other), "length": float(len(one))}
        share = copied(one, rouge_units(source, chinese))
        if share is not None:
            shares.append(100 * share)
        each.append(row)
    total = {name: sum(row[name] for row in each) / max(len(each), 1) for name in ("rouge_1", "rouge_2", "rouge_l")}
    total["bleu"] = bleu(found, references, chinese)
    total["copied"] = sum(shares) / len(shares) if shares else 0.0
    total["length"] = sum(row["length"] for row in each) / max(len(each), 1)
    return TextScores(total, each)


def _ngrams(units: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(units[start : start + n]) for start in range(len(units) - n + 1)]


def _f1(shared: int, one: int, other: int) -> float:
    return 2 * shared / (one + other) if shared else 0.0
