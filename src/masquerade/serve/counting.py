"""The number of real tokens of texts, counted beside the models: their own tokenizers are theirs alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer as Backend

from masquerade.text.tokenizer import Tokenizer

KEPT = 8 << 20  # characters of the texts whose numbers are kept
LONG = 512  # characters from which a number is worth keeping
PIECE = 32_000  # characters that are counted at once; between two pieces of a long text others have their turn
CHARACTERS = 16  # of a token at most: blanks and endless words cost time too, although they make few tokens


class TokenCounter:
    """Counts the tokens of texts. Used in one thread."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.backend = Backend.from_str(tokenizer.backend.to_str())
        self.backend.no_truncation()
        self._known: OrderedDict[str, int] = OrderedDict()
        self.held = 0  # characters of these texts

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special tokens; at least one for 16 characters."""
        new = list({text for text in texts if text not in self._known})
        counts = {
            text: max(len(each.ids), len(text) // CHARACTERS)
            for text, each in zip(new, self.backend.encode_batch(new, add_special_tokens=False), strict=True)
        }
        found = [counts[text] if text in counts else self._seen(text) for text in texts]
        for text, count in counts.items():
            if len(text) >= LONG:
                self._known[text] = count
                self.held += len(text)
        while self.held > KEPT:
            self.held -= len(self._known.popitem(last=False)[0])
        return found

    def _seen(self, text: str) -> int:
        self._known.move_to_end(text)
        return self._known[text]


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of at most PIECE characters, cut before a blank where there is one."""
    start = 0
    while len(text) - start > PIECE:
        blank = text.rfind(" ", start + 1, start + PIECE + 1)
        end = blank if blank > 0 else start + PIECE
        yield text[start:end]
        start = end
    yield text[start:]
