"""BART: spoil a text in any way, and write it as it was.

A noise is a function of ids, vocabulary and chance that gives noisy ids; its settings are keywords, so that
``partial(permute_sentences, ends=…)`` is one too. Special tokens stay, and those around the text stay around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng, choose
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Objective
from masquerade.objectives.grouping import sentences
from masquerade.objectives.t5 import runs
from masquerade.text.vocabulary import Vocabulary

Noise = Callable[[Sequence[int], Vocabulary, Rng], list[int]]


def mask_tokens(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.15) -> list[int]:
    """Token masking: some words become [MASK]."""
    chosen = set(_some(vocabulary.maskable(ids), rate, rng))
    return [vocabulary.mask if index in chosen else number for index, number in enumerate(ids)]


def delete_tokens(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.15) -> list[int]:
    """Token deletion: some words are gone without a trace, so the model must find out where."""
    chosen = set(_some(vocabulary.maskable(ids), rate, rng))
    return [number for index, number in enumerate(ids) if index not in chosen]


def infill_text(
    ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.3, mean: float = 3.0
) -> list[int]:
    """Text infilling: spans whose lengths are drawn from Poisson's distribution each become one [MASK], so the model
    must find out how much is missing; a span of no words is a [MASK] put in where nothing is missing.

    Lengths are drawn until ``rate`` of the words is covered, the last one cut to fit; then spans and remaining words
    are put in any order. A special token inside of a span cuts it in two.
    """
    if mean <= 0:
        raise MasqueradeError(f"Spans of a mean length of {mean} never cover a text; give a mean above 0.")
    words = vocabulary.maskable(ids)
    left = _amount(words, rate)
    kept, lengths = len(words) - left, list[int]()
    while left:
        lengths.append(min(left, int(rng.poisson(mean))))
        left -= lengths[-1]
    masks, lost, place = Counter[int](), set[int](), 0  # how many masks go before an index; which words are gone
    for item in rng.permutation(len(lengths) + kept):
        span = words[place : place + lengths[item]] if item < len(lengths) else []
        if item < len(lengths):
            here = words[place] if place < len(words) else words[-1] + 1
            masks.update([run[0] for run in runs(span)] or [here])
        lost.update(span)
        place += len(span) if item < len(lengths) else 1
    noisy: list[int] = []
    for index in range(len(ids) + 1):
        noisy += [vocabulary.mask] * masks[index] + ([ids[index]] if index < len(ids) and index not in lost else [])
    return noisy


def permute_sentences(
    ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, ends: frozenset[int] = frozenset()
) -> list[int]:
    """Sentence permutation: the sentences, which end at ``ends``, in any order."""
    parts = sentences(ids, vocabulary, ends)
    if not parts:
        return list(ids)
    mixed = [ids[index] for number in rng.permutation(len(parts)) for index in parts[number]]
    return [*ids[: parts[0].start], *mixed, *ids[parts[-1].stop :]]


def rotate(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng) -> list[int]:
    """Document rotation: the text begins at any of its words, and what stood before follows behind; the model must
    find the true beginning."""
    words = vocabulary.maskable(ids)
    if not words:
        return list(ids)
    first, stop, begin = words[0], words[-1] + 1, words[int(rng.integers(len(words)))]
    return [*ids[:first], *ids[begin:stop], *ids[first:begin], *ids[stop:]]


def written(target: Sequence[int], vocabulary: Vocabulary, start: int) -> Layout:
    """A text for a decoder to write behind ``start``: each token is predicted from those before it. The end, [SEP], is
    added where it is missing and is predicted; other special tokens are read but not predicted."""
    text = [*target] if target and target[-1] == vocabulary.sep else [*target, vocabulary.sep]
    label = [IGNORE if number in vocabulary.specials else number for number in text[:-1]]
    return causal([start, *text[:-1]]).replace(label=[*label, vocabulary.sep])


@dataclass(frozen=True)
class Denoise(Objective):
    """The encoder reads the text under all of the noises, one after the other; the decoder writes it clean. BART itself
    was trained with infilled text and permuted sentences, which is
    ``(partial(permute_sentences, ends=ends), infill_text)``. ``start`` opens the decoder's input: [SEP], as BART takes
    its </s>, if not given."""

    vocabulary: Vocabulary
    noises: Sequence[Noise] = (infill_text,)
    start: int | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        noisy = list(ids)
        for noise in self.noises:
            noisy = noise(noisy, self.vocabulary, rng)
        start = self.vocabulary.sep if self.start is None else self.start
        return Example(written(ids, self.vocabulary, start), source=bidirectional(noisy))


def _amount(words: Sequence[int], rate: float) -> int:
    """That share of the words, but one at least, and no more than there are."""
    return min(len(words), max(1, round(rate * len(words))))


def _some(words: Sequence[int], rate: float, rng: Rng) -> list[int]:
    return choose(words, _amount(words, rate), rng)
