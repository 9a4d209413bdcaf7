"""The assembled network: token embeddings, stack, decoder, heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import FAR, Layout
from masquerade.nn import padded
from masquerade.nn.between import Flow
from masquerade.nn.cache import Cache
from masquerade.nn.embeddings import Embeddings, TokenEmbedding
from masquerade.nn.heads import MAKERS, SENTENCE, Boundary, Copy, Dense
from masquerade.nn.mixture import MixtureHead, MixtureStack
from masquerade.nn.recurrent import RecurrentStack
from masquerade.nn.relations import TransformerXL
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded, Stack
from masquerade.text.tokenizer import Tokenizer


def make_stack(spec: Spec) -> Stack | RecurrentStack:
    """The layers that a spec describes: attention, or recurrent ones."""
    return RecurrentStack(spec, spec.recurrent) if spec.recurrent else Stack(spec)


class Decoder(nn.Module):
    """A second stack. It shares the encoder's token embeddings and has its own positions and segments."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.embeddings = Embeddings(spec)
        self.stack = MixtureStack(spec) if spec.recurrent == "mixture" else make_stack(spec)


class Model(nn.Module):
    """A network over layouts. It keeps the tokenizer and the published configuration of its checkpoint, so that both
    can be saved with it."""

    def __init__(self, spec: Spec, tokenizer: Tokenizer | None = None, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.spec, self.config = spec, config or {}
        self._tokenizer = tokenizer
        self.words = TokenEmbedding(spec)
        self.embeddings = Embeddings(spec)
        self.stack = make_stack(spec)
        self.decoder = Decoder(spec.decoder) if spec.decoder else None
        self.pooler = Dense(spec) if spec.pooler else None
        self.heads = nn.ModuleDict({name: MAKERS[name](spec) for name in spec.all_heads})
        if self.decoder is not None and isinstance(self.decoder.stack, MixtureStack) and "lm" in self.heads:
            self.heads["lm"] = MixtureHead(spec)
        self.dropout = nn.Dropout(spec.dropout)
        self.apply(self._initialise)

    @property
    def device(self) -> torch.device:
        """The device of the weights, where layouts have to be too."""
        return self.words.table.weight.device

    @property
    def has_tokenizer(self) -> bool:
        """Whether the checkpoint has a tokenizer."""
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; an error if the model has none."""
        if self._tokenizer is None:
            raise MasqueradeError("This model has no tokenizer, so it cannot read text; add its vocab.txt.")
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    def encode(self, source: Layout, inputs: Mapping[str, Tensor] | None = None) -> Encoded:
        """A source for the decoder, encoded once for any number of passes."""
        source = source.batched()
        flow = self.stack(self.embed(source), source, inputs=inputs)
        return Encoded(flow.states, flow.layout, flow.outputs)

    def embed(self, layout: Layout) -> Tensor:
        """The input of the stack: a batch of (rows, n) tokens → (rows, n, width)"""
        out: Tensor = self.embeddings(self.words(layout), layout)
        return out

    def flow(
        self,
        layout: Layout,
        cache: Cache | None = None,
        source: Layout | Encoded | None = None,
        at: Tensor | None = None,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Flow:
        """The last hidden states (rows, n, width) with the layout they are of, and extra outputs.

        With ``at`` (bool, the layout's shape) states are those of the m tokens there, (m, width). With a cache, the
        layout's rows also see the tokens in it. An encoder–decoder also needs its source; the states are the decoder's.
        ``inputs`` are extra inputs by name for parts between the layers.
        """
        layout = layout.batched()
        if self.decoder is None and source is not None:
            raise LayoutError("This model has no decoder, so it takes no source; lay source and target out together.")
        if self.decoder is not None and source is None:
            raise LayoutError("This model is an encoder–decoder; give it the source for its decoder.")
        if isinstance(source, Layout):
            source = self.encode(source, inputs)
        part = self if self.decoder is None else self.decoder
        chosen = None if at is None else at.reshape(layout.ids.shape)
        embedded = part.embeddings(self.words(layout), layout)
        flow: Flow = part.stack(embedded, layout, cache, source, chosen, inputs=inputs)
        return flow if source is None else replace(flow, outputs={**source.outputs, **flow.outputs})

    def hidden(
        self,
        layout: Layout,
        cache: Cache | None = None,
        source: Layout | Encoded | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        """The states of ``flow``: (rows, n, width), or with ``at`` (m, width)."""
        return self.flow(layout, cache, source, at).states

    def scores(
        self,
        layout: Layout,
        head: str = "lm",
        at: Tensor | None = None,
        cache: Cache | None = None,
        source: Layout | Encoded | None = None,
    ) -> Tensor:
        """The scores of a head: (m, scores) at the m tokens where ``at`` (bool, the layout's shape) is true.

        Without ``at``, sentence heads score the first token of each document, (documents, scores), and other heads
        every token, (rows, n, scores).
        """
        if at is None and head in SENTENCE:
            at = layout.first
        return self.head(head, self.hidden(layout, cache, source, at))

    def head(self, name: str, states: Tensor) -> Tensor:
        """The scores of a head for hidden states: (…, width) → (…, scores)"""
        head = self._head(name)
        if name == "lm":
            out: Tensor = head(states, self.words.logits)
        elif self.pooler is not None and (name == "pair" or (name == "classify" and self.spec.pooled)):
            out = head(self.dropout(self.pooler(states)))
        else:
            out = head(self.dropout(states))
        return out

    def _head(self, name: str) -> nn.Module:
        """A head by name; an error that lists the heads if there is no such head."""
        if name not in self.heads:
            known = ", ".join(f"'{head}'" for head in self.heads) or "no head at all"
            raise MasqueradeError(f"This model has no '{name}' head; it has {known}.")
        return self.heads[name]

    def boundary_scores(self, states: Tensor, left: Tensor, right: Tensor, place: Tensor) -> Tensor:
        """Logits of SpanBERT's head for tokens inside spans: states (rows, n, width); the flat indices into (rows · n)
        of the tokens left and right of the span, and the token's index in the span, each (m,) → (m, vocab)"""
        head, flat = self._head("boundary"), states.flatten(0, 1)
        if not isinstance(head, Boundary):
            raise TypeError("the 'boundary' head is a Boundary")
        out: Tensor = head(flat[left], flat[right], place, self.words.logits)
        return out

    def copy_scores(self, slots: Tensor, places: Tensor) -> Tensor:
        """The score of each token of a passage to be copied into each slot of an answer: states of slots
        (rows, m, width) and of tokens (rows, n, width) → (rows, m, n)"""
        head = self._head("copy")
        if not isinstance(head, Copy):
            raise TypeError("the 'copy' head is a Copy")
        out: Tensor = head(self.dropout(slots), self.dropout(places))
        return out

    def logits(self, input_ids: Tensor, *args: Tensor | None, **kwargs: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        """Logits for padded tensors, with the arguments of ``masquerade.nn.padded.logits``."""
        return padded.logits(self, input_ids, *args, **kwargs)

    def with_heads(self, outputs: tuple[str, ...], labels: tuple[str, ...] | None = None) -> Model:
        """The same network with other heads: those it has keep their weights, the others are new. ``labels`` are those
        of a classifier or tagger."""
        spec = replace(self.spec, outputs=outputs, spare=(), labels=labels or self.spec.labels)
        other = Model(spec, self._tokenizer, self.config)
        mine, theirs = self.state_dict(), other.state_dict()
        other.load_state_dict(
            {
                name: mine[name] if name in mine and mine[name].shape == theirs[name].shape else theirs[name]
                for name in theirs
            }
        )
        return other.to(self.device)

    def blank_memory(self, rows: int, n: int) -> Cache:
        """A cache of ``n`` tokens whose states are zero in every layer: the memory of the reference Transformer-XL
        before its first segment."""
        cache = Cache()
        ids = torch.zeros(rows, n, dtype=torch.long, device=self.device)
        zeros = torch.zeros(rows, n, self.spec.width, device=self.device)
        before = Layout.of(ids, position=torch.arange(-n, 0), rank=-FAR)
        cache.keep(before, self.stack.key_values(zeros), [])
        return cache

    def _initialise(self, module: nn.Module) -> None:
        """Set normal weights of standard deviation ``init_std``, and biases of zero."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.spec.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, TransformerXL | TokenEmbedding):
            for weight in module.parameters(recurse=False):
                nn.init.normal_(weight, std=self.spec.init_std)


def build(spec: Spec) -> Model:
    """A network with random weights."""
    return Model(spec)
