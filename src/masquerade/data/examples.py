"""An example: what a network reads and what it predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.layout import Layout

Entries = int | float | Sequence[int | float | Sequence[int]] | Tensor


@dataclass(frozen=True)
class Extra:
    """An extra field of an example; its class says what a batch makes of it."""

    entries: Entries

    @property
    def tensor(self) -> Tensor:
        """The entries: (m, …)"""
        entries = torch.as_tensor(self.entries)
        return entries if entries.dim() else entries[None]


@dataclass(frozen=True)
class PerExample(Extra):
    """Any number of entries, (m, …); a single number is one entry. A batch has the entries of all its examples in
    reading order: those of row 0, then those of row 1 …"""


@dataclass(frozen=True)
class TokenIndex(Extra):
    """Indices into the example's tokens, (m, …). A batch has indices into its flattened tokens, (rows · n)."""


@dataclass(frozen=True)
class PerToken(Extra):
    """One entry a token, (n,). A batch has (rows, n), with ``fill`` at padding and in examples without the field."""

    fill: float = 0


@dataclass(frozen=True)
class Example:
    """What a network reads and predicts. Labels of tokens are in the layout; an encoder–decoder also has a source.
    ``extra`` holds whatever else a loss or a part of the network needs, by name: ``Batch.extra`` has the same names."""

    layout: Layout  # (n,); an encoder–decoder's target
    source: Layout | None = None
    extra: Mapping[str, Extra] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """The number of entries of an extra field; 0 if the example has none."""
        return len(self.extra[name].tensor) if name in self.extra else 0

    @property
    def room(self) -> int:
        """The number of tokens that the example takes in a packed row."""
        return max(len(self.layout), 0 if self.source is None else len(self.source))
