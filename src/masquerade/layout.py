"""A Layout: tokens, and which of them may see which.

A Layout is one integer tensor of shape (fields, n) for a sequence or (fields, rows, n) for a batch. Its fields are
views of that tensor, with one entry a token. Everything that distinguishes one language model's attention mask from
another's is written in these fields, and one function, ``sees``, turns them into visibility. Objectives make layouts,
packing joins them, the network reads them, decoders extend them; nothing else carries a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from masquerade.errors import LayoutError

IGNORE = -100  # the label of a token that predicts nothing
PADDING = -1  # the document of a padding token
FAR = 2**31 - 1  # the reach of a row that sees tokens at any distance

Values = int | Sequence[int] | Tensor


class Kind(IntEnum):
    """What a token shows to the rows that may see it."""

    CONTENT = 0  # its embedding, to rows whose horizon has reached its rank
    PLACEHOLDER = 1  # its position only, to rows whose horizon has not reached its rank
    QUERY = 2  # nothing: no row sees it
    PEER = 3  # its embedding, to PEER rows of the same rank


# Plain integers: FlexAttention's tracing takes a comparison with a member of an enumeration to be false.
_CONTENT, _PLACEHOLDER, _PEER = int(Kind.CONTENT), int(Kind.PLACEHOLDER), int(Kind.PEER)


class Field:
    """One field of a layout, a view of shape (n,) or (rows, n)."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __get__(self, layout: Layout, owner: type[Layout]) -> Tensor:
        return layout.stacked[self.index]


FIELDS = (
    *("ids", "position", "inner", "segment", "task", "document"),
    *("branch", "rank", "horizon", "reach", "kind", "label"),
)
_INDEX = {name: index for index, name in enumerate(FIELDS)}
_DEFAULTS = torch.tensor([{"reach": FAR, "label": IGNORE}.get(name, 0) for name in FIELDS])
_PADDING = torch.tensor([{"reach": FAR, "label": IGNORE, "document": PADDING}.get(name, 0) for name in FIELDS])


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """Tokens and their visibility. Make one with ``Layout.of``, or with a constructor of ``masquerade.masks``."""

    stacked: Tensor  # (fields, n) or (fields, rows, n)

    ids = Field(0)  # token ids
    position = Field(1)  # for position embeddings and distances
    inner = Field(2)  # GLM's second dimension: the index inside a blank, 0 outside of one
    segment = Field(3)  # token type
    task = Field(4)  # task type (ERNIE)
    document = Field(5)  # the number of the document in a packed row; PADDING for padding
    branch = Field(6)  # 0 is the trunk, seen by all branches; j > 0 is seen by branch j only
    rank = Field(7)  # when the token's content becomes known
    horizon = Field(8)  # the latest rank that the token's row sees
    reach = Field(9)  # the greatest distance in positions, either way, that the token's row sees
    kind = Field(10)  # a Kind
    label = Field(11)  # the id to predict here, or IGNORE

    @staticmethod
    def of(ids: Values, **given: Values) -> Layout:
        """A layout of ``ids`` with the given fields. An integer fills a whole field.

        Defaults: positions 0, 1, 2 …, horizon equal to rank, reach FAR, label IGNORE, all others 0 (one document, one
        trunk, all content known). The layout is on the device of the ids.
        """
        tokens = torch.as_tensor(ids, dtype=torch.long)
        if tokens.dim() not in (1, 2):
            raise LayoutError(f"A layout holds (n,) or (rows, n) tokens, but the ids have shape {tuple(tokens.shape)}.")
        _check_names(given)
        stacked = _filled(_DEFAULTS, tokens.shape, tokens.device)
        stacked[0] = tokens
        if "position" not in given:
            stacked[1] = torch.arange(tokens.shape[-1], device=tokens.device)
        if "rank" in given:
            given.setdefault("horizon", given["rank"])
        for name, value in given.items():
            _assign(stacked, name, value)
        return Layout(stacked)

    @staticmethod
    def padded(ids: Tensor, attention_mask: Tensor | None = None, **given: Values) -> Layout:
        """A batch from padded tensors, as other libraries pass them: ids and mask of shape (rows, n).

        A masked token becomes a QUERY: its row sees the real tokens and no row sees it. That is what masking the keys
        of attention does in those libraries, so the outputs at padding agree too. It does not count as padding in
        ``real`` and ``first``.
        """
        if attention_mask is not None:
            given["kind"] = torch.where(attention_mask > 0, int(Kind.CONTENT), int(Kind.QUERY))
        return Layout.of(ids, **given)

    def replace(self, **changes: Values) -> Layout:
        """The layout with some fields replaced; an integer fills a field."""
        _check_names(changes)
        stacked = self.stacked.clone()
        for name, value in changes.items():
            _assign(stacked, name, value)
        return Layout(stacked)

    def to(self, device: torch.device | str) -> Layout:
        """The layout on another device."""
        return Layout(self.stacked.to(device))

    def __len__(self) -> int:
        """The number of tokens in a row, padding included."""
        return self.stacked.shape[-1]

    @property
    def shape(self) -> torch.Size:
        """The shape of every field: (n,) or (rows, n)."""
        return self.stacked.shape[1:]

    @property
    def rows(self) -> int:
        """The number of rows; 1 for a single sequence."""
        return self.stacked.shape[1] if self.stacked.dim() == 3 else 1

    @property
    def real(self) -> Tensor:
        """Which tokens are not padding: bool, of the layout's shape."""
        return self.document != PADDING

    @property
    def first(self) -> Tensor:
        """Which tokens open a document, where sentence heads read: bool, of the layout's shape."""
        changes = self.document != self.document.roll(1, dims=-1)
        changes[..., :1] = True
        return changes & self.real

    def batched(self) -> Layout:
        """The layout as a batch: (n,) becomes (1, n), (rows, n) stays."""
        return self if self.stacked.dim() == 3 else Layout(self.stacked.unsqueeze(1))

    def row(self, index: int) -> Layout:
        """One sequence of a batch without its trailing padding."""
        single = Layout(self.batched().stacked[:, index])
        indices = single.real.nonzero()
        return single[: int(indices.max()) + 1 if len(indices) else 0]

    def select(self, rows: Tensor) -> Layout:
        """These rows of a batch: indices (m,) in a new order, or bool (rows,)."""
        chosen = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows
        return Layout(self.stacked.index_select(1, chosen))  # several times as fast as stacked[:, rows]

    def take(self, index: Tensor) -> Layout:
        """Tokens by their flat indices into (rows · n); the result has the shape of ``index``."""
        return Layout(self.stacked.flatten(1).index_select(1, index.flatten()).view(len(self.stacked), *index.shape))

    def expand(self, rows: int) -> Layout:
        """A single row, or a sequence, repeated for each of ``rows`` rows."""
        return Layout(self.batched().stacked.expand(-1, rows, -1))

    def __getitem__(self, tokens: int | slice | Tensor | Sequence[int]) -> Layout:
        """Some of the tokens, along the last dimension: one, a slice, or indices in a new order."""
        if isinstance(tokens, slice):
            return Layout(self.stacked[..., tokens])
        if isinstance(tokens, int):
            if not -len(self) <= tokens < len(self):
                raise IndexError(f"A layout of {len(self)} tokens has no token {tokens}.")
            tokens = [tokens]
        chosen = torch.as_tensor(tokens, dtype=torch.long, device=self.stacked.device)
        return Layout(self.stacked.index_select(-1, torch.where(chosen < 0, chosen + len(self), chosen)))

    def __repr__(self) -> str:
        counts = {kind.name.lower(): int((self.kind == kind).sum()) for kind in Kind}
        listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"Layout({self.rows} × {len(self)}: {listed or 'empty'})"


def _check_names(given: Iterable[str]) -> None:
    for name in given:
        if name not in _INDEX:
            raise LayoutError(f"A layout has no field '{name}'; it has {', '.join(FIELDS)}.")


def _filled(values: Tensor, shape: Sequence[int], device: torch.device) -> Tensor:
    """One value a field, (fields,), as a new tensor (fields, *shape)."""
    return values.to(device).view(-1, *[1] * len(shape)).repeat(1, *shape)


def _assign(stacked: Tensor, name: str, value: Values) -> None:
    """Write a field's value, an integer or one entry a token, into the stacked tensor."""
    target = stacked[_INDEX[name]]
    if isinstance(value, int):
        target.fill_(value)
        return
    field = torch.as_tensor(value, dtype=torch.long, device=stacked.device)
    if field.dim() and (field.shape[-1] != target.shape[-1] or field.shape not in (target.shape, target.shape[-1:])):
        raise LayoutError(
            f"The field '{name}' has shape {tuple(field.shape)} for tokens of shape {tuple(target.shape)}; "
            "every field of a layout needs one entry a token."
        )
    target.copy_(field)


class Token(NamedTuple):
    """The fields of a layout that decide visibility. Compilers of FlexAttention cannot follow a whole layout."""

    position: Tensor
    document: Tensor
    branch: Tensor
    rank: Tensor
    horizon: Tensor
    reach: Tensor
    kind: Tensor


def sees(q: Layout | Token, k: Layout | Token) -> Tensor:
    """THE RULE: does row q see token k? Returns bool. The fields of q and k only need to broadcast against each other.

    A row sees tokens of its own document, on the trunk or its own branch, within its reach. Of these it sees CONTENT
    whose rank is at most its horizon, PLACEHOLDERs whose rank is above its horizon, and, if it is a PEER itself, PEERs
    of its own rank. No row sees a QUERY.
    """
    near = (q.document == k.document) & (k.document != PADDING) & ((k.branch == 0) | (k.branch == q.branch))
    near = near & ((q.position - k.position).abs() <= q.reach)
    known = k.rank <= q.horizon
    content = (k.kind == _CONTENT) & known
    placeholder = (k.kind == _PLACEHOLDER) & ~known
    peer = (k.kind == _PEER) & (q.kind == _PEER) & (k.rank == q.rank)
    return near & (content | placeholder | peer)


def visible(queries: Layout, keys: Layout | None = None) -> Tensor:
    """Which row sees which token: bool (…, q, k). With two layouts, the rows of the first against the tokens of the
    second (decoder rows against encoder tokens, new rows against cached tokens)."""
    keys = queries if keys is None else keys
    return sees(Layout(queries.stacked.unsqueeze(-1)), Layout(keys.stacked.unsqueeze(-2)))


def all_visible(queries: Layout, keys: Layout) -> bool:
    """Whether every row sees every token, as far as the fields tell without comparing all pairs: True is always right,
    False may be too careful."""
    if not keys.ids.numel() or not queries.ids.numel():
        return False
    one = keys.document.flatten()[0]
    plain = (keys.document == one) & (one != PADDING) & (keys.branch == 0) & (keys.kind == Kind.CONTENT)
    free = (queries.document == one) & (queries.reach == FAR)
    return bool(plain.all() & free.all() & (keys.rank.amax() <= queries.horizon.amin()))


def bias(queries: Layout, keys: Layout | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Visibility as one additive attention mask, shared by all layers: (rows, 1, q, k), 0 where seen.

    Unseen is the lowest finite number and not −∞: a row that sees no token then gives a meaningless mean instead of
    NaN, which the network replaces by zeros.
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
    q_fields, k_fields = ([getattr(each.expand(rows), name) for name in Token._fields] for each in (q_rows, k_rows))

    def mod(row: Any, head: Any, q: Any, k: Any) -> Tensor:
        return sees(Token(*[field[row, q] for field in q_fields]), Token(*[field[row, k] for field in k_fields]))

    return mod


def join(layouts: Sequence[Layout]) -> Layout:
    """Several layouts joined along the tokens, fields unchanged: how a decoder extends its layout. Batches are joined
    row by row; a single sequence is repeated for every row of the others."""
    if not layouts:
        raise LayoutError("There is nothing to join: the list of layouts is empty.")
    parts = [layout.stacked for layout in layouts]
    if any(part.dim() == 3 for part in parts):
        rows = max(layout.rows for layout in layouts)
        if any(layout.rows not in (1, rows) for layout in layouts):
            sizes = sorted({layout.rows for layout in layouts})
            raise LayoutError(f"Layouts of {sizes} rows cannot be joined row by row.")
        parts = [layout.expand(rows).stacked for layout in layouts]
    return Layout(torch.cat(parts, dim=-1))


def pad(layout: Layout, length: int, pad_id: int = 0) -> Layout:
    """The layout with padding behind it up to ``length`` tokens; padding sees no token and no row sees it."""
    missing = length - len(layout)
    if missing < 0:
        raise LayoutError(f"A layout of {len(layout)} tokens does not fit into {length}; cut it or allow more.")
    if not missing:
        return layout
    filler = _filled(_PADDING, (*layout.shape[:-1], missing), layout.stacked.device)
    filler[0] = pad_id
    return Layout(torch.cat([layout.stacked, filler], dim=-1))


def batch(layouts: Sequence[Layout], pad_id: int = 0) -> Layout:
    """Sequences of any lengths as the rows of one batch, (rows, longest)."""
    if not layouts:
        raise LayoutError("There is nothing to batch: the list of layouts is empty.")
    parts = [layout.batched().stacked for layout in layouts]
    shape = (sum(part.shape[1] for part in parts), max(part.shape[2] for part in parts))
    whole = _filled(_PADDING, shape, parts[0].device)
    whole[0] = pad_id
    row = 0
    for part in parts:
        whole[:, row : row + part.shape[1], : part.shape[2]] = part
        row += part.shape[1]
    return Layout(whole)
