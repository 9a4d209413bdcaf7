"""The commands generate and keep, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from masquerade import Spec, build, load, save
from masquerade.cli import app
from masquerade.decoding.generate import generate
from masquerade.text.training import train_tokenizer

TEXTS = [
    "北京是中国的首都，也是一座历史名城。",
    "语言模型会读也会写。",
    "the old city of many temples reads and writes",
]
TOKENIZER = train_tokenizer(TEXTS * 3, "wordpiece", size=150)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random GPT-2 with a Chinese and English vocabulary."""
    torch.manual_seed(3)
    spec = Spec(
        family="gpt2", vocab=len(TOKENIZER), width=16, layers=2, heads=2, feedforward=64, longest=48, segments=0,
        mask="causal", norm_first=True, activation="gelu_new", lm_dense=False, lm_bias=False, epsilon=1e-5,
        init_std=0.6, outputs=("lm",),
    )  # fmt: skip
    model = build(spec)
    model.tokenizer = TOKENIZER
    folder = tmp_path_factory.mktemp("gpt")
    save(model, folder)
    return folder


def run(*words: object) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_greedy_text_is_printed_for_each_prompt(gpt: Path) -> None:
    printed = run("generate", "北京", "the city", "--model", gpt, "--max-new", 6)
    expected = generate(load(gpt), ["北京", "the city"], max_new=6)
    assert printed == "".join(text.text.strip() + "\n" for text in expected)
    lines = run("generate", "北京", "the city", "--model", gpt, "--max-new", 6, "--json").splitlines()
    assert [json.loads(line)["ids"] for line in lines] == [text.ids for text in expected]
