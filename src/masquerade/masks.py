"""The published masks, one constructor each.

Every function returns the layout of one language model of the literature: it sets when each token becomes known (rank),
the latest rank each row sees (horizon) and what each token shows (kind). The rule in ``layout`` does the rest. Ids are
lists or tensors of one sequence; the ids of tokens that a constructor adds are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import FAR, IGNORE, PADDING, Kind, Layout, join

Ids = Sequence[int] | Tensor

APART = 2**20  # the rank of a passage that its questions do not see before the fork, above that of any generated token


def bidirectional(ids: Ids, segment: int | Sequence[int] | Tensor = 0) -> Layout:
    """BERT: every token sees every token."""
    return Layout.of(_ids(ids), segment=segment)


def causal(ids: Ids) -> Layout:
    """GPT: each token sees itself and the tokens before it."""
    tokens = _ids(ids)
    return Layout.of(tokens, rank=torch.arange(len(tokens)))


def backward(ids: Ids) -> Layout:
    """The reversed language model: each token sees itself and the tokens after it."""
    tokens = _ids(ids)
    return Layout.of(tokens, rank=len(tokens) - torch.arange(len(tokens)))


def permuted(ids: Ids, order: Ids) -> Layout:
    """A language model in any order: each token sees itself and the tokens before it in ``order``.

    ``order[j]`` is the index of the token that becomes known j-th. Tokens keep their places and positions; the hidden
    states are those of the reordered tokens, with the same positions, under ``causal``.
    """
    tokens = _ids(ids)
    return Layout.of(tokens, rank=_places(order, len(tokens)))


def prefix(source: Ids, target: Ids) -> Layout:
    """UniLM's sequence-to-sequence with a single network: the source sees all of the source; the target sees the
    source and, token by token, its own past. Source is segment 0, target segment 1."""
    head, tail = _ids(source), _ids(target)
    steps = torch.cat([torch.zeros(len(head), dtype=torch.long), 1 + torch.arange(len(tail))])
    return Layout.of(torch.cat([head, tail]), rank=steps, segment=steps.clamp(max=1))


def infill(context: Ids, spans: Sequence[tuple[int, Ids]]) -> Layout:
    """GLM: the context sees itself; each blank is then filled token by token, and its tokens see the context, earlier
    blanks and the tokens before them.

    ``context`` has one mask token for each blank. A span is (index of its mask in the context, input ids: the start
    token and the tokens); spans come in the order in which they are filled. A token's position is that of its mask and
    ``inner`` counts 1, 2, 3 … inside the blank, so the input does not tell the length of a blank.
    """
    trunk = Layout.of(_ids(context))
    parts, written = [trunk], 0
    for place, ids in spans:
        if not 0 <= place < len(trunk):
            raise LayoutError(f"A blank at index {place} is outside of its context of {len(trunk)} tokens.")
        tokens = _ids(ids)
        inner = 1 + torch.arange(len(tokens))
        parts.append(Layout.of(tokens, position=place, inner=inner, rank=written + inner))
        written += len(tokens)
    return join(parts)


def two_stream(ids: Ids, order: Ids, *, mask: int, predict: int | None = None) -> Layout:
    """XLNet: the content of ``permuted``, and after it a QUERY for each token to predict, which has that token's
    position and sees the tokens before it in the order, not the token itself.

    ``predict`` is the number of tokens at the end of the order that are predicted; all if not given.
    """
    content = permuted(ids, order)
    chosen = _last(order, len(content), predict)
    return join([content, _queries(content, chosen, mask)])


def compensated(ids: Ids, order: Ids, *, known: int, mask: int) -> Layout:
    """MPNet: the first ``known`` tokens of the order see each other; the others become known one by one and are
    predicted by queries as in ``two_stream``. Every token that is not yet known is replaced by a PLACEHOLDER, so each
    row sees all positions of the sentence (position compensation).
    """
    tokens = _ids(ids)
    if not 0 <= known <= len(tokens):
        raise LayoutError(f"{known} of {len(tokens)} tokens cannot be known; give a number from 0 to {len(tokens)}.")
    rank = (_places(order, len(tokens)) - known + 1).clamp(min=0)
    content = Layout.of(tokens, rank=rank)
    chosen = _last(order, len(tokens), len(tokens) - known)
    absent = content[chosen].replace(ids=mask, horizon=0, kind=Kind.PLACEHOLDER)
    return join([content, absent, _queries(content, chosen, mask)])


def pseudo(ids: Ids, spans: Sequence[Ids], *, mask: int, pseudo_mask: int | None = None) -> Layout:
    """UniLMv2: the sentence with its spans masked, seen by all tokens, which predicts the spans as BERT does. After it
    come, for each span, its tokens, which see the spans up to their own, and pseudo-masks: PEERs that see earlier spans
    and each other, and predict the same tokens span by span.

    ``spans`` are lists of indices into ``ids``, in the order in which they are predicted.
    """
    tokens = _ids(ids)
    chosen = [_ids(span) for span in spans]
    masked = torch.cat([*chosen, torch.zeros(0, dtype=torch.long)])
    if any(not 0 <= index < len(tokens) for index in masked.tolist()):
        raise LayoutError(f"A span has an index outside of the {len(tokens)} tokens; count them from 0.")
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
    """Block diffusion: clean blocks see themselves and the blocks before them. After them come the noisy tokens, PEERs
    that see the clean blocks before their own and each other. Size 1 is GPT, size n is masked diffusion.

    ``noisy`` are the ids to denoise; a noisy token that differs from the clean one has it as its label.
    """
    clean, corrupted = _ids(ids), _ids(noisy)
    if size < 1:
        raise LayoutError(f"A block cannot have {size} tokens; give a size of at least 1.")
    if len(clean) != len(corrupted):
        raise LayoutError(f"{len(corrupted)} noisy tokens do not match {len(clean)} clean ones; give one for each.")
    block = torch.arange(len(clean)) // size
    label = torch.where(corrupted == clean, IGNORE, clean)
    peers = Layout.of(corrupted, rank=block, horizon=block - 1, kind=Kind.PEER, label=label)
    return join([Layout.of(clean, rank=block), peers])


def masked_answer(question: Ids, passage: Ids, length: int, *, cls: int, sep: int, mask: int) -> Layout:
    """The parallel reader: [CLS] [MASK]×length [SEP] question [SEP] passage [SEP]; every token sees every token. The
    masks are the slots of the answer, and mask i is always at position i."""
    end = torch.tensor([sep])
    return Layout.of(torch.cat([_with_slots(question, length, cls, sep, mask), _ids(passage), end]))


def shared_passage(
    passage: Ids,
    questions: Sequence[Ids],
    length: int,
    *,
    cls: int,
    sep: int,
    mask: int,
    start: int | None = None,
    apart: bool = False,
    segment: int = 0,
) -> Layout:
    """One encoding of a passage for any number of questions: the passage is the trunk and sees only itself; each
    question with its answer masks is a branch that sees the passage and itself. With ``apart`` it sees only itself, so
    that a question is encoded once for any number of passages; they meet after the fork. ``segment`` is the token type
    of the passage.

    A branch is laid out as in ``masked_answer``. The passage's positions begin at ``start``, after the longest branch;
    if not given, right after it. Give it where a passage is encoded before its questions are known.
    """
    branches = [_with_slots(question, length, cls, sep, mask) for question in questions]
    longest = max((len(tokens) for tokens in branches), default=0)
    begin = longest if start is None else start
    if begin < longest:
        raise LayoutError(f"A passage at position {begin} overlaps a question of {longest} tokens; start later.")
    text = torch.cat([_ids(passage), torch.tensor([sep])])
    trunk = Layout.of(text, position=begin + torch.arange(len(text)), rank=APART if apart else 0, segment=segment)
    return join([trunk, *(Layout.of(tokens, branch=j, rank=1) for j, tokens in enumerate(branches, start=1))])


def opened(layout: Layout) -> Layout:
    """The layout of a shared passage after the fork: ranks 0 and 1, the passage and its question with its masks, become
    one, so that the passage sees its question; generated tokens follow. For rows with one branch a document, such as
    ``forked`` makes."""
    rank, horizon = (torch.where(each == APART, 0, (each - 1).clamp(min=0)) for each in (layout.rank, layout.horizon))
    return layout.replace(branch=0, rank=rank, horizon=horizon)


def forked(layout: Layout) -> tuple[Layout, Tensor | None]:
    """A shared passage copied to its questions: every branch becomes a row, followed by its own copy of the trunk, laid
    out as in ``masked_answer``. Returns the rows, and the origin of their tokens: indices (branches, longest) into
    the flattened (rows · n) tokens. Rows without branches, or that begin with their only one, as those of a decoder
    do, stay as they are, and the indices are None."""
    whole = layout.batched()
    if len(whole) and bool((whole.branch[:, 0] == 1).all()) and int(whole.branch.max()) == 1:
        return opened(whole), None
    row = torch.arange(whole.rows, device=whole.ids.device)[:, None].expand_as(whole.ids)
    document = row * (int(whole.document.max()) + 2) + whole.document
    branched = whole.real & (whole.branch > 0)
    groups = torch.unique(
        torch.stack([document[branched], whole.branch[branched]], dim=-1), dim=0
    )  # (branches, 2), in order
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
    """Several sequences in one row without padding; none of them sees another."""
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
        raise LayoutError(f"A window of {width} positions is impossible; give 0 (only itself) or more.")
    return layout.replace(reach=layout.reach.clamp(max=width))


def with_memory(layout: Layout, n: int, ids: Ids | None = None) -> Layout:
    """Transformer-XL: ``n`` tokens of the previous segment, which every row sees and which see only each other, at
    positions before the layout's first. Their ``ids`` may be given; only their cached states matter."""
    document = layout.document[..., :1]
    if len(layout) == 0 or bool((layout.real & (layout.document != document)).any()):
        raise LayoutError("A memory needs one document a row, but this layout is empty or packed.")
    if n < 0 or (ids is not None and len(ids) != n):
        raise LayoutError(f"A memory of {n} tokens needs {n} ids, if any, and cannot be negative.")
    if bool((layout.kind == Kind.PLACEHOLDER).any()):
        raise LayoutError("A memory cannot go with placeholders, since its tokens would have to see them.")
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
    """The index of each token in the order: the inverse permutation, (n,)."""
    chosen = _ids(order)
    if sorted(chosen.tolist()) != list(range(n)):
        raise LayoutError(f"An order of {n} tokens has to contain each of 0 … {n - 1} once.")
    return chosen.argsort()


def _last(order: Ids, n: int, count: int | None) -> Tensor:
    """The indices of the last ``count`` tokens of the order; all for None."""
    count = n if count is None else count
    if not 0 <= count <= n:
        raise LayoutError(f"{count} of {n} tokens cannot be predicted; give a number from 0 to {n}.")
    return _ids(order)[n - count :]


def _queries(content: Layout, chosen: Tensor, mask: int) -> Layout:
    """A QUERY for each chosen token of the content: at its position, it sees earlier ranks and predicts the token."""
    targets = content[chosen]
    return targets.replace(ids=mask, horizon=targets.rank - 1, kind=Kind.QUERY, label=targets.ids)


def _with_slots(question: Ids, length: int, cls: int, sep: int, mask: int) -> Tensor:
    """The ids of a question with the slots of its answer: [CLS] [MASK]×length [SEP] question [SEP]."""
    if length < 1:
        raise LayoutError(f"An answer cannot have {length} slots; give at least one.")
    slots = torch.full((length,), mask)
    return torch.cat([torch.tensor([cls]), slots, torch.tensor([sep]), _ids(question), torch.tensor([sep])])
