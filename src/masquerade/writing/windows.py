"""Long texts in windows: pieces that fit a model, cut after sentences where that is possible."""

from __future__ import annotations

from masquerade.text.sentences import SENTENCE_END
from masquerade.text.tokenizer import Tokenizer


def cut_windows(tokenizer: Tokenizer, text: str, room: int) -> list[str]:
    """The pieces of a text, each of at most ``room`` tokens. A piece ends with the last sentence that fits; a sentence
    that is longer than the room is cut."""
    _, places = tokenizer.encode_places([text])[0]
    if len(places) <= room:
        return [text]
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    pieces, first = list[str](), 0
    while first < len(places):
        last = min(first + room, len(places))
        start, edge = places[first][0], places[last - 1][1]
        if last < len(places):
            within = [end for end in ends if start < end <= edge]
            inside = [number for number in range(first, last) if within and places[number][1] <= within[-1]]
            last = inside[-1] + 1 if inside else last
            edge = places[last - 1][1]
        pieces.append(text[start:edge].strip())
        first = last
    return [piece for piece in pieces if piece]
