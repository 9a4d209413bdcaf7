"""Tiny reference models that write, ours made of them, and what the reference generates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from parity import randomised

from masquerade import Model, load

PAD = 0  # never a word of a prompt, and never written: its score is pushed down
VOCAB = 40
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 3}),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": 32, "d_kv": 12, "d_ff": 48, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8},
    ),
    "bart": (
        "BartForConditionalGeneration",
        {
            "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 40,
            "forced_eos_token_id": None,
        },
    ),
}  # fmt: skip
CONFIGS["pegasus"] = ("PegasusForConditionalGeneration", CONFIGS["bart"][1])
END, START = 2, 3


def writer(kind: str, folder: Path) -> tuple[Any, Model]:
    """A tiny random model of the reference, and ours from its files. Words are told apart by large scores, and the end
    comes every few tokens."""
    name, config = CONFIGS[kind]
    made = getattr(transformers, name)
    own = {"vocab_size": VOCAB, "eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": START}
    if kind == "gpt2":
        del own["decoder_start_token_id"]
    model = randomised(made(made.config_class(**config | own)), 0.25)
    with torch.no_grad():
        head = model.get_output_embeddings()
        if kind in ("bart", "pegasus"):
            model.final_logits_bias.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
            model.final_logits_bias[0, END] += 1.0
            model.final_logits_bias[0, PAD] = -50.0
        else:
            head.weight.mul_(2.0)
    model.save_pretrained(folder)
    return model, load(folder)
