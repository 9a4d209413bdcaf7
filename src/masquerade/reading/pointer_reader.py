"""A reader for any checkpoint with a span head: pointers to the first and last token of an answer, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.layouts import ReaderLayout
from masquerade.reading.memory import Memory
from masquerade.reading.odds import log_probabilities, own_odds
from masquerade.reading.pairs import PairTemplate, pair_logits
from masquerade.reading.questions import WindowQuestion
from masquerade.reading.reader import Reader, Settings

WINDOW, QUESTION, ANSWER = 384, 64, 30  # tokens of a pair, a question and an answer, as such models are trained
BY_NONE = -1.0  # the threshold under which there is no answer where that is more probable than the best span


@dataclass(frozen=True)
class PairLayout(ReaderLayout):
    """The sizes of pairs of a question and a window, laid out by a template."""

    template: PairTemplate | None = None

    @staticmethod
    def for_model(model: Model, template: PairTemplate) -> PairLayout:
        """Windows as such models are trained with, or smaller ones where the model has fewer positions."""
        spec = model.spec
        longest = min(WINDOW, spec.longest - spec.position_offset) if "learned" in spec.positions else WINDOW
        question = min(QUESTION, longest // 3)
        answer = max(1, min(ANSWER, (longest - question - template.size) // 2))
        return PairLayout(answer, question, longest, template.before[0], template.after[-1], -1, template=template)

    @property
    def start(self) -> int:
        """The number of tokens beside a window, its last special token not included."""
        return self.question + (0 if self.template is None else self.template.size - 1)


class PointerReader(Reader):
    """A model with a span head that answers questions from texts. The probability of a span is that of its start and
    end logits among all spans of the window and no answer, which the first token stands for."""

    part, fit = 0, 0.0  # windows are as such models are trained with, and compared by their odds alone

    def __init__(self, model: Model, threshold: float = BY_NONE) -> None:
        if "span" not in model.spec.all_heads:
            raise MasqueradeError(
                f"This {model.spec.family} model has no span head, so it cannot mark answers; "
                "give one for question answering, or train one with 'masquerade train reader'."
            )
        kernels.use()
        self.model, self.tokenizer, self.template = model.eval(), model.tokenizer, PairTemplate.of(model.tokenizer)
        self.layout = layout = PairLayout.for_model(model, self.template)
        self.settings = Settings(layout.slots, layout.question, {"pointers": 1.0}, threshold)
        # a window is read together with its question, so nothing is kept
        self.memory = self.recent = Memory(0, torch.float32)
        self.scorer = None

    def remember(self, passages: str | Sequence[str], done: Callable[[int], None] = lambda count: None) -> None:
        """Do nothing: such a model reads a window together with its question."""

    def _check_decoder(self, decoder: str, free: bool) -> None:
        if decoder != "parallel" or free:
            raise MasqueradeError("This checkpoint only points at spans; use the decoder 'parallel', without 'free'.")

    def _threshold(self, none: float) -> float:
        return none if self.settings.threshold == BY_NONE else self.settings.threshold

    @torch.inference_mode()
    def _odds(self, batch: Sequence[list[WindowQuestion]]) -> Iterator[tuple[WindowQuestion, Tensor, float]]:
        jobs = [job for some in batch for job in some]
        logits = pair_logits(self.model, self.template, [(job.ids, job.window.ids) for job in jobs])
        for job, (start, end) in zip(jobs, logits, strict=True):
            scores = span_sums(start[1:].double(), end[1:].double(), self.layout.longest_answer)
            logs, none = log_probabilities(scores.unsqueeze(0), (start[:1] + end[:1]).double())
            odds, total = own_odds(logs[0], none[0], job.window.own)
            yield job, odds, total


def span_sums(start: Tensor, end: Tensor, longest: int) -> Tensor:
    """The sum of start and end logit of each span: logits (n,) each → (n, longest), by start and length − 1; −inf where
    a span would reach beyond the last token."""
    n = len(start)
    last = torch.arange(n).unsqueeze(-1) + torch.arange(longest)
    sums = start.unsqueeze(-1) + end[last.clamp(max=n - 1)]
    return sums.masked_fill(last >= n, -torch.inf)
