"""The losses of entity linking and mention detection, each as a sum, so that batches of any size add up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.layout import IGNORE


def softmax_loss(scores: Tensor, gold: Tensor) -> Tensor:
    """KnowBERT's softmax loss, summed over mentions: ()

    Scores of candidates (m, k), and the place of the right one among them (m,), IGNORE where it is not known. To be
    divided by the number of mentions.
    """
    return F.cross_entropy(scores.float(), gold, ignore_index=IGNORE, reduction="sum")


def margin_loss(scores: Tensor, gold: Tensor, there: Tensor, margin: float = 0.2) -> Tensor:
    """KnowBERT's margin loss, summed over candidates: ()

    Every right candidate costs max(0, margin − score), every other one max(0, margin + score). ``there``, bool (m, k),
    are the candidates that are no padding; to be divided by their number, without those of mentions whose gold is
    IGNORE.
    """
    right = torch.arange(scores.shape[1], device=scores.device) == gold[:, None]  # (m, k)
    costs = F.relu(margin - torch.where(right, scores, -scores))
    return (costs * (there & (gold != IGNORE)[:, None])).sum()


def link_loss(scores: Tensor, gold: Tensor) -> Tensor:
    """The negative log-probability of the right entity among all, summed over mentions: ()

    Scores (m, entities), the right entity (m,), IGNORE where it is not known or not in the memory.
    """
    return F.cross_entropy(scores.float(), gold, ignore_index=IGNORE, reduction="sum")
