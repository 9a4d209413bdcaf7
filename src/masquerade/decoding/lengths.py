"""How long a text will be, where that is said before its words are: given, or predicted from its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from masquerade.decoding.loop import DecodingTask
from masquerade.errors import MasqueradeError
from masquerade.layout import Layout
from masquerade.nn.model import Model

Predictor = Callable[[Model, Layout], Tensor]  # sources (rows, n) → log-probabilities of 0, 1, 2 … words (rows, m)


@dataclass(frozen=True)
class Predicted:
    """The ``beam`` likeliest lengths of each prompt, by a predictor."""

    by: Predictor
    beam: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise MasqueradeError(f"The {self.beam} likeliest lengths cannot be tried; give at least one.")


Lengths = int | Sequence[int] | Predicted  # in words, without the end token


class LengthHead(nn.Module):
    """Mask-predict's way: the length as a class, read off the first token of the source."""

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, longest + 1)

    def forward(self, model: Model, source: Layout) -> Tensor:
        """A source of (rows, n) → log-probabilities of 0 … longest words, (rows, longest + 1)"""
        scores: Tensor = self.classify(model.hidden(source)[:, 0])
        return scores.log_softmax(-1)


def same_for_all(probabilities: Sequence[float] | Tensor) -> Predictor:
    """A predictor that holds 0, 1, 2 … words as probable as given, (m,), whatever the source: those of a training set,
    for one."""
    shares = torch.as_tensor(probabilities, dtype=torch.float)
    if shares.dim() != 1 or not len(shares) or bool((shares < 0).any()) or not bool(shares.sum() > 0):
        raise MasqueradeError("Lengths are as probable as a list of numbers from 0 on says, not all of them 0.")
    logs = (shares / shares.sum()).log()
    return lambda model, source: logs.to(source.ids.device).expand(source.rows, -1)


@torch.inference_mode()
def candidates(lengths: Lengths, task: DecodingTask) -> list[list[int]]:
    """The lengths to try for each prompt, in words."""
    ending = int(task.end is not None)  # the end needs a place, too
    rooms = [limit - ending for limit in task.limits]
    if not isinstance(lengths, Predicted):
        given = [lengths] if isinstance(lengths, int) else sorted({int(length) for length in lengths})
        if not given or given[0] < 1:
            raise MasqueradeError(f"A text of {given[0] if given else 'no'} words cannot be written; try at least one.")
        if given[-1] > min(rooms):
            raise MasqueradeError(f"A text of {given[-1]} words does not fit where {min(rooms)} can be; allow more.")
        return [given] * len(rooms)
    logs = lengths.by(task.session.model, task.session.prompts.prompt)
    if logs.dim() != 2 or len(logs) != len(rooms):
        raise MasqueradeError(f"A length predictor gives a row for each of {len(rooms)} prompts, not {len(logs)}.")
    sizes = torch.arange(logs.shape[1], device=logs.device)
    fits = (sizes > 0) & (sizes <= torch.tensor(rooms, device=logs.device)[:, None])
    logs = logs.masked_fill(~fits, -torch.inf)
    values, likeliest = logs.topk(min(lengths.beam, logs.shape[1]))
    found = [ids[value > -torch.inf].tolist() for value, ids in zip(values, likeliest, strict=True)]
    if not all(found):
        raise MasqueradeError("None of the lengths that were predicted fits; allow more tokens.")
    return found
