"""Tokenizers: from published files; from text to ids and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
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

ROLES = {  # special tokens by role, with their names in published vocabularies
    "cls": ("[CLS]", "<s>", "<cls>", "<|endoftext|>"),
    "sep": ("[SEP]", "</s>", "<sep>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
}


UNKNOWN = "<unk>"  # how corpora write an unknown word


class Tokenizer:
    """Text to ids and back, with the tokenizers library. Special tokens are found by role."""

    def __init__(self, backend: Backend, named: dict[str, str] | None = None) -> None:
        self.backend = backend
        self.word_pieces: bool = json.loads(backend.to_str())["model"].get("type") == "WordPiece"
        self._truncated: tuple[int, Backend] | None = None
        self.specials: dict[str, int] = {}
        for role, usual in ROLES.items():
            names = (named[role],) if named and role in named else usual
            ids = [backend.token_to_id(name) for name in names]
            found = [number for number in ids if number is not None]
            if found:
                self.specials[role] = found[0]

    @staticmethod
    def load(folder: Path) -> Tokenizer | None:
        """The tokenizer in the folder of a checkpoint, or None if it has no tokenizer files."""
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
        """A copy that lower-cases text: for uncased vocabularies that are published with a cased tokenizer, which turns
        every capital into [UNK]."""
        other = Tokenizer(self._copy())
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
        """The ids of a text; with ``specials``, between the tokens that begin and end a sequence. [MASK] and <mask>
        both stand for the mask token."""
        if "mask" in self.specials:
            own = self.tokens([self.specials["mask"]])[0]
            for name in ROLES["mask"]:
                text = text.replace(name, own)
        return list(self.backend.encode(text, add_special_tokens=specials).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, without special tokens. ``<unk>``, which WikiText has for rare words, is the
        unknown token."""
        own = self.tokens([self.specials["unk"]])[0] if "unk" in self.specials else UNKNOWN
        known = [text.replace(UNKNOWN, own) for text in texts]
        return [list(encoding.ids) for encoding in self.backend.encode_batch(known, add_special_tokens=False)]

    def encode_pairs(self, texts: Sequence[tuple[str, str | None]], length: int) -> list[tuple[list[int], list[int]]]:
        """The ids and segments of texts or pairs of texts, with special tokens, truncated to ``length`` tokens, the
        longer text of a pair first."""
        backend = self._truncating(length)
        inputs = [text if pair is None else (text, pair) for text, pair in texts]
        return [(list(each.ids), list(each.type_ids)) for each in backend.encode_batch(inputs)]

    def encode_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of texts, and the character offsets of each id. Without special tokens: "[MASK]" in a text is
        encoded as ordinary characters."""
        found = self._literal.encode_batch(list(texts), add_special_tokens=False)
        return [(list(each.ids), list(each.offsets)) for each in found]

    # A setting of a backend holds for all threads that use it, so each setting has a copy of its own.

    @cached_property
    def _literal(self) -> Backend:
        """A copy of the backend that encodes the names of special tokens as ordinary characters."""
        made = self._copy()
        made.encode_special_tokens = True
        return made

    def _truncating(self, length: int) -> Backend:
        """A copy of the backend that truncates to ``length`` tokens; the last one is kept."""
        kept = self._truncated
        if kept is None or kept[0] != length:
            kept = length, self._copy()
            kept[1].enable_truncation(length, strategy="longest_first")
            self._truncated = kept
        return kept[1]

    def _copy(self) -> Backend:
        return Backend.from_str(self.backend.to_str())

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The token of each id, as the vocabulary spells it."""
        return [self.backend.id_to_token(int(number)) or "" for number in ids]

    @cached_property
    def small_letters(self) -> list[int]:
        """For each id that of the same token in small letters, if the vocabulary has it; otherwise the id itself."""
        numbers = self.backend.get_vocab()
        spelled = self.tokens(range(max(numbers.values(), default=-1) + 1))  # more than there are, if ids are left out
        return [numbers.get(token.lower(), number) for number, token in enumerate(spelled)]

    def word(self, number: int) -> str:
        """One token as text: a word piece as the vocabulary spells it, other tokens decoded."""
        token = self.tokens([number])[0]
        return token if self.word_pieces else self.decode([number]).strip() or token

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids: without special tokens, with word pieces joined and no spaces between Chinese characters."""
        hidden = set(self.specials.values()) - {self.specials.get("unk")}
        kept = [int(number) for number in ids if int(number) not in hidden]
        if self.word_pieces:
            return join_pieces(self.tokens(kept))
        return str(self.backend.decode(kept))


def _backend(folder: Path, settings: dict[str, Any]) -> Backend | None:
    """The tokenizer of the most complete files in the folder."""
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
