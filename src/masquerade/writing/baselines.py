"""Texts without a model, to compare writers with: the first sentence of a source, or its first words."""

from __future__ import annotations

import re
from collections.abc import Callable

from masquerade.text.chinese import HAN
from masquerade.text.sentences import SENTENCE

WORDS = 12  # of "words": about as many as an English title has

_UNIT = re.compile(rf"[{HAN}]|[^\s{HAN}]+")


def lead(source: str) -> str:
    """The first sentence."""
    found = SENTENCE.search(source)
    return found.group().strip() if found else source.strip()


def first_words(source: str, count: int = WORDS) -> str:
    """The first words, or Chinese characters."""
    units = [unit.end() for unit in _UNIT.finditer(source)]
    return source[: units[min(count, len(units)) - 1]].strip() if units else ""


BASELINES: dict[str, Callable[[str], str]] = {"lead": lead, "words": first_words}
