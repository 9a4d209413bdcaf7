"""A Layout: tokens, and who among them may see whom.

A Layout is a set of equally long integer tensors with one entry a token, of shape (n,) for one sequence or (rows, n)
for a batch. Everything that distinguishes one language model's mask from another's is written in these fields, and
one function, ``sees``, turns them into visibility. Objectives make layouts, packing joins them, the network reads
them, decoders extend them; nothing else carries a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from masquerade.errors import LayoutError

IGNORE = -100  # the label of a token that predicts nothing
PADDING = -1  # the document of a token that is not there
FAR = 2**31 - 1  # the reach of a row that may look at any distance

Values = int | Sequence[int] | Tensor


class Kind(IntEnum):
    """What a token offers to those who look at it."""

    CONTENT = 0  # its word, to every row whose horizon has reached its rank
    PLACEHOLDER = 1  # its position alone, to every row whose horizon has not
    QUERY = 2  # nothing: it only looks
    PEER = 3  # itself, to the peers of its own rank


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """Tokens and their visibility; every field has the same shape, (n,) or (rows, n). Make one with ``Layout.of``."""

    ids: Tensor  # which token
    position: Tensor  # where it stands, for position embeddings and distances
    inner: Tensor  # GLM's second dimension: the place inside a blank, 0 outside of one
    segment: Tensor  # token type
    task: Tensor  # task type (ERNIE)
    document: Tensor  # which document of a packed row; PADDING for none
    branch: Tensor  # 0 is the trunk, seen by all branches; j > 0 is seen by branch j alone
    rank: Tensor  # when its content becomes known
    horizon: Tensor  # the latest rank its row may look at
    reach: Tensor  # how far its row may look, in positions either way
    kind: Tensor  # a Kind
    label: Tensor  # the id to predict here, or IGNORE

    @staticmethod
    def of(ids: Values, **given: Values) -> Layout:
        """A layout of ``ids``; a field not given has its plain value: positions 0, 1, 2 …, horizon equal to rank,
        everything else zero (one document, one trunk, all content, all known).

        An integer stands for a whole field. The layout lives where the ids do.
        """
        tokens = torch.as_tensor(ids, dtype=torch.long)
        if tokens.dim() not in (1, 2):
            raise LayoutError(f"A layout holds (n,) or (rows, n) tokens, but the ids have shape {tuple(tokens.shape)}.")
        values: dict[str, Values] = {"ids": tokens, "position": torch.arange(tokens.shape[-1]), **given}
        values.setdefault("horizon", values.get("rank", 0))
        _check_names(values)
        return Layout(*(_fitted(name, values.get(name, DEFAULTS.get(name, 0)), tokens) for name in FIELDS))

    @staticmethod
    def padded(ids: Tensor, attention_mask: Tensor | None = None, **given: Values) -> Layout:
        """A batch from padded tensors, as other libraries pass them: ids and mask of shape (rows, n).

        A masked token becomes a QUERY: it looks at the real tokens and nobody looks at it, which is what masking the
        keys of an attention means there, so even the outputs at padding agree. It is not padding in the sense of
        ``real`` and ``first``.
        """
        if attention_mask is not None:
            given["kind"] = torch.where(attention_mask > 0, int(Kind.CONTENT), int(Kind.QUERY))
        return Layout.of(ids, **given)

    def map(self, change: Callable[[Tensor], Tensor]) -> Layout:
        """The layout with ``change`` applied to every field."""
        return Layout(*(change(getattr(self, name)) for name in FIELDS))

    def replace(self, **changes: Values) -> Layout:
        """The layout with some fields replaced; an integer fills a field."""
        _check_names(changes)
        return replace(self, **{name: _fitted(name, value, self.ids) for name, value in changes.items()})

    def to(self, device: torch.device | str) -> Layout:
        """The layout on another device."""
        return self.map(lambda field: field.to(device))

    def __len__(self) -> int:
        """How many tokens a row has, padding included."""
        return self.ids.shape[-1]

    @property
    def rows(self) -> int:
        """How many rows the batch has; a single sequence counts as one."""
        return self.ids.shape[0] if self.ids.dim() == 2 else 1

    @property
    def real(self) -> Tensor:
        """Which tokens are not padding: bool, of the layout's shape."""
        return self.document != PADDING

    @property
    def first(self) -> Tensor:
        """Which tokens open a document, where sentence heads look: bool, of the layout's shape."""
        changes = self.document != self.document.roll(1, dims=-1)
        changes[..., :1] = True
        return changes & self.real

    def batched(self) -> Layout:
        """The layout as a batch: (n,) becomes (1, n), (rows, n) stays."""
        return self if self.ids.dim() == 2 else self.map(lambda field: field[None])

    def row(self, index: int) -> Layout:
        """One sequence of a batch, its trailing padding cut off."""
        single = self.batched().map(lambda field: field[index])
        places = single.real.nonzero()
        return single[: int(places.max()) + 1 if len(places) else 0]

    def __getitem__(self, tokens: int | slice | Tensor | Sequence[int]) -> Layout:
        """Some of the tokens, along the last dimension: one, a slice, or indices in a new order."""
        if isinstance(tokens, int):
            if not -len(self) <= tokens < len(self):
                raise IndexError(f"A layout of {len(self)} tokens has no token {tokens}.")
            tokens = [tokens]
        where = tokens if isinstance(tokens, slice) else torch.as_tensor(tokens, dtype=torch.long)
        return self.map(lambda field: field[..., where])

    def __repr__(self) -> str:
        counts = {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}
        held = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"Layout({self.rows} × {len(self)}: {held or 'empty'})"


FIELDS: tuple[str, ...] = tuple(field.name for field in fields(Layout))
DEFAULTS: dict[str, int] = {"reach": FAR, "label": IGNORE}  # what is not zero where nothing is said


def _check_names(given: Iterable[str]) -> None:
    for name in given:
        if name not in FIELDS:
            raise LayoutError(f"A layout has no field '{name}'; it has {', '.join(FIELDS)}.")


def _fitted(name: str, value: Values, tokens: Tensor) -> Tensor:
    """A field's value in the shape of the tokens, and where they are."""
    field = torch.as_tensor(value, dtype=torch.long, device=tokens.device)
    if field.dim() and (field.shape[-1] != tokens.shape[-1] or field.shape not in (tokens.shape, tokens.shape[-1:])):
        raise LayoutError(
            f"The field '{name}' has shape {tuple(field.shape)} for tokens of shape {tuple(tokens.shape)}; "
            "every field of a layout needs one entry a token."
        )
    return field.expand(tokens.shape)


def sees(q: Layout, k: Layout) -> Tensor:
    """THE RULE: may the row q look at the token k? The fields of q and k need only broadcast against each other.

    Within one document, a row sees the trunk and its own branch, no farther than it reaches; and there, content that
    is known by its horizon, placeholders of what is not, and, being a peer, the peers of its rank.
    """
    near = (q.document == k.document) & (k.document != PADDING) & ((k.branch == 0) | (k.branch == q.branch))
    near = near & ((q.position - k.position).abs() <= q.reach)
    known = k.rank <= q.horizon
    content = (k.kind == Kind.CONTENT) & known
    placeholder = (k.kind == Kind.PLACEHOLDER) & ~known
    peer = (k.kind == Kind.PEER) & (q.kind == Kind.PEER) & (k.rank == q.rank)
    return near & (content | placeholder | peer)


def visible(queries: Layout, keys: Layout | None = None) -> Tensor:
    """Who sees whom: bool (…, q, k). With two layouts, the rows of one against the tokens of the other (decoder rows
    against an encoder's tokens, new rows against cached ones)."""
    keys = queries if keys is None else keys
    return sees(queries.map(lambda field: field.unsqueeze(-1)), keys.map(lambda field: field.unsqueeze(-2)))


def all_visible(queries: Layout, keys: Layout) -> bool:
    """Does everybody see everybody, as can be told from the fields alone, without looking at every pair? What is true
    here is true by the rule; what is not may still be."""
    if not keys.ids.numel() or not queries.ids.numel():
        return False
    one = keys.document.flatten()[0]
    plain = (keys.document == one) & (one != PADDING) & (keys.branch == 0) & (keys.kind == Kind.CONTENT)
    free = (queries.document == one) & (queries.reach == FAR)
    return bool(plain.all() & free.all() & (keys.rank.amax() <= queries.horizon.amin()))


def bias(queries: Layout, keys: Layout | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Visibility as one additive attention mask, shared by all layers: (rows, 1, q, k), 0 where seen.

    Unseen is the lowest finite number and not −∞, so that a row which sees nothing gives a meaningless average
    instead of NaN (the network then puts zeros in its place).
    """
    keys = queries if keys is None else keys
    return additive(visible(queries.batched(), keys.batched()), dtype)


def additive(seen: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Visibility (rows, q, k) as an additive mask (rows, 1, q, k)."""
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, torch.finfo(dtype).min)
    return mask.unsqueeze(1)


def mask_mod(queries: Layout, keys: Layout | None = None) -> Callable[[Any, Any, Any, Any], Tensor]:
    """Visibility as the function that FlexAttention's ``create_block_mask`` takes: (row, head, q, k) → bool."""
    q_rows, k_rows = queries.batched(), (queries if keys is None else keys).batched()
    rows = max(q_rows.rows, k_rows.rows)
    q_rows, k_rows = (layout.map(lambda field: field.expand(rows, -1)) for layout in (q_rows, k_rows))

    def mod(row: Any, head: Any, q: Any, k: Any) -> Tensor:
        return sees(q_rows.map(lambda field: field[row, q]), k_rows.map(lambda field: field[row, k]))

    return mod


def join(layouts: Sequence[Layout]) -> Layout:
    """The tokens of several layouts behind one another, fields unchanged: how a decoder extends what it has laid out.
    Batches are joined row by row; a single sequence is repeated for every row of the others."""
    if not layouts:
        raise LayoutError("There is nothing to join: the list of layouts is empty.")
    rows = max(layout.rows for layout in layouts)
    if any(layout.rows not in (1, rows) for layout in layouts):
        raise LayoutError(f"Layouts of {sorted({layout.rows for layout in layouts})} rows cannot be joined row by row.")
    if any(layout.ids.dim() == 2 for layout in layouts):
        whole = (layout.batched() for layout in layouts)
        layouts = [each if each.rows == rows else each.map(lambda field: field.expand(rows, -1)) for each in whole]
    return Layout(*(torch.cat([getattr(layout, name) for layout in layouts], dim=-1) for name in FIELDS))


def pad(layout: Layout, length: int, pad_id: int = 0) -> Layout:
    """The layout with padding behind it up to ``length`` tokens; padding sees nothing and is seen by nobody."""
    missing = length - len(layout)
    if missing < 0:
        raise LayoutError(f"A layout of {len(layout)} tokens does not fit into {length}; cut it or allow more.")
    if not missing:
        return layout
    filler = torch.full((missing,), pad_id, device=layout.ids.device)
    return join([layout, Layout.of(filler, position=0, document=PADDING)])


def batch(layouts: Sequence[Layout], pad_id: int = 0) -> Layout:
    """Sequences of any lengths as the rows of one batch, (rows, longest)."""
    if not layouts:
        raise LayoutError("There is nothing to batch: the list of layouts is empty.")
    longest = max(len(layout) for layout in layouts)
    rows = [pad(layout.batched(), longest, pad_id) for layout in layouts]
    return Layout(*(torch.cat([getattr(row, name) for row in rows]) for name in FIELDS))
