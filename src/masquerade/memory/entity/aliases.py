"""Names of entities found in text: all names at once, by Aho–Corasick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from masquerade.errors import MasqueradeError
from masquerade.text.chinese import is_wide

SHORTEST = 2  # characters of a name, unless it is Chinese


@dataclass(frozen=True)
class Mention:
    """A name in a text, and the entities that it may mean, the most frequent first."""

    start: int  # in characters
    end: int
    text: str
    candidates: tuple[tuple[int, float], ...]  # entities and their prior probabilities


def fold(text: str) -> str:
    """The text in small letters, with as many characters as before."""
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


class AliasMatcher:
    """Finds names in texts. Of names that overlap, the one that begins first is taken, and of these the longest. A name
    begins and ends where a word does; Chinese names may stand anywhere."""

    def __init__(self, aliases: Mapping[str, Sequence[tuple[int, float]]], most: int = 30) -> None:
        """Folded names with the entities that each means and their counts; ``most`` entities of a name are kept."""
        try:
            library = import_module("ahocorasick_rs")
        except ImportError as error:
            raise MasqueradeError(
                "Finding names in texts needs a further package; install it: pip install 'masquerade[entities]'."
            ) from error
        self.names = [name for name in aliases if len(name) >= SHORTEST or (name and is_wide(name))]
        self.candidates = [_priors(aliases[name], most) for name in self.names]
        self.by_name = dict(zip(self.names, self.candidates, strict=True))
        self.automaton = library.AhoCorasick(self.names)

    def find(self, text: str) -> list[Mention]:
        """The names in a text, from left to right, without overlaps."""
        folded, found, reached = fold(text), list[Mention](), 0
        matches = self.automaton.find_matches_as_indexes(folded, overlapping=True)
        whole = [match for match in matches if _bounded(folded, match[1], match[2])]
        for number, start, end in sorted(whole, key=lambda match: (match[1], -match[2])):
            if start >= reached:
                found.append(Mention(start, end, text[start:end], self.candidates[number]))
                reached = end
        return found


def _priors(counts: Sequence[tuple[int, float]], most: int) -> tuple[tuple[int, float], ...]:
    """Entities with their shares of all counts, the most frequent first."""
    total = sum(count for _, count in counts) or 1.0
    best = sorted(counts, key=lambda pair: (-pair[1], pair[0]))[:most]
    return tuple((number, count / total) for number, count in best)


def _bounded(text: str, start: int, end: int) -> bool:
    """Whether no word goes on before or behind a piece of a text."""
    return not _joined(text, start) and not _joined(text, end)


def _joined(text: str, place: int) -> bool:
    """Whether the characters on both sides of a place are of one word."""
    if not 0 < place < len(text):
        return False
    sides = text[place - 1], text[place]
    return all(side.isalnum() and not is_wide(side) for side in sides)
