"""MASS: the encoder reads a text with a masked fragment, and the decoder writes the fragment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Objective, decoding_tokens
from masquerade.objectives.masked import corrupt
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Mass(Objective):
    """One fragment, half of the tokens, is masked for the encoder and written by the decoder, which ends with [SEP].

    The decoder's input is [MASK] and the fragment's own tokens at their positions in the text, so all the rest has to
    come from the encoder. A fragment of one token is BERT's task, a fragment of all tokens is GPT's. For the encoder
    the fragment has BERT's noise (80 % [MASK], 10 % random tokens, 10 % unchanged), or with ``only_masks`` nothing
    but [MASK].
    """

    vocabulary: Vocabulary
    share: float = 0.5
    only_masks: bool = False

    def config(self) -> dict[str, int]:
        return decoding_tokens(self.vocabulary.sep, self.vocabulary.mask)

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable, mask, sep = self.vocabulary.maskable(ids), self.vocabulary.mask, self.vocabulary.sep
        if not maskable:
            return Example(causal([mask]).replace(label=[sep]), source=bidirectional(ids))
        count = min(len(maskable), max(1, round(self.share * len(maskable))))
        start = int(rng.integers(len(maskable) - count + 1))
        chosen = maskable[start : start + count]
        shown, label = corrupt(ids, chosen, self.vocabulary, rng)
        if self.only_masks:
            shown = [mask if label[index] != IGNORE else number for index, number in enumerate(ids)]
        first, last = chosen[0], chosen[-1]
        target = causal([mask, *ids[first : last + 1]])
        # [MASK] has the position before the fragment; without a [CLS] there may be none, and it shares the first one
        positions = [max(0, index - 1) for index in range(first, last + 2)]
        target = target.replace(position=positions, label=[*label[first : last + 1], sep])
        return Example(target, source=bidirectional(shown))
