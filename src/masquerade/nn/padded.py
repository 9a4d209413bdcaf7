"""Padded tensors, as the reference library takes them: input_ids, attention_mask and the rest become a Layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import Kind, Layout, join, visible
from masquerade.nn.heads import SENTENCE
from masquerade.nn.spec import DISTANCES, Spec

if TYPE_CHECKING:
    from masquerade.nn.model import Model


def logits(
    model: Model,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    decoder_input_ids: Tensor | None = None,
    decoder_attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    task_type_ids: Tensor | None = None,
    perm_mask: Tensor | None = None,
    target_mapping: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The logits that the reference library's model of this architecture returns for padded tensors, each (rows, n):
    a tensor, or a tuple where it returns several (start and end; tokens and sentence pair).

    Encoder–decoders take ``decoder_input_ids`` (rows, m). XLNet takes ``perm_mask`` (rows, n, n) and
    ``target_mapping`` (rows, m, n), and returns logits at the m targets.
    """
    spec = model.spec
    if not spec.outputs:
        raise MasqueradeError("This model has no head and so no logits; use hidden(layout) for its hidden states.")
    if not input_ids.numel():
        raise LayoutError(f"input_ids of shape {tuple(input_ids.shape)} hold no token; give at least one a row.")
    given: dict[str, Tensor] = {}
    if token_type_ids is not None and (spec.segments or spec.segment_relation):
        given["segment"] = token_type_ids
    elif token_type_ids is not None and spec.mask == "causal":  # the reference's GPT-2 adds embeddings of tokens
        raise LayoutError("This model has no token types; leave out token_type_ids.")
    if task_type_ids is not None:
        given["task"] = task_type_ids
    if position_ids is not None:
        if set(DISTANCES) & set(spec.positions):  # the reference counts distances by place, whatever the positions
            raise LayoutError("This model's attention depends on distances; give other positions in a Layout instead.")
        given["position"] = position_ids - spec.position_offset
    layout = padded_layout(spec, input_ids, attention_mask, **given)
    if perm_mask is not None:
        layout = permutation_layout(layout, perm_mask, target_mapping)
    if spec.decoder is None:
        states = model.hidden(layout)
    elif decoder_input_ids is None:
        raise MasqueradeError("This model is an encoder–decoder; give it decoder_input_ids as well.")
    else:
        states = model.hidden(padded_layout(spec.decoder, decoder_input_ids, decoder_attention_mask), source=layout)
    if target_mapping is not None:
        states = states[:, input_ids.shape[1] :]
    results: list[Tensor] = []
    for name in spec.outputs:
        scores = model.head(name, states[:, 0] if name in SENTENCE else states)
        results += scores.unbind(-1) if name in ("span", "detect") else [scores]
    return results[0] if len(results) == 1 else tuple(results)


def padded_layout(spec: Spec, ids: Tensor, mask: Tensor | None, **fields: Tensor) -> Layout:
    """The layout of padded ids (rows, n) and their attention mask, with the mask and positions that the spec names."""
    if spec.skip_padding and "position" not in fields:
        real = ids != spec.pad
        fields["position"] = torch.where(real, real.cumsum(-1), 0) - 1
    if spec.mask == "causal":
        fields["rank"] = torch.arange(ids.shape[-1], device=ids.device)
    return Layout.padded(ids, mask, **fields)


def permutation_layout(layout: Layout, perm_mask: Tensor, target_mapping: Tensor | None = None) -> Layout:
    """XLNet's two streams from the tensors of its reference implementation: a batch of content (rows, n);
    ``perm_mask`` (rows, n, n), 1 where a row may not see a token; ``target_mapping`` (rows, m, n), one row a query, 1
    at the token that it predicts. The mask has to be that of an order of tokens, or of groups of tokens.
    """
    hidden, itself = perm_mask > 0, torch.eye(len(layout), dtype=torch.bool, device=layout.ids.device)
    rank = (hidden & ~itself).sum(1)  # the later a token is known, the more rows do not see it

    def horizon(sees: Tensor) -> Tensor:
        return rank.unsqueeze(1).masked_fill(~sees, -1).amax(-1)

    expected = ~hidden | itself
    content = layout.replace(rank=rank, horizon=horizon(expected))
    parts = [content]
    if target_mapping is not None:
        token = target_mapping.argmax(-1)  # (rows, m)
        before = horizon(~hidden).gather(1, token)
        query = Layout(layout.stacked.gather(2, token.expand(len(layout.stacked), -1, -1)))
        parts.append(query.replace(rank=0, horizon=before, kind=Kind.QUERY, label=query.ids))
        expected = torch.cat([expected, (~hidden).gather(1, token.unsqueeze(-1).expand(-1, -1, len(layout)))], dim=1)
    whole = join(parts)
    if not torch.equal(visible(whole, content.replace(kind=Kind.CONTENT)), expected):
        raise LayoutError("This perm_mask is not that of an order: tokens have to become known group after group.")
    return whole
