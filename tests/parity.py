"""One check for every family: a tiny random reference model, our weights from it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import masquerade

TOLERANCE = 1e-5
TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


def padded(rows: int = 3, n: int = 14, vocab: int = 99, segments: bool = True) -> dict[str, Tensor]:
    """Random ids, some rows padded (with ids that are not the padding token's, which must not matter), segments."""
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(5, vocab, (rows, n), generator=generator)
    lengths = torch.tensor([n, n - 3, n // 2][:rows])
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(n) < lengths[:, None]).long()}
    if segments:
        inputs["token_type_ids"] = (torch.arange(n) >= n // 2).long().expand(rows, n)
    return inputs


def randomised(model: Any, spread: float = 0.4) -> Any:
    """The reference model with weights large enough that every part of it shows in the logits (but for tables that
    are fixed, such as sinusoids)."""
    generator = torch.Generator().manual_seed(3)
    for weight in model.parameters():
        if weight.requires_grad:
            centre, width = (0.5, 0.5) if weight.dim() == 1 else (0.0, spread)
            weight.data.normal_(centre, width, generator=generator)
    model.tie_weights()
    return model.eval()


@torch.no_grad()
def check_parity(
    model: Any, inputs: Mapping[str, Tensor], folder: Path, where: Tensor | None = None, spread: float = 0.4
) -> masquerade.Model:
    """Reference → ours → reference: the same logits each time, at padding too unless ``where`` says otherwise.
    Returns ours."""
    expected = _logits(randomised(model, spread)(**inputs))
    model.save_pretrained(folder / "theirs")
    ours = masquerade.load(folder / "theirs")
    chosen = slice(None) if where is None else where
    got = _tuple(ours.logits(**inputs))
    assert_close(tuple(part[chosen] for part in got), tuple(part[chosen] for part in expected))

    masquerade.save(ours, folder / "ours")
    again = type(model).from_pretrained(folder / "ours").eval()
    assert_close(_logits(again(**inputs)), expected)
    return ours


def assert_close(got: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert theirs.std() > 100 * TOLERANCE, "the reference says nothing; the comparison would be empty"
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)


def _logits(output: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    return tuple(value for name, value in output.items() if name.endswith("logits"))


def _tuple(logits: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return logits if isinstance(logits, tuple) else (logits,)
