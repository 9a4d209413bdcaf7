"""Writing one token a step: greedy and by chance."""

from __future__ import annotations

from pathlib import Path

import torch
from writers import writer

from masquerade.decoding.generate import generate


def test_greedy_gpt2_equals_the_reference(tmp_path: Path) -> None:
    theirs, ours = writer("gpt2", tmp_path)
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12], [20]]
    got = generate(ours, prompts, max_new=12)
    for prompt, written in zip(prompts, got, strict=True):
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :]
        assert [*written.ids, 2][: len(expected)] == expected.tolist()
