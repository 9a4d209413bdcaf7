"""Generated answers: token by token, in blocks, or from drafts, by the decoding loop.

An answer takes the positions of the slots, and has to be a span of the passage unless it is free. The probability of
each token is a mixture of the vocabulary's and of copying from the passage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from masquerade.decoding.beam import Beam
from masquerade.decoding.canvas import Canvas
from masquerade.decoding.constraints import Constraint, SpanOf
from masquerade.decoding.loop import DecodingTask, Hypothesis, Session, write
from masquerade.decoding.masked_decoding import Plan
from masquerade.decoding.mixture import Mixture
from masquerade.decoding.plans import blocks, parallel
from masquerade.decoding.rerank import Given, Rerank
from masquerade.errors import MasqueradeError
from masquerade.layout import Layout
from masquerade.nn.model import Model
from masquerade.reading.layouts import ReaderLayout

BEAMS, DRAFTS, BLOCK, GAMMA = 4, 8, 4, 0.5
Pair = tuple[Sequence[int], Sequence[int]]  # the ids of a question and of a passage

DECODERS: dict[
    str, Callable[[int], Plan | Beam | Rerank | Mixture]
] = {  # from the number of answers; their scores are log-probabilities
    "parallel": lambda copies: parallel(copies=copies),
    "blocks": lambda copies: blocks(BLOCK),
    "autoregressive": lambda copies: Beam(max(BEAMS, copies), length_penalty=0.0, copies=copies),
    "rerank": lambda copies: Rerank(max(DRAFTS, copies), length_penalty=0.0, copies=copies),
    "mixture": lambda copies: Mixture(GAMMA, max(BEAMS, copies), length_penalty=0.0, copies=copies),
}


class CopySession(Session):
    """A decoding session in which a token's probability is that of copying it from anywhere in the passage, mixed with
    that of the vocabulary, whose weight is ``words``."""

    def __init__(self, model: Model, canvas: Canvas, cached: bool, sizes: ReaderLayout, words: float) -> None:
        self.sizes, self.words = sizes, words
        super().__init__(model, canvas, cached)

    def logits(self, at_queries: Tensor, new: Layout, states: Tensor) -> Tensor:
        """Log-probabilities of tokens: states (rows, m, width) → (rows, m, vocab)"""
        read = new.real & (new.position >= self.sizes.start)
        if read.any():  # the passage: once with a cache, else in every pass
            self.passages = states, read, new.ids
            self.row = torch.zeros(self.prompts.first.rows, dtype=torch.long, device=states.device)  # of each prompt
            self.row[self.owner] = torch.arange(len(states), device=states.device)
        states, read, ids = (each[self.row[self.owner]] for each in self.passages)
        places = self.model.copy_scores(at_queries, states).float().masked_fill(~read[:, None], -torch.inf).softmax(-1)
        found = torch.zeros(*at_queries.shape[:2], self.model.spec.vocab, device=places.device)
        found.scatter_add_(-1, ids[:, None].expand_as(places), places)
        if self.words:
            found = torch.lerp(found, self.model.head("lm", at_queries).float().softmax(-1), self.words)
        return found.clamp(min=1e-30).log()


def write_answers(
    model: Model,
    sizes: ReaderLayout,
    pairs: Sequence[Pair],
    decoder: str,
    parts: Mapping[str, float],
    copies: int = 1,
    free: bool = False,
    cache: bool = True,
    drafts: Sequence[Sequence[Sequence[int]]] = (),
) -> list[list[Hypothesis]]:
    """The best answers to each question from its passage, as ids with log-probabilities. ``parts`` are the weights of
    the vocabulary (``words``) and of copying (``copies``); for a free answer the vocabulary has at least half. If there
    are ``drafts`` for each answer, only these are scored."""
    share = parts.get("words", 0.0) / (sum(parts.get(part, 0.0) for part in ("words", "copies")) or 1)
    share = max(share, 0.5) if free else share
    if share and "lm" not in model.spec.all_heads:
        raise MasqueradeError("This reader has no language head to generate answers with; use its decoder 'parallel'.")
    canvas, limits = sizes.canvas(pairs), [sizes.slots] * len(pairs)
    session = Session(model, canvas, cache) if share == 1 else CopySession(model, canvas, cache, sizes, share)
    spans: list[Constraint | None] = [None if free else SpanOf(passage) for _, passage in pairs]
    task = DecodingTask(session, sizes.sep, limits, least=0 if free else 1, constraints=spans)
    method = DECODERS[decoder](copies)
    if drafts:
        given = Given(drafts)
        method = Rerank(given, length_penalty=0.0, copies=min(copies, given.copies))
    writing = method.start(task)
    for _ in write(task.session, writing):
        pass
    return writing.results()
