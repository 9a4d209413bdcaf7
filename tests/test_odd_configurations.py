"""Configurations and checkpoints off the usual path: each agrees with the reference or is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from parity import TINY, assert_close, check_parity, padded, randomised
from safetensors.torch import load_file, save_file

from masquerade import load, save
from masquerade.errors import CheckpointError, LayoutError

DISTILBERT = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
BART = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 40,
}  # fmt: skip
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
TARGET = torch.randint(5, 99, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "config", "spread"),
    [
        ("AlbertForMaskedLM", TINY | {"embedding_size": 16}, 0.4),
        ("MPNetForMaskedLM", TINY, 0.4),
        ("DistilBertForMaskedLM", TINY | DISTILBERT, 0.4),
        ("DebertaV2ForMaskedLM", TINY, 0.4),
        ("T5ForConditionalGeneration", T5, 0.1),
        ("BartForConditionalGeneration", BART, 0.1),
        ("PegasusForConditionalGeneration", BART, 0.1),
    ],
)
def test_is_decoder_changes_nothing_in_families_that_have_no_causal_model(
    name: str, config: dict[str, object], spread: float, tmp_path: Path
) -> None:
    family = name.split("For")[0]
    reference = getattr(transformers, name)(getattr(transformers, f"{family}Config")(**config, is_decoder=True))
    inputs = padded(segments=False)
    where = inputs["attention_mask"] > 0 if family == "DebertaV2" else None
    if name.endswith("Generation"):
        inputs["decoder_input_ids"] = TARGET
    check_parity(reference, inputs, tmp_path, where, spread)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "config", "table", "words"),
    [
        ("BertForMaskedLM", TINY, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("RobertaForMaskedLM", TINY, "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("ElectraForMaskedLM", TINY, "generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"),
        ("GPT2LMHeadModel", GPT2, "lm_head.weight", "transformer.wte.weight"),
        ("BartForConditionalGeneration", BART, "lm_head.weight", "model.shared.weight"),
    ],
)
def test_an_output_table_that_differs_is_used_although_the_configuration_says_tied(
    name: str, config: dict[str, object], table: str, words: str, tmp_path: Path
) -> None:
    kind = getattr(transformers, name)
    extra = {"embedding_size": 32} if name.startswith("Electra") else {}
    made = kind(kind.config_class(**config | extra))
    randomised(made, 0.1 if "Bart" in name else 0.3).save_pretrained(tmp_path / "theirs")
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    weights[table] = weights[words].flip(0).contiguous()
    save_file(weights, tmp_path / "theirs" / "model.safetensors", metadata={"format": "pt"})
    inputs = padded(segments=False) | ({"decoder_input_ids": TARGET} if "Bart" in name else {})
    expected = kind.from_pretrained(tmp_path / "theirs").eval()(**inputs).logits
    ours = load(tmp_path / "theirs")
    assert_close((ours.logits(**inputs),), (expected,))
    save(ours, tmp_path / "ours")
    assert_close((kind.from_pretrained(tmp_path / "ours").eval()(**inputs).logits,), (expected,))


@pytest.mark.parametrize(("family", "config", "prefix"), [("T5", T5, ""), ("Bart", BART, "model.")])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_token_embeddings_of_one_stack_alone_are_refused(
    family: str, config: dict[str, object], prefix: str, stack: str, tmp_path: Path
) -> None:
    made = getattr(transformers, f"{family}ForConditionalGeneration")
    made(made.config_class(**config)).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    table = weights[f"{prefix}shared.weight"]
    for each in ("encoder", "decoder"):  # a copy is nothing to refuse
        weights[f"{prefix}{each}.embed_tokens.weight"] = table.clone()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    load(tmp_path)
    weights[f"{prefix}{stack}.embed_tokens.weight"] = table.flip(0).contiguous()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=f"under '{stack}.embed_tokens.weight', which is not supported"):
        load(tmp_path)


def test_an_mpnet_with_another_padding_id_is_refused(tmp_path: Path) -> None:
    transformers.MPNetForMaskedLM(transformers.MPNetConfig(**TINY, pad_token_id=3)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="a padding id of 3 instead of 1 is not supported"):
        load(tmp_path)


def test_inputs_that_the_reference_would_read_otherwise_are_refused(tmp_path: Path) -> None:
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)).save_pretrained(tmp_path / "gpt2")
    transformers.MPNetForMaskedLM(transformers.MPNetConfig(**TINY)).save_pretrained(tmp_path / "mpnet")
    ids = padded()["input_ids"]
    with pytest.raises(LayoutError, match="has no token types; leave out token_type_ids"):
        load(tmp_path / "gpt2").logits(ids, token_type_ids=torch.zeros_like(ids))
    with pytest.raises(LayoutError, match="depends on distances"):
        load(tmp_path / "mpnet").logits(ids, position_ids=torch.arange(14).expand(3, 14))
    with pytest.raises(LayoutError, match=r"shape \(3, 0\) hold no token"):
        load(tmp_path / "mpnet").logits(ids[:, :0])
