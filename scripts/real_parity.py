"""Real checkpoints on real sentences: how far are our hidden states from those of transformers?

    python scripts/real_parity.py

Fetches what it needs (see scripts/checkpoints.py), and fails if any difference is above 1e-5 relative to the
largest hidden state.
"""

from __future__ import annotations

import sys

import torch
import transformers
from checkpoints import fetch

import masquerade
from masquerade.layout import batch
from masquerade.masks import bidirectional

SENTENCES = {
    "minilm-en": [
        "A Transformer is a play, and the mask decides the part.",
        "The quick brown fox jumps over the lazy dog.",
        "Reading comprehension: the answer is a span of the passage, and it may be found in one parallel step.",
    ],
    "m3e-small-zh": [
        "如何评价自回归与非自回归的文本生成？",
        "北京是中华人民共和国的首都。",
        "阅读理解的答案通常是篇章里的一个片段，可以一步并行地给出。",
    ],
}


@torch.inference_mode()
def compare(name: str) -> float:
    """The largest difference between our hidden states and theirs, over the sentences of a checkpoint."""
    folder, sentences = fetch(name), SENTENCES[name]
    ours, theirs = masquerade.load(folder), transformers.AutoModel.from_pretrained(folder).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = their_tokenizer(sentences, padding=True, return_tensors="pt")
    assert ours.has_tokenizer
    ids = [ours.tokenizer.encode(sentence, specials=True) for sentence in sentences]
    for row, mask, mine in zip(inputs["input_ids"], inputs["attention_mask"], ids, strict=True):
        assert row[mask > 0].tolist() == mine, "the tokenizers disagree"
    expected = theirs(**inputs).last_hidden_state
    states = ours.hidden(batch([bidirectional(row) for row in ids]))
    real = inputs["attention_mask"] > 0
    difference = float((states - expected)[real].abs().max())
    print(f"{name}: {len(sentences)} sentences, {int(real.sum())} tokens, largest state "
          f"{float(expected[real].abs().max()):.2f}, largest difference {difference:.1e}")  # fmt: skip
    return difference / float(expected[real].abs().max())


if __name__ == "__main__":
    sys.exit(any(compare(name) > 1e-5 for name in SENTENCES))
