"""PEGASUS: the most important sentences are removed from a text, and the decoder writes them, like a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng, choose
from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.objectives.bart import decoder_layout
from masquerade.objectives.base import Objective, decoding_tokens
from masquerade.objectives.grouping import sentences
from masquerade.text.vocabulary import Vocabulary

Bag = Counter[int]  # the number of occurrences of each token

STRATEGIES = ("ind-orig", "ind-uniq", "seq-orig", "seq-uniq", "random", "lead")


def rouge1(chosen: Bag, whole: Bag, unique: bool = False) -> float:
    """ROUGE-1 F1 of chosen sentences against the rest of the whole document: twice the number of shared tokens divided
    by the number of tokens of both. With ``unique`` each token counts once on either side."""
    if unique:
        shared = sum(whole[word] > count for word, count in chosen.items())
        length = len(whole) + shared  # what both have stands on either side
    else:
        shared = sum(min(count, whole[word] - count) for word, count in chosen.items())
        length = whole.total()
    return 2 * shared / length if length else 0.0


def independent(bags: Sequence[Bag], count: int, unique: bool) -> list[int]:
    """The sentences with the best score against the rest of the document, each by itself; of equals, the earlier."""
    whole = sum(bags, Bag())
    best = sorted(range(len(bags)), key=lambda number: (-rouge1(bags[number], whole, unique), number))
    return sorted(best[:count])


def sequential(bags: Sequence[Bag], count: int, unique: bool) -> list[int]:
    """The sentences with the best score together, found greedily. Unlike ``independent``, this does not take two
    sentences with the same content."""
    whole, held, chosen = sum(bags, Bag()), Bag(), list[int]()
    for _ in range(count):
        left = [number for number in range(len(bags)) if number not in chosen]
        chosen.append(max(left, key=lambda number: (rouge1(held + bags[number], whole, unique), -number)))
        held += bags[chosen[-1]]
    return sorted(chosen)


@dataclass(frozen=True)
class GapSentences(Objective):
    """A share of the sentences is replaced, each by one ``gap`` token, and written by the decoder in reading order.

    ``strategy`` chooses them: 'ind' scores each sentence by itself and 'seq' the chosen ones together, counting tokens
    as ROUGE does ('orig') or each once ('uniq'); or 'random' ones, or the 'lead'. Sentences end at ``ends``; these and
    special tokens do not count, as ROUGE counts no punctuation. Of two sentences or more, one is left. ``start`` is the
    first token of the decoder's input; PEGASUS uses its padding token.
    """

    vocabulary: Vocabulary
    ends: frozenset[int]
    gap: int
    strategy: str = "ind-orig"
    rate: float = 0.3
    start: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy not in STRATEGIES:
            raise MasqueradeError(f"There is no strategy '{self.strategy}'; choose from {', '.join(STRATEGIES)}.")

    def config(self) -> dict[str, int]:
        return decoding_tokens(self.vocabulary.sep, self.start)

    def gaps(self, ids: Sequence[int], parts: Sequence[range], rng: Rng) -> list[int]:
        """The numbers of the sentences to remove."""
        count = min(max(1, round(self.rate * len(parts))), max(1, len(parts) - 1))
        if self.strategy == "random":
            return choose(range(len(parts)), count, rng)
        if self.strategy == "lead":
            return list(range(len(parts)))[:count]
        hidden = self.vocabulary.specials | self.ends
        bags = [Counter(ids[index] for index in part if ids[index] not in hidden) for part in parts]
        method, counting = self.strategy.split("-")
        return {"ind": independent, "seq": sequential}[method](bags, count, counting == "uniq")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        parts = sentences(ids, self.vocabulary, self.ends)
        source, target, place = list[int](), list[int](), 0
        for number in self.gaps(ids, parts, rng) if parts else []:
            part = parts[number]
            source += [*ids[place : part.start], self.gap]
            target += ids[part.start : part.stop]
            place = part.stop
        return Example(
            decoder_layout(target, self.vocabulary, self.start), source=bidirectional([*source, *ids[place:]])
        )
