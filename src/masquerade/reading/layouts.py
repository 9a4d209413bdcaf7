"""Layouts of a question and a passage for a reader.

A passage is the trunk, at positions after any question's. A question with the slots of its answer is a branch, [CLS]
[MASK]×slots [SEP] question [SEP], so that slot i is always at position i. An answer that is generated token by token
takes the positions of the slots. The network decides through how many layers the trunk is shared (``Spec.fork``).
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

OVERLAP = 4  # a window shares one part in this many of its tokens with the next one


@dataclass(frozen=True)
class Window:
    """A part of a passage that fits into the network. Windows overlap; an answer belongs to the window that has its
    first token among its own tokens."""

    passage: int  # the number of the passage
    ids: tuple[int, ...]
    places: tuple[tuple[int, int], ...]  # the characters of each token in the passage, as (start, end)
    own: tuple[int, int]  # its own tokens, as (start, end)


@dataclass(frozen=True)
class ReaderLayout:
    """The sizes and special tokens of a reader's layouts."""

    slots: int  # the greatest number of tokens of an answer in slots
    question: int  # the greatest number of tokens of a question; longer ones are cut
    longest: int  # the number of positions that the network has
    cls: int
    sep: int
    mask: int
    reach: int = 0  # the greatest number of tokens of an answer by pointers, if above ``slots``
    apart: bool = False  # whether a question sees its passage only after the fork
    segment: int = 0  # the token type of a passage; that of a question is 0

    def __post_init__(self) -> None:
        if self.slots < 1 or self.question < 1 or self.room < max(8, self.reach):
            raise MasqueradeError(
                f"A model of {self.longest} positions has no room for {self.slots} slots, a question of "
                f"{self.question} tokens and a passage with its answers; make one of them smaller."
            )

    @staticmethod
    def of(
        tokenizer: Tokenizer,
        slots: int,
        question: int,
        longest: int,
        reach: int = 0,
        apart: bool = False,
        segment: int = 0,
    ) -> ReaderLayout:
        """Layouts with the special tokens of a tokenizer."""
        cls, sep, mask = (tokenizer.special(role) for role in ("cls", "sep", "mask"))
        return ReaderLayout(slots, question, longest, cls, sep, mask, reach, apart, segment)

    @property
    def longest_answer(self) -> int:
        """The greatest number of tokens of an answer."""
        return max(self.slots, self.reach)

    @property
    def start(self) -> int:
        """The position of a passage's first token, after the longest question."""
        return self.slots + self.question + 3

    @property
    def room(self) -> int:
        """The greatest number of tokens of a window."""
        return self.longest - self.start - 1

    def windows(self, tokenizer: Tokenizer, passages: Sequence[str], room: int = 0, part: int = 0) -> list[Window]:
        """Passages as windows of ``room`` tokens; 0: as many as fit. With ``part``, a passage that is longer than that
        is cut into windows of ``part`` tokens. Windows overlap by a quarter, or by the longest answer if that is more,
        so that an answer is whole in the window it belongs to, with context on both sides."""
        whole, found = min(room or self.room, self.room), list[Window]()
        for number, (ids, places) in enumerate(tokenizer.encode_places(passages)):
            room = min(part, whole) if part and len(ids) > whole else whole
            step = max(1, min(room - room // OVERLAP, room - self.longest_answer))
            margin = max(0, min((room - step) // 2, room - step - self.longest_answer))  # the longest own answer fits
            for begin in range(0, max(1, len(ids) - room + step), step):
                cut, last = slice(begin, begin + room), begin + room >= len(ids)
                own = (margin if begin else 0, len(ids) - begin if last else margin + step)
                found.append(Window(number, tuple(ids[cut]), tuple(places[cut]), own))
        return found

    def questions(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
        """The ids of questions; long ones are cut."""
        return [ids[: self.question] for ids, _ in tokenizer.encode_places(texts)]

    def trunk(self, passage: Ids) -> Layout:
        """A passage: passage [SEP]."""
        return self._shared(passage, [])

    def branch(self, question: Ids, number: int = 1) -> Layout:
        """A question with the slots of its answer."""
        return self._shared([], [question])[1:].replace(branch=number)

    def without_slots(self, question: Ids, number: int = 1) -> Layout:
        """A question whose answer is generated after it."""
        whole = self.branch(question, number)
        return whole[[0, *range(self.slots + 1, len(whole))]]

    def with_answer(self, question: Ids, answer: Ids, number: int) -> Layout:
        """A question and its answer for training token by token: the answer's tokens, which see those before them, and
        at the same positions masks that predict them. The answer ends with [SEP] if there is room for it."""
        words = Layout.of(torch.as_tensor(answer)[: self.slots], branch=number)
        order = torch.arange(len(words))
        words = words.replace(position=1 + order, rank=2 + order, horizon=2 + order)
        masks = words.replace(ids=self.mask, kind=Kind.PEER, horizon=1 + order, label=words.ids)
        return join([self.without_slots(question, number), words, masks])

    def with_labels(self, question: Ids, answer: Ids, number: int) -> Layout:
        """A question with slots that are labelled with the answer, which ends with [SEP] if there is room for it."""
        whole, words = self.branch(question, number), torch.as_tensor(answer)[: self.slots]
        label = whole.label.clone()
        label[1 : 1 + len(words)] = words
        return whole.replace(label=label)

    def canvas(self, pairs: Sequence[tuple[Ids, Ids]]) -> Canvas:
        """Questions and their passages as prompts for the decoding loop."""
        prompts = [join([self.without_slots(question), self.trunk(passage)]) for question, passage in pairs]
        first = Layout.of(torch.zeros(len(pairs), 1, dtype=torch.long), branch=1, position=1, rank=2, horizon=2)
        before = torch.full((len(pairs), 0), NO_TOKEN)
        return Canvas(batch(prompts), first, FORWARD, before, query_kind=Kind.CONTENT, mask=self.mask, known=1)

    def _shared(self, passage: Ids, questions: Sequence[Ids]) -> Layout:
        tokens = {"cls": self.cls, "sep": self.sep, "mask": self.mask}
        return shared_passage(
            passage, questions, self.slots, **tokens, start=self.start, apart=self.apart, segment=self.segment
        )
