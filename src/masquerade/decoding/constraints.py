"""What may be written, as an automaton over the tokens: a state for each hypothesis, the tokens allowed from there, and
the state that each of them leads to. Every method of writing can be put under one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer

END = -1  # stands for the end token, whichever the model has
State = Any  # a constraint's own; None is the state of a hypothesis that is dead


class Constraint(Protocol):
    """What a method asks of a constraint."""

    hint: str  # what to do if it cannot be met, for the sentence that says so

    def start(self) -> State: ...

    def allowed(self, state: State, room: int) -> Tensor:
        """The ids, (m,), that may come next where ``room`` tokens can still be written; END among them where the text
        may end. From each of them the text can be brought to an end within the room."""

    def advance(self, state: State, token: int) -> State: ...


class TokenSet:
    """Only some tokens, in any order, for any length."""

    hint = "it has no tokens"

    def __init__(self, tokens: Iterable[int]) -> None:
        self.ids = torch.tensor(sorted({*(int(token) for token in tokens)}), dtype=torch.long)
        if not len(self.ids):
            raise MasqueradeError("A set of no tokens allows nothing to be written; give it some.")
        self.with_end = torch.cat([self.ids, torch.tensor([END])])

    def start(self) -> State:
        return 0

    def allowed(self, state: State, room: int) -> Tensor:
        return self.with_end

    def advance(self, state: State, token: int) -> State:
        return state


@dataclass
class Node:
    """A place in a trie: what may follow, whether a string ends here, and how many tokens the nearest end is away."""

    next: dict[int, Node] = field(default_factory=dict)
    ends: bool = False
    height: int = 0


class Trie:
    """One of a list of strings, whole."""

    hint = "all of its strings are longer; allow more tokens"

    def __init__(self, strings: Iterable[Sequence[int]]) -> None:
        self.root = Node()
        for string in strings:
            if not len(string):
                raise MasqueradeError("One of the allowed strings is empty; leave it out.")
            node = self.root
            for token in string:
                node = node.next.setdefault(int(token), Node())
            node.ends = True
        if not self.root.next:
            raise MasqueradeError("The list of allowed strings is empty, so nothing could be written; give some.")
        self._measure()

    @staticmethod
    def of(tokenizer: Tokenizer, texts: Sequence[str]) -> Trie:
        """The strings as texts."""
        return Trie(tokenizer.encode_all(texts))

    def _measure(self) -> None:
        """Give every node its height, the leaves first."""
        order, waiting = list[Node](), [self.root]
        while waiting:
            order.append(waiting.pop())
            waiting += order[-1].next.values()
        for node in reversed(order):
            node.height = 0 if node.ends else 1 + min(child.height for child in node.next.values())

    def start(self) -> State:
        return self.root

    def allowed(self, state: State, room: int) -> Tensor:
        ids = [token for token, child in state.next.items() if child.height < room]
        return torch.tensor(ids + [END] * state.ends, dtype=torch.long)

    def advance(self, state: State, token: int) -> State:
        return state.next.get(token)


class SpanOf:
    """A piece of a passage, one token at least, word for word. The state is the set of places in the passage where
    what is written so far ends: it is looked up once for the first token, and only shrinks from there."""

    hint = "the passage has no token that may be written"

    def __init__(self, passage: Sequence[int]) -> None:
        self.passage = [int(token) for token in passage]
        if not self.passage:
            raise MasqueradeError("What is written cannot be a span of an empty passage; give the passage's tokens.")
        self.where: dict[int, list[int]] = {}
        for place, token in enumerate(self.passage):
            self.where.setdefault(token, []).append(place + 1)
        self.first = torch.tensor(list(self.where), dtype=torch.long)

    @staticmethod
    def of(tokenizer: Tokenizer, passage: str) -> SpanOf:
        """The passage as a text."""
        return SpanOf(tokenizer.encode(passage))

    def start(self) -> State:
        return ()

    def allowed(self, state: State, room: int) -> Tensor:
        if not state:
            return self.first
        following = {self.passage[place] for place in state if place < len(self.passage)}
        return torch.tensor([*sorted(following), END], dtype=torch.long)

    def advance(self, state: State, token: int) -> State:
        if not state:
            places: Sequence[int] = self.where.get(token, [])
        else:
            places = [place + 1 for place in state if place < len(self.passage) and self.passage[place] == token]
        return tuple(places) or None
