"""UniLM: one network trained with masked tokens under four attention masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.masks import backward, bidirectional, causal, prefix
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import corrupt
from masquerade.text.vocabulary import Vocabulary

BOTH_WAYS, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE_TO_TARGET = 0, 2, 3, 4  # the segment that each mask begins at
MASKS = (BOTH_WAYS, BOTH_WAYS, SOURCE_TO_TARGET, SOURCE_TO_TARGET, LEFT_TO_RIGHT, RIGHT_TO_LEFT)  # equally likely


@dataclass(frozen=True)
class UnifiedMasks(Objective):
    """One of four attention masks for each piece: bidirectional for a third, source and target for a third, left to
    right and right to left for a sixth each. Under all of them a share of the tokens is masked as BERT masks them, and
    predicted.

    For source and target the piece is cut before one of its words, into [CLS] source [SEP] target [SEP] (one token
    more than before). The end of the target can be masked too, so the network learns to stop.

    Segments tell the masks apart, as published: 0, source and target 4 and 5, left to right 2, right to left 3. With
    ``own_segments`` false they are those of a BERT: 0, and 1 for a target.
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    several: float = 0.2  # the probability that two or three neighbours are masked together
    own_segments: bool = True
    masks: tuple[int, ...] = MASKS  # of which one is drawn for each piece

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        mask = self.masks[int(rng.integers(len(self.masks)))]
        shown, cut = self._cut(list(ids), rng) if mask == SOURCE_TO_TARGET else (list(ids), 0)
        candidates = [*self.vocabulary.maskable(shown), len(shown) - 1] if cut else self.vocabulary.maskable(shown)
        shown, label = corrupt(shown, self._grams(candidates, rng), self.vocabulary, rng)
        if mask == LEFT_TO_RIGHT:
            layout = causal(shown)
        elif mask == RIGHT_TO_LEFT:
            layout = backward(shown)
        elif cut:
            layout = prefix(shown[:cut], shown[cut:])
        else:
            layout, mask = bidirectional(shown), BOTH_WAYS
        return Example(layout.replace(label=label, segment=layout.segment + (mask if self.own_segments else 0)))

    def _cut(self, ids: list[int], rng: Rng) -> tuple[list[int], int]:
        """[CLS] source [SEP] target [SEP], and the index of the target; 0 for a piece of one word, which is not cut."""
        first, last = int(ids[:1] == [self.vocabulary.cls]), len(ids) - int(ids[-1:] == [self.vocabulary.sep])
        body = ids[first:last]
        starts = [word[0] for word in self.vocabulary.words(body)[1:]]
        if not starts:
            return ids, 0
        at = starts[int(rng.integers(len(starts)))]
        return [self.vocabulary.cls, *body[:at], self.vocabulary.sep, *body[at:], self.vocabulary.sep], at + 2

    def _grams(self, candidates: list[int], rng: Rng) -> list[int]:
        """The tokens to mask: single ones, or two or three neighbours with the probability ``several``."""
        free, chosen = set(candidates), list[int]()
        share = max(1, round(self.rate * len(candidates)))
        for start in rng.permutation(candidates).tolist() if candidates else []:
            size = int(rng.integers(2, 4)) if rng.random() < self.several else 1
            for index in range(start, start + size):
                if index not in free or len(chosen) == share:
                    break
                free.remove(index)
                chosen.append(index)
            if len(chosen) == share:
                break
        return sorted(chosen)
