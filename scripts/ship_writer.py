"""Make a trained writer ready to ship: choose how it searches, and write it as int8 with its recipe and a hash.

    python scripts/ship_writer.py RUN TUNE models/title-en --recipe recipes/writer-title-t5.toml [--pairs 100]
        [--texts TRAIN --least 1]

TUNE is a file of pairs that no figure of the writer's card comes from. The number of beams, the length penalty and
whether three tokens may occur twice are chosen by ROUGE-L. Then 'masquerade evaluate writer' scores it.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from masquerade.checkpoints.folders import load, save
from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.files import write_text
from masquerade.text.subset import occurring
from masquerade.writing.pairs import read_pairs
from masquerade.writing.settings import WritingSettings
from masquerade.writing.writer import Writer, scored

GRID = [(beams, penalty, no_repeat) for beams in (1, 4) for penalty in (0.6, 1.0) for no_repeat in (0, 3)]


def main() -> None:
    """Choose, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("tune")
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--texts", help="training pairs: tokens that are rare in them are left out …")
    parser.add_argument("--least", type=int, default=1, help="… which occur less often than this")
    parser.add_argument("--length", type=int, default=0, help="the most tokens of a text; 0: as in training")
    asked = parser.parse_args()
    pairs, model = read_pairs(asked.tune).pairs[: asked.pairs], load(asked.run)
    if asked.texts:
        seen = (text for pair in read_pairs(asked.texts).pairs for text in (pair.source, pair.target))
        model, kept = keep_tokens(model, occurring(model.tokenizer, seen, asked.least))
        print(f"{len(kept):,} tokens are kept")
    save(model, asked.out, torch.int8)
    model = load(asked.out)  # what is shipped is what is measured
    settings = WritingSettings.of(model)
    settings = replace(settings, target_length=asked.length or settings.target_length)
    best, chosen = -1.0, settings
    for beams, penalty, no_repeat in GRID:
        if beams == 1 and penalty != 1.0:
            continue  # the penalty is one of beam search
        tried = replace(settings, beams=beams, length_penalty=penalty, no_repeat=no_repeat)
        writer = Writer(model, tried)
        texts = [each.text for each in writer.write_many([pair.source for pair in pairs])]
        found = scored(pairs, texts).total
        print(f"beams {beams}, length penalty {penalty}, no repeated {no_repeat}-gram: ROUGE-L {found['rouge_l']:.2f}")
        if found["rouge_l"] > best:
            best, chosen = found["rouge_l"], tried
    save(chosen.put(model), asked.out, torch.int8)
    shutil.copy(asked.recipe, asked.out / "recipe.toml")
    weights = asked.out / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    write_text(asked.out / "SHA256SUMS", f"{digest}  model.safetensors\n")
    print(f"{asked.out}: {chosen}, {weights.stat().st_size / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
