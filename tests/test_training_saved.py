"""What a pretrained run saves: a folder that the reference library loads, wherever it has the family."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from parity import _logits, _tuple
from training_cases import make_home, recipe

from masquerade import load
from masquerade.training.loop import Run

SAVED = {  # objective → the class that loads it
    "mlm": "BertForMaskedLM",
    "whole-word": "BertForMaskedLM",
    "diffusion": "BertForMaskedLM",
    "nsp": "BertForPreTraining",
    "span": "BertForMaskedLM",
    "sop": "AlbertForPreTraining",
    "electra": "ElectraForPreTraining",
    "xlnet": "XLNetLMHeadModel",
    "mpnet": "MPNetForMaskedLM",
    "next": "GPT2LMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
}
TWO_STACKS = ("t5", "bart", "pegasus")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("saved"))


@pytest.mark.parametrize("objective", SAVED)
@torch.no_grad()
def test_a_pretrained_run_loads_in_the_reference_library(home: Path, tmp_path: Path, objective: str) -> None:
    changes = [f"objective={objective}", "steps=3", "held_out=[]", "model.attention_dropout=0.0"]
    changes += ["options.sentinels=[5, 6, 7, 8]"] if objective == "t5" else []
    if objective == "mpnet":  # whose reference implementation pads with token 1
        home = make_home(tmp_path, ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"))
    with torch.enable_grad():
        Run(recipe(home, tmp_path, *changes)).train()
    ours, folder = load(tmp_path).eval(), tmp_path / "step-3"
    theirs = getattr(transformers, SAVED[objective]).from_pretrained(folder).eval()
    assert theirs.config.architectures == [SAVED[objective]]
    ids = torch.tensor([[2, 9, 14, 20, 7, 11, 3], [2, 6, 5, 25, 30, 8, 3]])
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids[:, :4]} if objective in TWO_STACKS else {})
    got, expected = _tuple(ours.logits(**inputs)), _logits(theirs(**inputs))
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert other.std() > 1e-3, "the comparison would be empty"
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_a_network_that_its_family_cannot_describe_is_saved_in_our_own_format(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, "model.norm_first=true", "steps=1", "held_out=[]")).train()
    assert load(tmp_path).spec.family == "masquerade"


def test_a_checkpoint_with_other_heads_than_its_family_has_is_saved_in_our_own_format(
    home: Path, tmp_path: Path
) -> None:
    Run(recipe(home, tmp_path / "bert", "steps=1", "held_out=[]")).train()
    Run(recipe(home, tmp_path / "next", f"start={tmp_path / 'bert'}", "objective=electra", "steps=1")).train()
    found = load(tmp_path / "next").spec
    assert (found.family, found.outputs) == ("masquerade", ("detect",))
