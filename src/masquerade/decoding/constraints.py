"""Constraints on generated text, as automata over tokens: a state for each hypothesis, the tokens that are allowed in
it, and the state after each of them. Every decoding method can use one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer

END = -1  # stands for the end token of any model
State = Any  # defined by the constraint; None if the hypothesis cannot be continued


class Constraint(Protocol):
    """The interface of a constraint."""

    hint: str  # the cause if it cannot be met, for the error message

    def start(self) -> State: ...

    def allowed(self, state: State, room: int) -> Tensor:
        """The ids, (m,), allowed next if ``room`` more tokens can be written, with END where the text may end. After
        each of them the text can be finished within the room."""

    def advance(self, state: State, token: int) -> State: ...


class TokenSet:
    """Only tokens of a set, in any order and number."""

    hint = "it has no tokens"

    def __init__(self, tokens: Iterable[int]) -> None:
        self.ids = torch.tensor(sorted({*(int(token) for token in tokens)}), dtype=torch.long)
        if not len(self.ids):
            raise MasqueradeError("The set of allowed tokens is empty; give at least one token.")
        self.with_end = torch.cat([self.ids, torch.tensor([END])])

    def start(self) -> State:
        return 0

    def allowed(self, state: State, room: int) -> Tensor:
        return self.with_end

    def advance(self, state: State, token: int) -> State:
        return state


@dataclass
class Node:
    """A node of a trie: its children, whether a string ends here, and the number of tokens to the nearest end."""

    next: dict[int, Node] = field(default_factory=dict)
    ends: bool = False
    height: int = 0


class Trie:
    """One string of a list."""

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
            raise MasqueradeError("The list of allowed strings is empty, so nothing can be written; give at least one.")
        self._measure()

    @staticmethod
    def of(tokenizer: Tokenizer, texts: Sequence[str]) -> Trie:
        """The trie of the tokens of texts."""
        return Trie(tokenizer.encode_all(texts))

    def _measure(self) -> None:
        """Set the height of every node, leaves first."""
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
    """A span of a passage, at least one token long. The state is the set of passage positions after the tokens written
    so far; it is looked up for the first token and only shrinks afterwards."""

    hint = "the passage has no token that may be written"

    def __init__(self, passage: Sequence[int]) -> None:
        self.passage = [int(token) for token in passage]
        if not self.passage:
            raise MasqueradeError("The passage is empty, so it has no span; give the passage's tokens.")
        self.where: dict[int, list[int]] = {}
        for place, token in enumerate(self.passage):
            self.where.setdefault(token, []).append(place + 1)
        self.first = torch.tensor(list(self.where), dtype=torch.long)

    @staticmethod
    def of(tokenizer: Tokenizer, passage: str) -> SpanOf:
        """The constraint for a passage given as text."""
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
