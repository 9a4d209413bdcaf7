"""Tokenizers: published files in, ids out, and readable text back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer
from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.processors import TemplateProcessing

from masquerade.errors import CheckpointError, MasqueradeError
from masquerade.files import read_json, write_text
from masquerade.text.chinese import join_pieces
from masquerade.text.sentencepiece import read_sentencepiece

ROLES = {  # the special tokens, by what they do, under the names that published vocabularies give them
    "cls": ("[CLS]", "<s>", "<cls>", "<|endoftext|>"),
    "sep": ("[SEP]", "</s>", "<sep>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
}


class Tokenizer:
    """Text to ids and back, over the tokenizers library. Special tokens are known by their role."""

    def __init__(self, backend: Backend, named: dict[str, str] | None = None) -> None:
        self.backend = backend
        self.word_pieces: bool = json.loads(backend.to_str())["model"].get("type") == "WordPiece"
        self.specials: dict[str, int] = {}
        for role, usual in ROLES.items():
            names = (named[role],) if named and role in named else usual
            ids = [backend.token_to_id(name) for name in names]
            found = [number for number in ids if number is not None]
            if found:
                self.specials[role] = found[0]

    @staticmethod
    def load(folder: Path) -> Tokenizer | None:
        """The tokenizer of a checkpoint's folder, or None if it has no files of one."""
        settings = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
        try:
            backend = _backend(folder, settings)
        except CheckpointError:
            raise
        except Exception as error:  # the library raises bare Exceptions for damaged files
            raise CheckpointError(f"The tokenizer in {folder} cannot be read: {error}.") from error
        if backend is None:
            return None
        backend.no_truncation()
        backend.no_padding()
        return Tokenizer(backend, _named(settings))

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, its settings, and for word pieces the vocab.txt that older tools read."""
        write_text(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        settings |= {f"{role}_token": self.backend.id_to_token(number) for role, number in self.specials.items()}
        write_text(folder / "tokenizer_config.json", json.dumps(settings, indent=2, ensure_ascii=False))
        if self.word_pieces:
            write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in self.tokens(range(len(self)))))

    def lowercased(self) -> Tokenizer:
        """The same vocabulary over text in small letters: for word pieces without capitals that are published as if
        they had some, so that every capital is unknown."""
        other = Tokenizer(Backend.from_str(self.backend.to_str()))
        other.specials = dict(self.specials)
        other.backend.normalizer = BertNormalizer(lowercase=True)
        return other

    def __len__(self) -> int:
        """The size of the vocabulary."""
        return int(self.backend.get_vocab_size())

    def special(self, role: str) -> int:
        """The id of a special token: 'cls', 'sep', 'mask', 'pad' or 'unk'."""
        if role not in self.specials:
            raise MasqueradeError(f"This tokenizer has no {role} token, so it cannot be used here.")
        return self.specials[role]

    def encode(self, text: str, specials: bool = False) -> list[int]:
        """The ids of a text; with ``specials``, between the tokens that begin and end a sequence. Every usual way to
        write the mask token ([MASK], <mask>) is understood."""
        if "mask" in self.specials:
            own = self.tokens([self.specials["mask"]])[0]
            for name in ROLES["mask"]:
                text = text.replace(name, own)
        return list(self.backend.encode(text, add_special_tokens=specials).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, without special tokens."""
        return [list(encoding.ids) for encoding in self.backend.encode_batch(list(texts), add_special_tokens=False)]

    def encode_pairs(self, texts: Sequence[tuple[str, str | None]], length: int) -> list[tuple[list[int], list[int]]]:
        """The ids and segments of texts, each alone or with a second one, between the special tokens that this
        vocabulary puts around them; the longer text is cut first where both are longer than ``length`` tokens."""
        self.backend.enable_truncation(length, strategy="longest_first")
        try:
            inputs = [text if pair is None else (text, pair) for text, pair in texts]
            return [(list(each.ids), list(each.type_ids)) for each in self.backend.encode_batch(inputs)]
        finally:
            self.backend.no_truncation()

    def encode_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of texts, and where in its text each of them begins and ends. Without special tokens: a text that
        speaks of [MASK] has these letters."""
        self.backend.encode_special_tokens = True
        try:
            found = self.backend.encode_batch(list(texts), add_special_tokens=False)
        finally:
            self.backend.encode_special_tokens = False
        return [(list(each.ids), list(each.offsets)) for each in found]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The token of each id, as the vocabulary spells it."""
        return [self.backend.id_to_token(int(number)) or "" for number in ids]

    def word(self, number: int) -> str:
        """One token to show by itself: a word piece as it is spelled, anything else as it reads."""
        token = self.tokens([number])[0]
        return token if self.word_pieces else self.decode([number]).strip() or token

    def decode(self, ids: Sequence[int]) -> str:
        """Readable text: special tokens left out, word pieces joined, no spaces between Chinese characters."""
        hidden = set(self.specials.values()) - {self.specials.get("unk")}
        kept = [int(number) for number in ids if int(number) not in hidden]
        if self.word_pieces:
            return join_pieces(self.tokens(kept))
        return str(self.backend.decode(kept))


def _backend(folder: Path, settings: dict[str, Any]) -> Backend | None:
    """Whatever tokenizer files the folder has, the most complete first."""
    if (folder / "tokenizer.json").is_file():
        return Backend.from_file(str(folder / "tokenizer.json"))
    if (folder / "vocab.txt").is_file():
        return word_pieces(folder / "vocab.txt", settings.get("do_lower_case"))
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        made = ByteLevelBPETokenizer.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
        backend: Backend = made._tokenizer
        end, start = backend.token_to_id("</s>"), backend.token_to_id("<s>")
        if end is not None and start is not None:
            ends = [("<s>", start), ("</s>", end)]
            backend.post_processor = TemplateProcessing(
                single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
            )
        backend.add_special_tokens([name for names in ROLES.values() for name in names if backend.token_to_id(name)])
        return backend
    if (folder / "spm.model").is_file():
        return read_sentencepiece(folder, settings)
    return None


def word_pieces(vocabulary: Path, lowercase: bool | None = None) -> Backend:
    """A WordPiece tokenizer from a vocab.txt. Where ``lowercase`` is not given, text is lower-cased if no ordinary
    entry has a capital; entries such as [unused1] or <S>, which Google's Chinese vocabulary has, are not ordinary."""
    lines = vocabulary.read_text(encoding="utf-8").split("\n")
    words = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if lowercase is None:
        ordinary = (word.removeprefix("##") for word in words)
        lowercase = not any(word.isalpha() and word != word.lower() for word in ordinary)
    return BertWordPieceTokenizer({word: number for number, word in enumerate(words)}, lowercase=lowercase)._tokenizer


def _named(settings: dict[str, Any]) -> dict[str, str]:
    """The special tokens that tokenizer_config.json names, by role."""
    named = {}
    for role in ROLES:
        entry = settings.get(f"{role}_token")
        token = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(token, str):
            named[role] = token
    return named
