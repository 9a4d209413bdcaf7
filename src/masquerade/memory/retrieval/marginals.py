"""The probability of a text given several passages, and the texts that are most probable: RAG's two models.

RAG-Sequence: p(y) = Σ p(z) Π p(yᵢ | z, y before i), one passage for the whole text. RAG-Token: p(y) = Π Σ p(z)
p(yᵢ | z, y before i), a passage for each token. The generator is any model that writes, in any of its frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.decoding.beam import Beam
from masquerade.decoding.canvas import NO_TOKEN
from masquerade.decoding.constraints import Constraint
from masquerade.decoding.loop import write
from masquerade.decoding.marginal import MarginalSession, SharedCanvas
from masquerade.layout import IGNORE, Layout
from masquerade.nn.model import Model
from masquerade.writing.generate import Rules, generate, task_of
from masquerade.writing.prompts import Frame, Ids

TOGETHER = 32  # texts that are scored at once


@dataclass(frozen=True)
class MarginalText:
    """A text and its log-probability over all passages."""

    ids: list[int]  # without the end token
    score: float
    ended: bool


def label_logs(model: Model, layout: Layout, source: Layout | None) -> Tensor:
    """The log-probability of each labelled token, in reading order: (rows, n) → (m,)"""
    labelled = layout.label != IGNORE
    states = model.hidden(layout, source=source, at=labelled)
    logs = model.head("lm", states).float().log_softmax(-1)
    return logs.gather(1, layout.label[labelled][:, None])[:, 0]


def marginal(logs: Tensor, priors: Tensor, kind: str) -> Tensor:
    """The log-probability of a text: of its tokens given each passage, (k, n), and of the passages, (k,): ()"""
    if kind == "token":
        return (logs + priors[:, None]).logsumexp(0).sum()
    return (logs.sum(1) + priors).logsumexp(0)


@torch.inference_mode()
def token_logs(model: Model, frame: Frame, prompts: Sequence[Ids], texts: Sequence[Ids]) -> Tensor:
    """The log-probabilities of the tokens of texts, each after its prompt: (rows, longest), 0 after the end of a
    text. Texts include their end tokens."""
    longest = max(map(len, texts))
    found = torch.zeros(len(texts), longest)
    for start in range(0, len(texts), TOGETHER):
        some = slice(start, start + TOGETHER)
        ids = torch.tensor([[*text, *[NO_TOKEN] * (longest - len(text))] for text in texts[some]])
        canvas = frame.canvas(prompts[some])
        layout = canvas.with_targets(ids).to(model.device)
        source = None if canvas.source is None else canvas.source.to(model.device)
        found[some][ids != NO_TOKEN] = label_logs(model, layout, source).cpu()
    return found


def score_texts(
    model: Model, frame: Frame, prompts: Sequence[Ids], priors: Tensor, texts: Sequence[Ids], kind: str
) -> Tensor:
    """The log-probabilities of texts over all passages: prompts with the passages (k), the log-probabilities of the
    passages (k,), and texts with their end tokens (n): (n,)"""
    pairs = [(prompt, text) for text in texts for prompt in prompts]
    logs = token_logs(model, frame, [prompt for prompt, _ in pairs], [text for _, text in pairs])
    each = logs.view(len(texts), len(prompts), -1)
    return torch.stack([marginal(part[:, : len(text)], priors, kind) for part, text in zip(each, texts, strict=True)])


def write_sequence(
    model: Model,
    frame: Frame,
    prompts: Sequence[Ids],
    priors: Tensor,
    beam: Beam,
    rules: Rules,
    fast: bool = False,
) -> list[MarginalText]:
    """The best texts of RAG-Sequence for one question, the best first. Beam search proposes texts for each passage.
    Then every text is scored with every passage ("thorough"), or, if ``fast``, only with those passages whose beams
    have found it."""
    every = Beam(beam.beams, beam.length_penalty, beam.early_stopping, beam.beams)
    found = dict[tuple[tuple[int, ...], bool], list[Tensor]]()
    for prior, best in zip(priors, generate(model, list(prompts), every, frame=frame, rules=rules), strict=True):
        for text in (best, *best.alternatives):
            length = len(text.ids) + text.ended
            log = prior + text.score * length**beam.length_penalty
            found.setdefault((tuple(text.ids), text.ended), []).append(log)
    texts = [[*ids, *([frame.end] if ended and frame.end is not None else [])] for ids, ended in found]
    if fast:
        scores = torch.stack([torch.stack(logs).logsumexp(0) for logs in found.values()])
    else:
        scores = score_texts(model, frame, prompts, priors, texts, "sequence")
    made = [MarginalText(list(ids), float(score), ended) for (ids, ended), score in zip(found, scores, strict=True)]
    return sorted(made, key=lambda text: -text.score)[: beam.copies]


@torch.inference_mode()
def write_token(
    model: Model,
    frame: Frame,
    prompts: Sequence[Sequence[Ids]],
    priors: Tensor,
    beam: Beam,
    rules: Rules,
    constraints: Sequence[Constraint | None] | None = None,
) -> list[list[MarginalText]]:
    """The best texts of RAG-Token for each question, the best first, decoded with the mean over the passages inside
    the beam: prompts (questions, k), log-probabilities of the passages (questions, k)"""
    canvas = SharedCanvas.of(frame.canvas([prompt for each in prompts for prompt in each]), len(prompts[0]))
    session = MarginalSession(model, canvas, priors)
    own = constraints or rules.constraints(len(prompts))
    run = beam.start(task_of(session, frame.end, rules, range(len(prompts)), own))
    for _ in write(session, run):
        pass
    return [
        [
            MarginalText(text.ids, text.score * (len(text.ids) + text.ended) ** beam.length_penalty, text.ended)
            for text in texts
        ]
        for texts in run.results()
    ]
