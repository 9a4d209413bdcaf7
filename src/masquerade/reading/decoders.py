"""Answers that are written: word by word, in blocks, or as drafts, by the loop that writes everything else.

The same question and passage, the same weights; an answer takes the places of the slots, and has to be a span of the
passage unless it may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from masquerade.decoding.beam import Beam
from masquerade.decoding.constraints import Constraint, SpanOf
from masquerade.decoding.generate import Method
from masquerade.decoding.loop import Desk, Hypothesis, Job, write
from masquerade.decoding.mixture import Mixture
from masquerade.decoding.parallel import Blocks, Parallel
from masquerade.decoding.rerank import Rerank
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.layouts import Sheet

BEAMS, DRAFTS, BLOCK, GAMMA = 4, 8, 4, 0.5
Pair = tuple[Sequence[int], Sequence[int]]  # the ids of a question and of a passage

METHODS: dict[
    str, Callable[[int], Method]
] = {  # by how many of the best answers are wanted; scores are log-probabilities
    "parallel": lambda copies: Parallel(copies=copies),
    "blocks": lambda copies: Blocks(BLOCK),
    "autoregressive": lambda copies: Beam(max(BEAMS, copies), length_penalty=0.0, copies=copies),
    "rerank": lambda copies: Rerank(max(DRAFTS, copies), length_penalty=0.0, copies=copies),
    "mixture": lambda copies: Mixture(GAMMA, max(BEAMS, copies), length_penalty=0.0, copies=copies),
}


def write_answers(
    model: Model,
    sheet: Sheet,
    pairs: Sequence[Pair],
    decoder: str,
    copies: int = 1,
    free: bool = False,
    cache: bool = True,
) -> list[list[Hypothesis]]:
    """The best answers to each question from its passage, as ids with their log-probabilities."""
    if "lm" not in model.spec.all_heads:
        raise MasqueradeError("This reader has no language head to write answers with; use its decoder 'parallel'.")
    limits = [sheet.slots] * len(pairs)
    spans: list[Constraint | None] = [None if free else SpanOf(passage) for _, passage in pairs]
    job = Job(Desk(model, sheet.page(pairs), cache), sheet.sep, limits, least=0 if free else 1, constraints=spans)
    writing = METHODS[decoder](copies).start(job)
    for _ in write(job.desk, writing):
        pass
    return writing.results()
