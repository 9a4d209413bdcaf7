"""Training of tokenizers on texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import UNKNOWN, Tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KINDS = ("wordpiece", "bpe", "unigram", "characters")


def train_tokenizer(
    texts: Iterable[str], kind: str = "wordpiece", size: int = 8000, lowercase: bool = True, sentinels: int = 0
) -> Tokenizer:
    """A tokenizer trained on texts: word pieces (BERT; Chinese characters are single tokens), byte-level BPE (GPT-2),
    unigrams (T5), or characters. ``sentinels`` reserves tokens <extra_id_0>, <extra_id_1> … for T5's spans."""
    if kind not in KINDS:
        raise MasqueradeError(f"There is no tokenizer of kind '{kind}'; choose from {', '.join(KINDS)}.")
    specials = [*SPECIALS, *(f"<extra_id_{number}>" for number in range(sentinels))]
    if size <= len(specials):
        raise MasqueradeError(f"A vocabulary of {size} tokens has only special ones; give more than {len(specials)}.")
    seen, some = _peek(text.replace(UNKNOWN, " ") for text in texts)
    if not some:
        raise MasqueradeError("There is no text to train a tokenizer on; give at least one document.")
    made = _characters if kind == "characters" else partial(_trained, kind)
    backend = made(seen, size, lowercase, specials)
    cls, sep = (("[CLS]", 2), ("[SEP]", 3))
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[cls, sep]
    )
    return Tokenizer(backend)


def _trained(kind: str, texts: Iterator[str], size: int, lowercase: bool, specials: list[str]) -> Backend:
    """A tokenizer of a kind that the library trains."""
    trainer: trainers.Trainer
    if kind == "wordpiece":
        backend = Backend(models.WordPiece(unk_token="[UNK]"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials, show_progress=False)
    elif kind == "bpe":
        backend = Backend(models.BPE())
        backend.normalizer = normalizers.Lowercase() if lowercase else None
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
        )
    else:
        backend = Backend(models.Unigram())
        backend.normalizer = normalizers.Sequence(
            [normalizers.NFKC(), *([normalizers.Lowercase()] if lowercase else [])]
        )
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=size, special_tokens=specials, unk_token="[UNK]", show_progress=False
        )
    backend.train_from_iterator(texts, trainer)
    return backend


def _characters(texts: Iterator[str], size: int, lowercase: bool, specials: list[str]) -> Backend:
    """A tokenizer of the most frequent characters, spaces included; all others are unknown."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update((text.lower() if lowercase else text).replace(" ", "▁"))
    words = specials + [character for character, _ in counts.most_common(size - len(specials))]
    backend = Backend(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Sequence(
        [*([normalizers.Lowercase()] if lowercase else []), normalizers.Replace(" ", "▁")]
    )
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace("▁", " ")])
    backend.add_special_tokens(specials)
    return backend


def _peek(texts: Iterable[str]) -> tuple[Iterator[str], bool]:
    """The texts, and whether there is at least one."""
    stream = iter(texts)
    first = next(stream, None)

    def again() -> Iterator[str]:
        if first is not None:
            yield first
        yield from stream

    return again(), first is not None
