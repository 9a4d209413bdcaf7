"""The published masks, one constructor each.

Every function lays tokens out as one language model of the literature wants them: it says when each token becomes
known (rank), how far each row may look ahead (horizon) and what each token offers (kind). The rule in ``layout`` does
the rest. Ids are lists or tensors of one sequence; where a constructor adds tokens of its own, the id to use is named.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import FAR, IGNORE, PADDING, Kind, Layout, join

Ids = Sequence[int] | Tensor


def bidirectional(ids: Ids, segment: int | Sequence[int] | Tensor = 0) -> Layout:
    """BERT and its kin: everybody sees everybody."""
    return Layout.of(_ids(ids), segment=segment)


def causal(ids: Ids) -> Layout:
    """GPT: each token sees itself and what stands before it."""
    tokens = _ids(ids)
    return Layout.of(tokens, rank=torch.arange(len(tokens)))


def backward(ids: Ids) -> Layout:
    """The reversed language model: each token sees itself and what stands behind it."""
    tokens = _ids(ids)
    return Layout.of(tokens, rank=len(tokens) - torch.arange(len(tokens)))


def permuted(ids: Ids, order: Ids) -> Layout:
    """A language model in any order: each token sees itself and what comes before it in ``order``.

    ``order[j]`` is the index of the token that becomes known j-th. Tokens stay where they are; the same hidden states
    come from reordering them under ``causal`` with their positions kept.
    """
    tokens = _ids(ids)
    return Layout.of(tokens, rank=_places(order, len(tokens)))


def prefix(source: Ids, target: Ids) -> Layout:
    """UniLM's sequence-to-sequence with a single network: the source sees all of the source; the target sees the
    source and, word by word, its own past. Source is segment 0, target segment 1."""
    head, tail = _ids(source), _ids(target)
    steps = torch.cat([torch.zeros(len(head), dtype=torch.long), 1 + torch.arange(len(tail))])
    return Layout.of(torch.cat([head, tail]), rank=steps, segment=steps.clamp(max=1))


def infill(context: Ids, spans: Sequence[tuple[int, Ids]]) -> Layout:
    """GLM: the context sees itself; each blank is then written word by word, seeing the context, the blanks written
    before it and its own past.

    ``context`` has one mask token for each blank. A span is (index of its mask in the context, input ids: the start
    token and the words); spans come in the order in which they are written. A word's position is that of its mask and
    ``inner`` counts 1, 2, 3 … inside the blank, so the model is not told how long a blank is.
    """
    trunk = Layout.of(_ids(context))
    parts, written = [trunk], 0
    for place, ids in spans:
        if not 0 <= place < len(trunk):
            raise LayoutError(f"A blank at index {place} lies outside of its context of {len(trunk)} tokens.")
        tokens = _ids(ids)
        inner = 1 + torch.arange(len(tokens))
        parts.append(Layout.of(tokens, position=place, inner=inner, rank=written + inner))
        written += len(tokens)
    return join(parts)


def two_stream(ids: Ids, order: Ids, *, mask: int, predict: int | None = None) -> Layout:
    """XLNet: the content of ``permuted``, and behind it a QUERY for each token to predict, which stands at that
    token's position and sees what is known before it, never the token itself.

    ``predict`` is how many tokens, from the end of the order, are predicted (all of them if not given).
    """
    content = permuted(ids, order)
    chosen = _last(order, len(content), predict)
    return join([content, _asking(content, chosen, mask)])


def compensated(ids: Ids, order: Ids, *, known: int, mask: int) -> Layout:
    """MPNet: the first ``known`` tokens of the order see each other; the others become known one by one and are
    predicted by queries as in ``two_stream``. PLACEHOLDERs stand in for every token not yet known, so each row sees
    as many positions as the sentence has (position compensation).
    """
    tokens = _ids(ids)
    if not 0 <= known <= len(tokens):
        raise LayoutError(f"{known} of {len(tokens)} tokens cannot be known; give a number from 0 to {len(tokens)}.")
    rank = (_places(order, len(tokens)) - known + 1).clamp(min=0)
    content = Layout.of(tokens, rank=rank)
    chosen = _last(order, len(tokens), len(tokens) - known)
    absent = content[chosen].replace(ids=mask, horizon=0, kind=Kind.PLACEHOLDER)
    return join([content, absent, _asking(content, chosen, mask)])


def pseudo(ids: Ids, spans: Sequence[Ids], *, mask: int, pseudo_mask: int | None = None) -> Layout:
    """UniLMv2: the sentence with its spans masked, seen by all (and predicting them as BERT does); behind it, span
    after span, the true words, which see the spans up to their own, and pseudo-masks, PEERs that see the spans before
    their own and each other, and predict the same words one span at a time.

    ``spans`` are lists of indices into ``ids``, in the order in which they are predicted.
    """
    tokens = _ids(ids)
    chosen = [_ids(span) for span in spans]
    masked = torch.cat([*chosen, torch.zeros(0, dtype=torch.long)])
    if any(not 0 <= index < len(tokens) for index in masked.tolist()):
        raise LayoutError(f"A span names a token outside of the {len(tokens)} there are; count them from 0.")
    if len(set(masked.tolist())) != len(masked):
        raise LayoutError("The spans of a pseudo-masked layout overlap; each token can be predicted in one span only.")
    shown, label = tokens.clone(), torch.full_like(tokens, IGNORE)
    shown[masked], label[masked] = mask, tokens[masked]
    parts = [Layout.of(shown, label=label)]
    for step, span in enumerate(chosen, start=1):
        words = Layout.of(tokens[span], position=span, rank=step)
        parts.append(words)
        peers = words.replace(ids=mask if pseudo_mask is None else pseudo_mask, label=words.ids, kind=Kind.PEER)
        parts.append(peers.replace(horizon=step - 1))
    return join(parts)


def blocks(ids: Ids, size: int, *, noisy: Ids) -> Layout:
    """Block diffusion: clean blocks see themselves and the blocks before them; behind them stand the same tokens made
    noisy, PEERs that see the clean blocks before their own and each other. Size 1 is GPT, size n is masked diffusion.

    ``noisy`` are the ids to denoise; a noisy token that differs from the clean one is labelled with it.
    """
    clean, corrupted = _ids(ids), _ids(noisy)
    if size < 1:
        raise LayoutError(f"Blocks of {size} tokens do not exist; the smallest block is one token.")
    if len(clean) != len(corrupted):
        raise LayoutError(f"{len(corrupted)} noisy tokens do not match {len(clean)} clean ones; give one for each.")
    block = torch.arange(len(clean)) // size
    label = torch.where(corrupted == clean, IGNORE, clean)
    peers = Layout.of(corrupted, rank=block, horizon=block - 1, kind=Kind.PEER, label=label)
    return join([Layout.of(clean, rank=block), peers])


def masked_answer(question: Ids, passage: Ids, length: int, *, cls: int, sep: int, mask: int) -> Layout:
    """The parallel reader: [CLS] [MASK]×length [SEP] question [SEP] passage [SEP], everybody sees everybody, and the
    masks are the answer. Mask i always stands at position i, so a slot knows which slot it is."""
    end = torch.tensor([sep])
    return Layout.of(torch.cat([_asked(question, length, cls, sep, mask), _ids(passage), end]))


def shared_passage(
    passage: Ids, questions: Sequence[Ids], length: int, *, cls: int, sep: int, mask: int, start: int | None = None
) -> Layout:
    """One encoding of a passage for any number of questions: the passage on the trunk sees itself alone; each
    question with its answer masks is a branch that sees the passage and itself.

    A branch is laid out as in ``masked_answer``. The passage's positions begin at ``start``, which must lie behind
    the longest branch (and does if not given); give it where a passage is encoded before its questions are known.
    """
    asked = [_asked(question, length, cls, sep, mask) for question in questions]
    longest = max((len(tokens) for tokens in asked), default=0)
    begin = longest if start is None else start
    if begin < longest:
        raise LayoutError(f"A passage from position {begin} on runs into a question of {longest} tokens; start later.")
    text = torch.cat([_ids(passage), torch.tensor([sep])])
    trunk = Layout.of(text, position=begin + torch.arange(len(text)))
    return join([trunk, *(Layout.of(tokens, branch=j, rank=1) for j, tokens in enumerate(asked, start=1))])


def opened(layout: Layout) -> Layout:
    """A shared passage from where it is shared no more: what is known by rank 1, the passage and a question with its
    masks, is all known from the start, so that the passage sees its question too; what is written is known after it.
    For rows with one branch a document; ``forked`` makes such rows of others."""
    return layout.replace(branch=0, rank=(layout.rank - 1).clamp(min=0), horizon=(layout.horizon - 1).clamp(min=0))


def forked(layout: Layout) -> tuple[Layout, Tensor | None]:
    """A shared passage taken apart: every branch becomes a row of its own, with a copy of its trunk behind it, laid out
    as ``masked_answer`` is. Gives the rows, and where their tokens come from: indices (branches, longest) into the
    flattened (rows · n) tokens. Where there are no branches nothing is copied, and there are no indices."""
    whole = layout.batched()
    row = torch.arange(whole.rows, device=whole.ids.device)[:, None].expand_as(whole.ids)
    document = row * (int(whole.document.max()) + 2) + whole.document
    asks = whole.real & (whole.branch > 0)
    groups = torch.unique(torch.stack([document[asks], whole.branch[asks]], dim=-1), dim=0)  # (branches, 2), in order
    if not len(groups):
        return opened(whole), None
    own, trunk = groups[:, 1:] == whole.branch.flatten(), whole.branch.flatten() == 0
    member = (groups[:, :1] == document.flatten()) & (own | trunk) & whole.real.flatten()  # (branches, rows · n)
    place = torch.arange(trunk.numel(), device=trunk.device) + trunk.numel() * trunk  # the branch, then its trunk
    counts = member.sum(-1)
    index = place.where(member, 2 * trunk.numel()).argsort(dim=-1)[:, : int(counts.max())]
    there = torch.arange(index.shape[1], device=index.device) < counts[:, None]
    index = index * there
    rows = opened(whole.take(index)).replace(document=torch.where(there, 0, PADDING))
    return rows.replace(position=rows.position * there, label=torch.where(there, rows.label, IGNORE)), index


def pack(layouts: Sequence[Layout]) -> Layout:
    """Several sequences in one row with no padding between them; none of them sees another."""
    taken, parts = 0, []
    for layout in layouts:
        if layout.ids.dim() != 1:
            raise LayoutError(f"Only single sequences can be packed, but one of the layouts has {layout.rows} rows.")
        parts.append(layout.replace(document=torch.where(layout.real, layout.document + taken, PADDING)))
        taken += int(layout.document.max()) + 1 if len(layout) else 0
    return join(parts)


def window(layout: Layout, width: int) -> Layout:
    """Local attention: every row of ``layout`` sees at most ``width`` positions to either side."""
    if width < 0:
        raise LayoutError(f"A window of {width} positions sees nothing; give 0 (itself alone) or more.")
    return layout.replace(reach=layout.reach.clamp(max=width))


def with_memory(layout: Layout, n: int, ids: Ids | None = None) -> Layout:
    """Transformer-XL: ``n`` tokens of the segment before, which every row sees and which see only each other, placed
    before the layout's first position. ``ids`` names them where they are known; only their cached states matter."""
    document = layout.document[..., :1]
    if len(layout) == 0 or bool((layout.real & (layout.document != document)).any()):
        raise LayoutError("A memory goes before one document a row; this layout is empty or packed.")
    if n < 0 or (ids is not None and len(ids) != n):
        raise LayoutError(f"A memory of {n} tokens needs {n} ids, if any, and cannot be negative.")
    if bool((layout.kind == Kind.PLACEHOLDER).any()):
        raise LayoutError("A memory cannot stand before placeholders: what it computed would have to see them.")
    first = layout.position.where(layout.real, FAR).amin(dim=-1, keepdim=True)
    memory = Layout.of(
        torch.zeros(n, dtype=torch.long) if ids is None else _ids(ids),
        position=torch.arange(-n, 0),
        rank=int(torch.minimum(layout.rank, layout.horizon).min()) - 1,
    ).to(layout.ids.device)
    memory = memory.expand(layout.rows) if layout.ids.dim() == 2 else memory
    return join([memory.replace(position=memory.position + first, document=document.expand_as(memory.ids)), layout])


def _ids(ids: Ids) -> Tensor:
    """Ids as an integer tensor of shape (n,). Layouts are made on the CPU, and moved as a whole."""
    tokens = torch.as_tensor(ids, dtype=torch.long).cpu()
    if tokens.dim() != 1:
        raise LayoutError(f"A mask is made for one sequence of ids, but these have shape {tuple(tokens.shape)}.")
    return tokens


def _places(order: Ids, n: int) -> Tensor:
    """The place of each token in the order: the inverse permutation, (n,)."""
    chosen = _ids(order)
    if sorted(chosen.tolist()) != list(range(n)):
        raise LayoutError(f"An order of {n} tokens has to name each of 0 … {n - 1} once.")
    return chosen.argsort()


def _last(order: Ids, n: int, count: int | None) -> Tensor:
    """The indices of the last ``count`` tokens of the order, all of them for None."""
    count = n if count is None else count
    if not 0 <= count <= n:
        raise LayoutError(f"{count} of {n} tokens cannot be predicted; give a number from 0 to {n}.")
    return _ids(order)[n - count :]


def _asking(content: Layout, chosen: Tensor, mask: int) -> Layout:
    """A QUERY for each chosen token of the content: it stands there, knows what came before, and predicts it."""
    asked = content[chosen]
    return asked.replace(ids=mask, horizon=asked.rank - 1, kind=Kind.QUERY, label=asked.ids)


def _asked(question: Ids, length: int, cls: int, sep: int, mask: int) -> Tensor:
    """[CLS] [MASK]×length [SEP] question [SEP]: what a reader is asked, before or beside the passage."""
    if length < 1:
        raise LayoutError(f"An answer of {length} tokens cannot be read; allow at least one [MASK].")
    slots = torch.full((length,), mask)
    return torch.cat([torch.tensor([cls]), slots, torch.tensor([sep]), _ids(question), torch.tensor([sep])])
