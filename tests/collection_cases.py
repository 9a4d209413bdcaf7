"""A folder of small documents, and tiny encoders, that the tests of collections share."""

from __future__ import annotations

from pathlib import Path

import torch

from masquerade import Spec, build, save
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.text.tokenizer import Tokenizer, word_pieces

HARBOUR = """# The harbour of Arvik

The harbour of Arvik was opened by Queen Ingrid in 1931. Its first master was Olaf Lund.

## The lighthouse

The lighthouse stands on the northern pier. It was built of red granite, and it is 34 metres high.
"""
BAKERY = "The bakery in Mill Street sells rye bread. It closes at noon on Saturdays.\n"
BRIDGE = "赵州桥建于隋朝，由李春设计建造。\n\n1994年，这座桥的护栏经过修复。桥长五十米。\n"
TEXTS = {"harbour.md": HARBOUR, "town/bakery.txt": BAKERY, "桥.txt": BRIDGE}


def write_folder(folder: Path) -> Path:
    """Three documents, English and Chinese, and a file that is no text."""
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    return folder


def tiny_encoder(folder: Path, seed: int = 0, pooling: Pooling | None = None, width: int = 16) -> Path:
    """The folder of an encoder with random weights whose vocabulary has every character of the documents."""
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    characters = sorted({character for text in TEXTS.values() for character in text.lower() if not character.isspace()})
    letters = [*characters, *(f"##{character}" for character in characters)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    spec = Spec(
        family="bert", vocab=len(words), width=width, layers=2, heads=2, feedforward=32, longest=64, segments=2,
        init_std=0.5, outputs=(),
    )  # fmt: skip
    model = build(spec)
    model.tokenizer = Tokenizer(word_pieces(folder / "vocab.txt"))
    save(model, folder)
    if pooling is not None:
        pooling.save(folder)
    return folder
