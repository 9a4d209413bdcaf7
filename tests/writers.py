"""Tiny reference models that write, ours made of them, and what the reference generates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from parity import randomised
from torch import Tensor

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


@torch.no_grad()
def writer(kind: str, folder: Path) -> tuple[Any, Model]:
    """A tiny random model of the reference, and ours from its files; the end is likely, padding is not."""
    name, config = CONFIGS[kind]
    made = getattr(transformers, name)
    own = {"vocab_size": VOCAB, "eos_token_id": END, "pad_token_id": PAD}
    start = {} if kind == "gpt2" else {"decoder_start_token_id": START}
    model = randomised(made(made.config_class(**config | own | start)), 0.25)
    states: list[Tensor] = []
    head = model.get_output_embeddings()
    head.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
    ids = torch.randint(5, VOCAB, (20, 8), generator=torch.Generator().manual_seed(1))
    best = model(ids, **({} if kind == "gpt2" else {"decoder_input_ids": ids})).logits.topk(2).values
    mean = states[0].flatten(0, 1).mean(0)
    head.weight[END] = best[..., 1].mean() * mean / mean.square().sum()
    head.weight[PAD] = 0.0
    model.save_pretrained(folder)
    return model, load(folder)


def padded(kind: str, prompts: list[list[int]]) -> dict[str, Tensor]:
    """Prompts as the reference takes them: padded on the left where they are continued, else on the right."""
    longest = max(len(ids) for ids in prompts)
    gaps = [longest - len(ids) for ids in prompts]
    left = [gap if kind == "gpt2" else 0 for gap in gaps]
    right = [0 if kind == "gpt2" else gap for gap in gaps]
    rows = list(zip(left, prompts, right, strict=True))
    return {
        "input_ids": torch.tensor([[PAD] * before + ids + [PAD] * behind for before, ids, behind in rows]),
        "attention_mask": torch.tensor([[0] * before + [1] * len(ids) + [0] * behind for before, ids, behind in rows]),
    }


def reference_texts(kind: str, theirs: Any, prompts: list[list[int]], **settings: Any) -> tuple[list[list[int]], Any]:
    """What the reference writes, each text up to its end (the end included), and all that it says of it."""
    inputs = padded(kind, prompts)
    said = theirs.generate(**inputs, do_sample=False, return_dict_in_generate=True, output_scores=True, **settings)
    new = said.sequences[:, inputs["input_ids"].shape[1] if kind == "gpt2" else 1 :].tolist()
    texts = []
    for ids in new:
        ids = ids[: ids.index(END) + 1] if END in ids else ids
        while ids and ids[-1] == PAD:
            ids = ids[:-1]
        texts.append(ids)
    return texts, said
