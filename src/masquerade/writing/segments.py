"""Losses of long texts, read in segments with a memory of what came before, or in a sliding window without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.errors import MasqueradeError
from masquerade.layout import FAR, PADDING, Layout, batch
from masquerade.masks import causal
from masquerade.nn.cache import Cache
from masquerade.nn.model import Model
from masquerade.nn.relations import TransformerXL
from masquerade.nn.segments import RELATIVE

AT_ONCE = 2048  # tokens of a batch


@torch.inference_mode()
def segment_losses(
    model: Model,
    texts: Sequence[Sequence[int]],
    segment: int,
    memory: int,
    *,
    same_length: bool = False,
    blank: bool = False,
) -> list[Tensor]:
    """The loss of every id but the first of each text, (n − 1,), in nats: texts are read ``segment`` ids at a time, and
    every layer keeps the states of the last ``memory`` ids (Transformer-XL).

    A token sees the whole memory and its own segment up to itself. With ``same_length`` it sees exactly the last
    ``memory`` ids, itself included, whatever the segment is. Before the first segment there is nothing to see; with
    ``blank`` there are ``memory`` zero vectors, as the Hugging Face model has them. Each id is encoded once.
    """
    check_memory(model, segment, memory, same_length)
    losses = [torch.zeros(0)] * len(texts)
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    rows = max(1, AT_ONCE // (segment + memory))
    for start in range(0, len(order), rows):
        group = order[start : start + rows]
        found = _losses([texts[number] for number in group], model, segment, memory, same_length, blank)
        for number, row in zip(group, found, strict=True):
            losses[number] = row
    return losses


def _losses(
    texts: Sequence[Sequence[int]], model: Model, segment: int, memory: int, same_length: bool, blank: bool
) -> list[Tensor]:
    """The losses of texts that are read side by side."""
    longest = max(len(text) for text in texts)
    lengths = torch.tensor([len(text) for text in texts], device=model.device)
    ids = torch.zeros(len(texts), longest, dtype=torch.long, device=model.device)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text, dtype=torch.long)
    cache = model.blank_memory(len(texts), memory) if blank else Cache()
    parts = list[Tensor]()
    for start in range(0, longest - 1, segment):
        place = torch.arange(start, min(start + segment, longest - 1), device=model.device)
        real = place < lengths[:, None] - 1  # the last id of a text predicts nothing
        layout = Layout.of(
            ids[:, place],
            position=place,
            rank=place,
            document=torch.where(real, 0, PADDING),
            reach=memory - 1 if same_length else FAR,
        )
        scores = model.head("lm", model.hidden(layout, cache)).float()  # (rows, n, vocab)
        parts.append(F.cross_entropy(scores.flatten(0, 1), ids[:, place + 1].flatten(), reduction="none").view_as(real))
        cache.remember(memory)
    whole = torch.cat(parts, dim=1).cpu() if parts else torch.zeros(len(texts), 0)
    return [row[: max(len(text) - 1, 0)] for row, text in zip(whole, texts, strict=True)]


@torch.inference_mode()
def window_losses(model: Model, text: Sequence[int], window: int, first: int = 1) -> Tensor:
    """The loss of the ids of a text from number ``first`` on, (n − first,): each is predicted from the ``window`` ids
    before it, which are encoded anew. The slow way, for comparison."""
    check_memory(model, 1, window, False)
    losses = list[Tensor]()
    together = max(1, AT_ONCE // window)
    for start in range(first, len(text), together):
        places = range(start, min(start + together, len(text)))
        layout = batch([causal(text[max(0, place - window) : place]) for place in places]).to(model.device)
        last = torch.zeros(layout.shape, dtype=torch.bool, device=model.device)
        last[torch.arange(len(places)), layout.real.sum(-1) - 1] = True
        scores = model.scores(layout, "lm", at=last).float()
        labels = torch.tensor([text[place] for place in places], device=model.device)
        losses.append(F.cross_entropy(scores, labels, reduction="none").cpu())
    return torch.cat(losses) if losses else torch.zeros(0)


@contextmanager
def clamped(model: Model, distance: int | None) -> Iterator[None]:
    """Inside, distances beyond ``distance`` count as it, in a network with Transformer-XL's positions; 0 or less: none
    does; None: as the model was trained."""
    relations = [part for part in model.modules() if isinstance(part, TransformerXL)]
    if distance is not None and not relations:
        raise MasqueradeError("Only Transformer-XL's positions can be clamped, and this network has none of them.")
    before = [part.limit for part in relations]
    try:
        for part in relations:
            part.limit = part.limit if distance is None else distance if distance > 0 else FAR
        yield
    finally:
        for part, limit in zip(relations, before, strict=True):
            part.limit = limit


def check_memory(model: Model, segment: int, memory: int, same_length: bool) -> None:
    """Refuse networks that cannot remember segments, and sizes that make no sense."""
    if model.spec.decoder is not None or model.spec.recurrent or model.spec.mask != "causal":
        raise MasqueradeError("A text is read with a memory by a network that predicts the next token by attention.")
    if not model.spec.positions or not set(model.spec.positions) <= set(RELATIVE):
        raise MasqueradeError(
            f"A memory needs relative positions ({', '.join(RELATIVE)}); this network's positions are "
            f"{', '.join(model.spec.positions) or 'none'}. Leave --memory out."
        )
    if segment < 1 or memory < (1 if same_length else 0):
        raise MasqueradeError(f"Segments of {segment} tokens with a memory of {memory} cannot be read; give 1 or more.")
