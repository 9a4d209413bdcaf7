"""The network, assembled: words, embeddings, stack, perhaps a decoder, heads."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import FAR, Layout
from masquerade.nn.cache import Cache
from masquerade.nn.embeddings import Embeddings, Words
from masquerade.nn.heads import MAKERS, SENTENCE, Boundary, Copy, Dense
from masquerade.nn.recurrent import RecurrentStack
from masquerade.nn.relations import TransformerXL
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded, Stack
from masquerade.text.tokenizer import Tokenizer


class Decoder(nn.Module):
    """A second stack, with embeddings of its own around the encoder's words."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.embeddings = Embeddings(spec)
        self.stack = Stack(spec)


class Model(nn.Module):
    """One network that reads layouts. ``tokenizer`` and ``config`` (the published configuration it came with, so that
    nothing of it is lost on saving) travel along where a checkpoint has them."""

    def __init__(self, spec: Spec, tokenizer: Tokenizer | None = None, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.spec, self.config = spec, config or {}
        self._tokenizer = tokenizer
        self.words = Words(spec)
        self.embeddings = Embeddings(spec)
        self.stack: Stack | RecurrentStack = RecurrentStack(spec, spec.recurrent) if spec.recurrent else Stack(spec)
        self.decoder = Decoder(spec.decoder) if spec.decoder else None
        self.pooler = Dense(spec) if spec.pooler else None
        self.heads = nn.ModuleDict({name: MAKERS[name](spec) for name in spec.all_heads})
        self.dropout = nn.Dropout(spec.dropout)
        self.apply(self._initialise)

    @property
    def device(self) -> torch.device:
        """Where the weights are; layouts have to be there too."""
        return self.words.table.weight.device

    @property
    def has_tokenizer(self) -> bool:
        """Did the checkpoint come with a tokenizer?"""
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which a model needs to read text."""
        if self._tokenizer is None:
            raise MasqueradeError("This model came without a tokenizer, so it cannot read text; add its vocab.txt.")
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    def encode(self, source: Layout) -> Encoded:
        """A source for the decoder, encoded once for any number of passes."""
        source = source.batched()
        return Encoded(self.stack(self.embed(source), source), source)

    def embed(self, layout: Layout) -> Tensor:
        """What goes into the stack: a batch of (rows, n) tokens → (rows, n, width)"""
        out: Tensor = self.embeddings(self.words(layout), layout)
        return out

    def hidden(
        self,
        layout: Layout,
        cache: Cache | None = None,
        source: Layout | Encoded | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states, (rows, n, width); with ``at`` (bool, the layout's shape) of the m tokens there alone,
        (m, width). With a cache, the layout's rows see the tokens in it too. An encoder–decoder also needs its source,
        and gives the decoder's states."""
        layout = layout.batched()
        if self.decoder is None and source is not None:
            raise LayoutError("This model has no decoder, so it takes no source; lay source and target out together.")
        if self.decoder is not None and source is None:
            raise LayoutError("This model is an encoder–decoder; give it the source that its decoder looks at.")
        if isinstance(source, Layout):
            source = self.encode(source)
        part = self if self.decoder is None else self.decoder
        asked = None if at is None else at.reshape(layout.ids.shape)
        states: Tensor = part.stack(part.embeddings(self.words(layout), layout), layout, cache, source, asked)
        return states

    def scores(
        self,
        layout: Layout,
        head: str = "lm",
        at: Tensor | None = None,
        cache: Cache | None = None,
        source: Layout | Encoded | None = None,
    ) -> Tensor:
        """What a head says of a layout: (m, scores) for the m tokens where ``at`` (bool, the layout's shape) is true.

        Without ``at``, sentence heads speak of the first token of each document and other heads of every token,
        (rows, n, scores).
        """
        if at is None and head in SENTENCE:
            at = layout.first
        return self.head(head, self.hidden(layout, cache, source, at))

    def head(self, name: str, states: Tensor) -> Tensor:
        """One head over hidden states wherever they come from: (…, width) → (…, scores)."""
        head = self._held(name)
        if name == "lm":
            out: Tensor = head(states, self.words.likeness)
        elif self.pooler is not None and (name == "pair" or (name == "classify" and self.spec.pooled)):
            out = head(self.dropout(self.pooler(states)))
        else:
            out = head(self.dropout(states))
        return out

    def _held(self, name: str) -> nn.Module:
        """A head by name, or a sentence about those there are."""
        if name not in self.heads:
            held = ", ".join(f"'{head}'" for head in self.heads) or "no head at all"
            raise MasqueradeError(f"This model has no '{name}' head; it has {held}.")
        return self.heads[name]

    def boundary_scores(self, states: Tensor, left: Tensor, right: Tensor, place: Tensor) -> Tensor:
        """SpanBERT's head for words inside spans: states (rows, n, width); left and right, the flat indices into
        (rows · n) of the tokens just outside of the word's span, and its place in it, each (m,) → (m, vocab)."""
        head, flat = self._held("boundary"), states.flatten(0, 1)
        if not isinstance(head, Boundary):
            raise TypeError("the 'boundary' head is a Boundary")
        out: Tensor = head(flat[left], flat[right], place, self.words.likeness)
        return out

    def copy_scores(self, slots: Tensor, places: Tensor) -> Tensor:
        """How much each slot of an answer points at each place of its passage: states (rows, m, width) and
        (rows, n, width) → (rows, m, n)"""
        head = self._held("copy")
        if not isinstance(head, Copy):
            raise TypeError("the 'copy' head is a Copy")
        out: Tensor = head(self.dropout(slots), self.dropout(places))
        return out

    def logits(self, input_ids: Tensor, *args: Tensor | None, **kwargs: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        """Logits for padded tensors, with the arguments of ``masquerade.checkpoints.padded.logits``."""
        padded = import_module("masquerade.checkpoints.padded")  # on use: checkpoints imports this module
        out: Tensor | tuple[Tensor, ...] = padded.logits(self, input_ids, *args, **kwargs)
        return out

    def with_heads(self, outputs: tuple[str, ...], labels: tuple[str, ...] | None = None) -> Model:
        """The same network with other heads: those it has are kept, the others are fresh. ``labels`` are what a
        classifier or tagger tells apart."""
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
        """A memory of ``n`` tokens that never were, whose states are zero in every layer: what the reference
        Transformer-XL looks at before its first segment."""
        cache = Cache()
        ids = torch.zeros(rows, n, dtype=torch.long, device=self.device)
        zeros = torch.zeros(rows, n, self.spec.width, device=self.device)
        before = Layout.of(ids, position=torch.arange(-n, 0), rank=-FAR)
        cache.keep(before, self.stack.keys(zeros), [])
        return cache

    def _initialise(self, module: nn.Module) -> None:
        """Small normal weights, no biases: where every family here starts from."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.spec.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, TransformerXL | Words):
            for weight in module.parameters(recurse=False):
                nn.init.normal_(weight, std=self.spec.init_std)


def build(spec: Spec) -> Model:
    """A network with fresh weights."""
    return Model(spec)
