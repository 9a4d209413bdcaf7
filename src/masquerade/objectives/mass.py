"""MASS: the encoder reads a sentence with a hole, the decoder writes what was in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import corrupt
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Mass(Objective):
    """One fragment, half of the words, is masked for the encoder and written by the decoder.

    The decoder is given only the fragment's own words, each where it stood in the sentence; the token before the
    fragment is shown as [MASK], like all that the encoder can see. So it must ask the encoder for the rest. A fragment
    of one word is BERT's task, a fragment of all words is GPT's. Inside of the hole the encoder sees BERT's noise
    (eight of ten words masked, one any word, one as it is), or, with ``only_masks``, nothing but [MASK].
    """

    vocabulary: Vocabulary
    share: float = 0.5
    only_masks: bool = False

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        words = self.vocabulary.maskable(ids)
        if not words:
            return Example(causal([self.vocabulary.mask]), source=bidirectional(ids))
        count = min(len(words), max(1, round(self.share * len(words))))
        start = int(rng.integers(len(words) - count + 1))
        chosen = words[start : start + count]
        shown, label = corrupt(ids, chosen, self.vocabulary, rng)
        if self.only_masks:
            shown = [self.vocabulary.mask if label[index] != IGNORE else number for index, number in enumerate(ids)]
        first, last = chosen[0], chosen[-1]
        target = causal([self.vocabulary.mask, *ids[first:last]])
        # a token stands where it stood; a sentence without [CLS] has no place before its first word, so [MASK] joins it
        places = [max(0, index - 1) for index in range(first, last + 1)]
        return Example(target.replace(position=places, label=label[first : last + 1]), source=bidirectional(shown))
