"""Models cut to the tokens of a task: smaller tables, faster heads, the same scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.text.subset import cut

TABLES = ("words.table.weight", "heads.lm.decoder.weight", "heads.lm.bias", "heads.boundary.bias")  # one row a token


def keep_tokens(model: Model, tokens: Iterable[int]) -> tuple[Model, list[int]]:
    """A model and its tokenizer with only these tokens, and their old ids in the order of the new ones.

    Special tokens, and those that the model's configuration names, are always kept. Hidden states and scores of kept
    tokens do not change, and the new model is saved as an ordinary checkpoint.
    """
    spec = model.spec
    if not model.has_tokenizer:
        raise MasqueradeError(
            "This model came without a tokenizer, which is needed to cut its vocabulary; add its vocab.txt."
        )
    if spec.cutoffs:
        raise MasqueradeError("A vocabulary in clusters (an adaptive softmax) cannot be cut; its clusters would shift.")
    size = len(model.tokenizer)
    named = {number for value in _named(model.config).values() for number in value if 0 <= number < size}
    tokenizer, old = cut(model.tokenizer, {*tokens, *named, *([spec.pad] if spec.pad < size else [])})
    if old[-1] >= spec.vocab:
        raise MasqueradeError(
            f"Token {old[-1]} is beyond the model's {spec.vocab} tokens; check that the tokenizer belongs to it."
        )
    new = {number: place for place, number in enumerate(old)}
    decoder = None if spec.decoder is None else replace(spec.decoder, vocab=len(old), pad=new.get(spec.decoder.pad, 0))
    smaller = replace(spec, vocab=len(old), pad=new.get(spec.pad, 0), decoder=decoder)
    config = dict(model.config)
    for key, numbers in _named(config).items():
        mapped = [new[number] for number in numbers if number in new]
        config[key] = mapped if isinstance(config[key], list) else mapped[0] if mapped else None
    result = Model(smaller, tokenizer, config).to(model.device)
    rows = torch.tensor(old, device=model.device)
    weights = model.state_dict()
    result.load_state_dict({name: weight[rows] if name in TABLES else weight for name, weight in weights.items()})
    return result.train(model.training), old


def _named(config: dict[str, Any]) -> dict[str, list[int]]:
    """The ids of tokens that a configuration names, by key."""
    found: dict[str, list[int]] = {}
    for key, value in config.items():
        numbers = value if isinstance(value, list) else [value]
        if key.endswith("_token_id") and numbers and all(isinstance(number, int) for number in numbers):
            found[key] = numbers
    return found
