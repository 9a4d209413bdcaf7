"""BART: noise is added to a text, and the decoder writes the text without it.

A noise is a function of ids, vocabulary and generator that returns noisy ids; its settings are keywords, so
``partial(permute_sentences, ends=…)`` is a noise too. Special tokens are kept, those around the text stay around it.
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
from masquerade.objectives.base import Objective, decoding_tokens
from masquerade.objectives.grouping import sentences
from masquerade.objectives.t5 import runs
from masquerade.text.vocabulary import Vocabulary

Noise = Callable[[Sequence[int], Vocabulary, Rng], list[int]]


def mask_tokens(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.15) -> list[int]:
    """Token masking: some tokens become [MASK]."""
    chosen = set(_some(vocabulary.maskable(ids), rate, rng))
    return [vocabulary.mask if index in chosen else number for index, number in enumerate(ids)]


def delete_tokens(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.15) -> list[int]:
    """Token deletion: some tokens are removed, so the model also has to find their positions."""
    chosen = set(_some(vocabulary.maskable(ids), rate, rng))
    return [number for index, number in enumerate(ids) if index not in chosen]


def infill_text(
    ids: Sequence[int], vocabulary: Vocabulary, rng: Rng, rate: float = 0.3, mean: float = 3.0
) -> list[int]:
    """Text infilling: spans with Poisson lengths become one [MASK] each, so the model also has to find their lengths;
    an empty span is a [MASK] inserted where no token is missing.

    Lengths are drawn until ``rate`` of the tokens is covered, the last one shortened to fit; then spans and kept tokens
    are put in a random order. A special token inside a span divides it.
    """
    if mean <= 0:
        raise MasqueradeError(f"The mean length of spans is {mean}; give a number above 0.")
    maskable = vocabulary.maskable(ids)
    left = _amount(maskable, rate)
    kept, lengths = len(maskable) - left, list[int]()
    while left:
        lengths.append(min(left, int(rng.poisson(mean))))
        left -= lengths[-1]
    masks, lost, place = Counter[int](), set[int](), 0  # the number of masks before an index; the removed tokens
    for item in rng.permutation(len(lengths) + kept):
        span = maskable[place : place + lengths[item]] if item < len(lengths) else []
        if item < len(lengths):
            here = maskable[place] if place < len(maskable) else maskable[-1] + 1
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
    """Sentence permutation: the sentences, which end at ``ends``, in a random order."""
    parts = sentences(ids, vocabulary, ends)
    if not parts:
        return list(ids)
    mixed = [ids[index] for number in rng.permutation(len(parts)) for index in parts[number]]
    return [*ids[: parts[0].start], *mixed, *ids[parts[-1].stop :]]


def rotate(ids: Sequence[int], vocabulary: Vocabulary, rng: Rng) -> list[int]:
    """Document rotation: the text begins at a random token, and the part before that follows at the end."""
    maskable = vocabulary.maskable(ids)
    if not maskable:
        return list(ids)
    first, stop, begin = maskable[0], maskable[-1] + 1, maskable[int(rng.integers(len(maskable)))]
    return [*ids[:first], *ids[begin:stop], *ids[first:begin], *ids[stop:]]


def decoder_layout(target: Sequence[int], vocabulary: Vocabulary, start: int) -> Layout:
    """The layout of a text that a decoder writes after ``start``: each token is predicted from those before it. The
    end, [SEP], is added if it is missing, and is predicted; other special tokens are not."""
    text = [*target] if target and target[-1] == vocabulary.sep else [*target, vocabulary.sep]
    label = [IGNORE if number in vocabulary.specials else number for number in text[:-1]]
    return causal([start, *text[:-1]]).replace(label=[*label, vocabulary.sep])


@dataclass(frozen=True)
class Denoise(Objective):
    """The encoder reads the text with all noises, one applied after the other; the decoder writes it without noise.
    BART had permuted sentences and infilled text: ``(partial(permute_sentences, ends=ends), infill_text)``.
    ``start`` is the first token of the decoder's input, [SEP] if not given, as BART uses its </s>."""

    vocabulary: Vocabulary
    noises: Sequence[Noise] = (infill_text,)
    start: int | None = None

    @property
    def first(self) -> int:
        """The first token of the decoder's input."""
        return self.vocabulary.sep if self.start is None else self.start

    def config(self) -> dict[str, int]:
        return decoding_tokens(self.vocabulary.sep, self.first, self.vocabulary.cls)

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        noisy = list(ids)
        for noise in self.noises:
            noisy = noise(noisy, self.vocabulary, rng)
        return Example(decoder_layout(ids, self.vocabulary, self.first), source=bidirectional(noisy))


def _amount(tokens: Sequence[int], rate: float) -> int:
    """The number of tokens that is ``rate`` of them; at least one if there is one."""
    return min(len(tokens), max(1, round(rate * len(tokens))))


def _some(tokens: Sequence[int], rate: float, rng: Rng) -> list[int]:
    return choose(tokens, _amount(tokens, rate), rng)
