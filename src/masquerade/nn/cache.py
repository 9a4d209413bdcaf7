"""Keys and values kept from one pass to the next, where the attention mask makes that exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import FAR, Kind, Layout, join, visible
from masquerade.nn.attention import KeyValues


class Cache:
    """The keys and values of the tokens so far, a pair for each layer; for a decoder also those of its source.

    They stay valid exactly when no cached token sees a new one. That depends on the attention mask, not on the model:
    the cache checks it by the rule and refuses new tokens that cached ones would see.
    """

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.layers: list[KeyValues] = []
        self.source: list[KeyValues] = []

    def __len__(self) -> int:
        """The number of cached tokens in a row."""
        return 0 if self.layout is None else len(self.layout)

    def extended(self, new: Layout) -> Layout:
        """The layout of cached and new tokens together; an error if a cached token would see a new one."""
        if self.layout is None:
            return new
        if self.layout.rows != new.rows:
            raise LayoutError(f"A cache of {self.layout.rows} rows cannot be extended by {new.rows} rows.")
        whole = join([self.layout, new])
        pair = _first_sight(whole, len(self))
        if pair is not None:
            raise LayoutError(
                f"The cache cannot be extended: token {pair[0]} in it would see new token {pair[1]}, which changes "
                "its state; lay out all the tokens that see each other in one pass, or use no cache."
            )
        return whole

    def past(self, key_values: Callable[[Sequence[Tensor], Layout], list[KeyValues]]) -> list[KeyValues]:
        """The keys and values of each layer for the tokens so far. ``key_values`` computes them from inputs of the
        layers, for memories that hold these instead."""
        return self.layers

    def watch(self, states: Tensor) -> None:
        """Called with the input of each layer, (rows, n, width), for memories that keep it."""

    def keep(self, layout: Layout, layers: list[KeyValues], source: list[KeyValues]) -> None:
        """Store the layout of all tokens, their keys and values for each layer, and the source's."""
        self.layout, self.layers, self.source = layout, layers, source

    def crop(self, n: int) -> None:
        """Keep the first ``n`` tokens of every row and drop the others, such as masks that have been predicted."""
        if self.layout is None or n >= len(self):
            return
        self.layout = self.layout[:n]
        self.layers = [pair.first(n) for pair in self.layers]

    def select(self, rows: Tensor, siblings: bool = False) -> None:
        """Keep these rows, (m,), in this order; a row may be named several times, as beam search does. With
        ``siblings`` each row is replaced by one of the same source, and no remaining token has seen a dropped one; the
        first tokens that these rows have in common then stay in place."""
        if self.layout is None:
            return
        selected = self.layout.select(rows)
        if siblings:
            alike = _alike(self.layout, (self.layout.stacked != selected.stacked).any(0).any(0))
            changing = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
            self.layers = [pair.moved(rows, changing, alike) for pair in self.layers]
        else:
            together = self.layout.rows // len(self.source[0][0]) if self.source else 1
            sources = _each_once(rows // together)
            self.layers = [KeyValues(kept.index_select(0, rows) for kept in pair) for pair in self.layers]
            self.source = [KeyValues(kept.index_select(0, sources) for kept in pair) for pair in self.source]
        self.layout = selected

    def remember(self, n: int) -> None:
        """Turn the last ``n`` tokens into a memory, as Transformer-XL and XLNet do between segments: every token of the
        next segment sees them, they see no new token, and they get no gradient. Earlier tokens are dropped."""
        if self.layout is None:
            return
        n = min(n, len(self))
        self.layout = self.layout[len(self) - n :].replace(rank=-FAR, horizon=-FAR)
        last = slice(len(self.layers[0][0][0, 0]) - n, None) if self.layers else slice(0)
        self.layers = [KeyValues(kept[:, :, last].detach() for kept in pair) for pair in self.layers]


def _first_sight(layout: Layout, n: int) -> tuple[int, int] | None:
    """The indices of one of the first ``n`` tokens that sees a later one, and of that one; None if none does."""
    if not 0 < n < len(layout):
        return None
    beyond = layout.rank[:, n:].amin(-1) > layout.horizon[:, :n].amax(-1)
    if bool(beyond.all() & (layout.kind[:, n:] == Kind.CONTENT).all()):
        return None  # later ranks are above all horizons, so the pairs need not be compared
    seen = visible(layout[:n], layout[n:]).nonzero()
    return (int(seen[0, 1]), int(seen[0, 2])) if len(seen) else None


def _alike(layout: Layout, changes: Tensor) -> int:
    """The number of first tokens whose keys stay the same if the tokens at ``changes``, bool (n,), change: those before
    the first change, if none of them sees a later token."""
    first = int(changes.long().argmax()) if bool(changes.any()) else len(layout)
    return first if _first_sight(layout, first) is None else 0


def _each_once(sources: Tensor) -> Tensor:
    """The source of each row, (m,); if every source has the same number of consecutive rows, each source once."""
    once = sources[sources.diff(prepend=sources[:1] - 1) != 0]
    return once if torch.equal(once.repeat_interleave(len(sources) // len(once)), sources) else sources
