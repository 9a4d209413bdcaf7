"""How a question and a passage are laid out for a reader.

A passage stands on the trunk, at positions behind any question's; a question with the slots of its answer is a branch,
[CLS] [MASK]×slots [SEP] question [SEP], so that slot i always stands at position i. An answer that is written word by
word takes the places of the slots. Through how many layers the trunk is shared by its questions is the network's
matter (``Spec.fork``); it is laid out alike for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from masquerade.decoding.canvas import FORWARD, NO_TOKEN, Canvas
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout, batch, join
from masquerade.masks import Ids, shared_passage
from masquerade.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Window:
    """A stretch of a passage that is read at once: its ids, and where each of them stands in the text. Windows overlap,
    so each has answers of its own: those that begin at some of its tokens, which lie in the middle of it."""

    passage: int  # which of the passages
    ids: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    own: tuple[int, int]  # from which token to which, the latter not included


@dataclass(frozen=True)
class Sheet:
    """The sizes and special tokens of a reader's layouts."""

    slots: int  # tokens of an answer that is filled in, at most
    question: int  # tokens of a question at most; longer ones are cut
    longest: int  # positions that the network has
    cls: int
    sep: int
    mask: int
    reach: int = 0  # tokens of an answer whose end is pointed at, at most; if below ``slots``, that many

    def __post_init__(self) -> None:
        if self.slots < 1 or self.question < 1 or self.room < max(8, self.reach):
            raise MasqueradeError(
                f"A model of {self.longest} positions has no room for {self.slots} slots, a question of "
                f"{self.question} tokens and a passage with its answers; make some of them smaller."
            )

    @staticmethod
    def of(tokenizer: Tokenizer, slots: int, question: int, longest: int, reach: int = 0) -> Sheet:
        """A sheet with the special tokens of a vocabulary."""
        cls, sep, mask = (tokenizer.special(role) for role in ("cls", "sep", "mask"))
        return Sheet(slots, question, longest, cls, sep, mask, reach)

    @property
    def longest_answer(self) -> int:
        """How many tokens an answer has at most."""
        return max(self.slots, self.reach)

    @property
    def start(self) -> int:
        """The position of a passage's first token, behind the longest question."""
        return self.slots + self.question + 3

    @property
    def room(self) -> int:
        """How many tokens of a passage are read at once."""
        return self.longest - self.start - 1

    def windows(self, tokenizer: Tokenizer, passages: Sequence[str], room: int = 0) -> list[Window]:
        """Passages as windows of ``room`` tokens (0: as many as can be read at once) that overlap by half, or by an
        answer's length if that is more, so that an answer at the edge of one is inside of the next; it belongs to one
        of them."""
        room = min(room or self.room, self.room)
        step, found = max(1, min(room // 2, room - self.longest_answer)), []
        margin = max(0, min((room - step) // 2, room - step - self.longest_answer))  # an answer's end is inside, too
        for number, (ids, places) in enumerate(tokenizer.encode_places(passages)):
            for begin in range(0, max(1, len(ids) - room + step), step):
                cut, last = slice(begin, begin + room), begin + room >= len(ids)
                own = (margin if begin else 0, len(ids) - begin if last else margin + step)
                found.append(Window(number, tuple(ids[cut]), tuple(places[cut]), own))
        return found

    def questions(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
        """The ids of questions, cut where they are too long."""
        return [ids[: self.question] for ids, _ in tokenizer.encode_places(texts)]

    def trunk(self, passage: Ids) -> Layout:
        """A passage, passage [SEP]."""
        return self._shared(passage, [])

    def branch(self, question: Ids, number: int = 1) -> Layout:
        """A question with the slots of its answer."""
        return self._shared([], [question])[1:].replace(branch=number)

    def asked(self, question: Ids, number: int = 0) -> Layout:
        """A question whose answer is written behind it: no slots. On the trunk, it is the passage's only one."""
        whole = self.branch(question, number)
        return whole[[0, *range(self.slots + 1, len(whole))]]

    def writing(self, question: Ids, answer: Ids, number: int) -> Layout:
        """A question and its answer as it is learnt word by word: the words, each of which sees those before it, and
        masks in their places that ask for them. The answer ends with its [SEP], if it has one."""
        words = Layout.of(torch.as_tensor(answer)[: self.slots], branch=number)
        order = torch.arange(len(words))
        words = words.replace(position=1 + order, rank=2 + order, horizon=2 + order)
        masks = words.replace(ids=self.mask, kind=Kind.PEER, horizon=1 + order, label=words.ids)
        return join([self.asked(question, number), words, masks])

    def slotted(self, question: Ids, answer: Ids, number: int) -> Layout:
        """A question with slots that are to hold an answer, which ends with its [SEP], if it has one."""
        whole, words = self.branch(question, number), torch.as_tensor(answer)[: self.slots]
        label = whole.label.clone()
        label[1 : 1 + len(words)] = words
        return whole.replace(label=label)

    def canvas(self, pairs: Sequence[tuple[Ids, Ids]]) -> Canvas:
        """Questions and their passages as prompts behind which an answer is written, by any method."""
        prompts = [join([self.asked(question), self.trunk(passage)]) for question, passage in pairs]
        first = Layout.of(torch.zeros(len(pairs), 1, dtype=torch.long), position=1, rank=2, horizon=2)
        before = torch.full((len(pairs), 0), NO_TOKEN)
        return Canvas(batch(prompts), first, FORWARD, before, query_kind=Kind.CONTENT, mask=self.mask, known=1)

    def _shared(self, passage: Ids, questions: Sequence[Ids]) -> Layout:
        tokens = {"cls": self.cls, "sep": self.sep, "mask": self.mask}
        return shared_passage(passage, questions, self.slots, start=self.start, **tokens)
