"""The documents of a batch, each as a row of its own: how recurrent stacks read packed rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import FAR, Kind, Layout

ROW = 2**31  # the first name of a row's documents is ROW times its number


@dataclass(frozen=True)
class Documents:
    """Where the tokens of each document of a batch are, in the order in which they lie in its row."""

    name: Tensor  # (documents,), row · ROW + number of the document in its row, rising
    token: Tensor  # (documents, longest), the flat index of each token in (rows · n); 0 after the last one
    there: Tensor  # bool (documents, longest), which of these are tokens

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each document: (documents,)"""
        return self.there.sum(-1)

    def gather(self, x: Tensor) -> Tensor:
        """The vectors of a batch's tokens by document: (rows, n, d) → (documents, longest, d)"""
        return x.flatten(0, 1)[self.token] * self.there.unsqueeze(-1)

    def scatter(self, x: Tensor, shape: torch.Size) -> Tensor:
        """The inverse: (documents, longest, d) → (rows, n, d) for a batch of this shape, zeros elsewhere."""
        out = x.new_zeros(shape.numel(), x.shape[-1])
        out = out.index_put((self.token[self.there],), x[self.there])
        return out.view(*shape, x.shape[-1])

    def places(self, names: Tensor) -> Tensor:
        """The index of each of these documents, given by name (m,): (m,); an error if one is missing."""
        found = torch.searchsorted(self.name, names).clamp(max=max(len(self.name) - 1, 0))
        if not len(self.name) or not torch.equal(self.name[found], names):
            raise LayoutError("A document of the target has no source; give every document of a row a source.")
        return found


def documents(layout: Layout, among: Tensor | None = None) -> Documents:
    """The documents of a batch (rows, n); only of the tokens at ``among``, bool (rows, n), if that is given."""
    layout = layout.batched()
    real = layout.real if among is None else layout.real & among
    rows = torch.arange(layout.rows, device=real.device).unsqueeze(-1)
    named = (rows * ROW + layout.document)[real]
    if not len(named):
        empty = named.new_zeros(0, 0)
        return Documents(named, empty, empty.bool())
    flat = real.flatten().nonzero()[:, 0]
    order = named.argsort(stable=True)
    names, lengths = torch.unique_consecutive(named[order], return_counts=True)
    document = torch.arange(len(names), device=named.device).repeat_interleave(lengths)
    place = torch.arange(len(named), device=named.device) - (lengths.cumsum(0) - lengths)[document]
    longest = int(lengths.max())
    token = flat.new_zeros(len(names), longest)
    token[document, place] = flat[order]
    return Documents(names, token, torch.arange(longest, device=named.device) < lengths.unsqueeze(-1))


def check_causal(layout: Layout, found: Documents) -> None:
    """Raise an error unless every token sees exactly itself and the tokens before it in its document."""
    plain = (layout.kind == Kind.CONTENT) & (layout.branch == 0) & (layout.reach == FAR)
    rank = found.gather(layout.rank.unsqueeze(-1))[..., 0]
    rises = (rank[:, 1:] > rank[:, :-1]) | ~found.there[:, 1:]
    if not bool(rises.all() & (plain & (layout.horizon == layout.rank))[layout.real].all()):
        raise LayoutError(
            "A recurrent model needs a causal layout: every token sees itself and all tokens before it; "
            "lay the text out with masks.causal."
        )


def check_bidirectional(layout: Layout) -> None:
    """Raise an error unless every token sees all tokens of its document."""
    plain = (layout.kind == Kind.CONTENT) & (layout.branch == 0) & (layout.reach == FAR)
    if not bool((plain & (layout.rank == 0) & (layout.horizon >= 0))[layout.real].all()):
        raise LayoutError(
            "A recurrent encoder reads its source in both directions, so every token has to see all of it; "
            "lay the source out with masks.bidirectional."
        )


def check_one_document(keys: Layout) -> None:
    """Raise an error unless each row has one document, read from left to right, as a cache of states needs it."""
    if bool((keys.document > 0).any()):
        raise LayoutError("A recurrent model keeps states of one document a row; leave the cache out of packed rows.")
    check_causal(keys, documents(keys))


def last_real(layout: Layout) -> Tensor:
    """The index of the last token of each row that is not padding, (rows,); −1 for a row without tokens."""
    if not len(layout):
        return torch.full((layout.rows,), -1, device=layout.ids.device)
    index = torch.arange(len(layout), device=layout.ids.device)
    return torch.where(layout.real, index, -1).amax(-1)
