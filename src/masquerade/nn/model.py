"""The network, assembled: embeddings, stack, heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from masquerade.errors import MasqueradeError
from masquerade.layout import Layout
from masquerade.nn.cache import Cache
from masquerade.nn.embeddings import Embeddings
from masquerade.nn.heads import MAKERS, SENTENCE, Boundary, Dense
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Stack
from masquerade.text.tokenizer import Tokenizer


class Model(nn.Module):
    """One network that reads layouts. ``tokenizer`` and ``config`` (the published configuration it came with, so that
    nothing of it is lost on saving) travel along where a checkpoint has them."""

    def __init__(self, spec: Spec, tokenizer: Tokenizer | None = None, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.spec, self.tokenizer, self.config = spec, tokenizer, config or {}
        self.embeddings = Embeddings(spec)
        self.stack = Stack(spec)
        self.pooler = Dense(spec) if spec.pooler else None
        self.heads = nn.ModuleDict({name: MAKERS[name](spec) for name in spec.all_heads})
        self.dropout = nn.Dropout(spec.dropout)
        self.apply(self._initialise)

    @property
    def device(self) -> torch.device:
        """Where the weights are; layouts have to be there too."""
        return self.embeddings.token.weight.device

    def hidden(self, layout: Layout, cache: Cache | None = None) -> Tensor:
        """The last hidden states, (rows, n, width). With a cache, the layout's rows see the tokens in it too."""
        layout = layout.batched()
        states: Tensor = self.stack(self.embeddings(layout), layout, cache)
        return states

    def scores(self, layout: Layout, head: str = "lm", at: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """What a head says of a layout: (m, scores) for the m tokens where ``at`` (bool, the layout's shape) is true.

        Without ``at``, sentence heads speak of the first token of each document and other heads of every token,
        (rows, n, scores).
        """
        if at is None and head in SENTENCE:
            at = layout.first
        states = self.hidden(layout, cache)
        return self.head(head, states if at is None else states[at.reshape(states.shape[:2])])

    def head(self, name: str, states: Tensor) -> Tensor:
        """One head over hidden states wherever they come from: (…, width) → (…, scores)."""
        if name not in self.heads:
            held = ", ".join(f"'{head}'" for head in self.heads) or "no head at all"
            raise MasqueradeError(f"This model has no '{name}' head; it has {held}.")
        head, states = self.heads[name], self.dropout(states) if name != "lm" else states
        if name == "lm":
            out: Tensor = head(states, self.embeddings.words)
        elif self.pooler is not None and (name == "pair" or (name == "classify" and self.spec.pooled)):
            out = head(self.dropout(self.pooler(states)))
        else:
            out = head(states)
        return out

    def boundary_scores(self, states: Tensor, left: Tensor, right: Tensor, place: Tensor) -> Tensor:
        """SpanBERT's head for words inside spans: states (rows, n, width); left and right, the flat indices into
        (rows · n) of the tokens just outside of the word's span, and its place in it, each (m,) → (m, vocab)."""
        head, flat = self.heads["boundary"], states.flatten(0, 1)
        if not isinstance(head, Boundary):
            raise TypeError("the 'boundary' head is a Boundary")
        out: Tensor = head(flat[left], flat[right], place, self.embeddings.words)
        return out

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        task_type_ids: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """For those who come with padded tensors, each (rows, n): what the reference library's model of this
        architecture returns as its logits; a tuple where it returns several (start and end; words and pair)."""
        if not self.spec.outputs:
            raise MasqueradeError("This model has no head to give logits; ask it for hidden states: hidden(layout).")
        given: dict[str, Tensor] = {}
        if token_type_ids is not None and self.spec.segments:
            given["segment"] = token_type_ids
        if task_type_ids is not None:
            given["task"] = task_type_ids
        if position_ids is not None:
            given["position"] = position_ids - self.spec.position_offset
        elif self.spec.position_offset:
            words = input_ids != self.spec.pad  # these families number their words, not their places
            given["position"] = torch.where(words, words.cumsum(-1), 0) - 1
        if self.spec.mask == "causal":
            given["rank"] = torch.arange(input_ids.shape[-1], device=input_ids.device)
        states = self.hidden(Layout.padded(input_ids, attention_mask, **given))
        results: list[Tensor] = []
        for name in self.spec.outputs:
            scores = self.head(name, states[:, 0] if name in SENTENCE else states)
            results += scores.unbind(-1) if name in ("span", "detect") else [scores]
        return results[0] if len(results) == 1 else tuple(results)

    def _initialise(self, module: nn.Module) -> None:
        """Small normal weights, no biases: where every family here starts from."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.spec.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def build(spec: Spec) -> Model:
    """A network with fresh weights."""
    return Model(spec)
