"""Text to ids and back, in English and Chinese, from every kind of tokenizer file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import transformers
from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer

from masquerade.data.corpus import read_documents
from masquerade.errors import CheckpointError, MasqueradeError
from masquerade.text.chinese import is_wide, join_pieces
from masquerade.text.sentences import SENTENCE, SENTENCE_END
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.training import KINDS, train_tokenizer

FIXTURES = Path(__file__).parent / "fixtures"
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "sat",
    "##s",
    "on",
    ".",
    ",",
    "北",
    "京",
    "是",
    "首",
    "都",
    "，",
    "。",
    "un",
    "##happy",
    "2",
    "0",
]


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return tmp_path


def test_a_vocabulary_file_alone_gives_the_reference_tokens(pieces: Path) -> None:
    tokenizer = Tokenizer.load(pieces)
    assert tokenizer is not None
    reference = transformers.BertTokenizer(str(pieces / "vocab.txt"))
    for text in ("The cats sat on the cat.", "北京是首都，the cat", "unhappy [MASK] 北[MASK]", "２０ 王 ＣＡＴ"):
        assert tokenizer.encode(text, specials=True) == reference(text)["input_ids"]


def test_capitals_are_kept_if_the_vocabulary_has_any(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\nThe\nthe\n[SEP]\n", encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer is not None
    assert tokenizer.encode("The the") == [2, 3]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.load(tmp_path).encode("The the") == [3, 3]  # type: ignore[union-attr]


def test_entries_in_angle_brackets_do_not_make_a_vocabulary_cased(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "<T>", "the", "gpu", "in", "paris", "##s", "首"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer is not None
    assert tokenizer.tokens(tokenizer.encode("The GPU in Paris")) == ["the", "gpu", "in", "paris"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert Tokenizer.load(tmp_path).encode("The") == [1]  # type: ignore[union-attr]


def test_a_sentence_ends_at_a_stop_but_not_after_a_title_or_an_initial() -> None:
    text = "Dr. J. Smith came. “北京是首都。”他说。 Was it 3.5 km? No\nYes"
    found = [match.group() for match in SENTENCE.finditer(text)]
    assert found == ["Dr. J. Smith came.", "“北京是首都。”", "他说。", "Was it 3.5 km?", "No", "Yes"]
    assert [text[: stop.end()][-2:] for stop in SENTENCE_END.finditer(text)] == ["e.", "。”", "说。", "m?"]


def test_a_corpus_in_another_encoding_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "gbk.txt").write_bytes("中文的一句话。".encode("gb18030"))
    with pytest.raises(MasqueradeError, match="not text in UTF-8; convert it first"):
        train_tokenizer(read_documents(str(tmp_path / "gbk.txt")))


def test_text_comes_back_readable(pieces: Path) -> None:
    tokenizer = Tokenizer.load(pieces)
    assert tokenizer is not None
    for text in ("the cats sat on the cat.", "北京是首都，the cat。", "unhappy cat"):
        assert tokenizer.decode(tokenizer.encode(text, specials=True)) == text.replace("，the", "，the")


def test_two_threads_may_encode_with_one_tokenizer(pieces: Path) -> None:
    tokenizer, done = Tokenizer.load(pieces), threading.Event()
    assert tokenizer is not None
    long, masked = "the cats sat on [MASK] . " * 2000, "the [MASK] sat on the cat ."
    alone = (tokenizer.encode(masked), tokenizer.encode_places([masked]), tokenizer.encode_places([long]))
    wrong = list[str]()

    def encode() -> None:
        while not done.is_set():
            if tokenizer.encode(masked) != alone[0]:
                wrong.append("encode")
            if tokenizer.encode_places([masked]) != alone[1]:
                wrong.append("encode_places")

    other = threading.Thread(target=encode)
    other.start()
    for _ in range(10):
        if tokenizer.encode_places([long]) != alone[2]:
            wrong.append("encode_places, long")
        tokenizer.encode_pairs([(long, None)], 4)  # truncates its own texts, and no others
    done.set()
    other.join()
    assert not wrong


def test_chinese_is_joined_without_spaces_and_words_with_them() -> None:
    assert join_pieces(["北", "京", "is", "the", "cap", "##ital", ",", "首", "都", "。", "ok", "!"]) == (
        "北京is the capital,首都。ok!"
    )
    assert [is_wide(character) for character in "京，ｶＡ。a1 é"] == [True] * 5 + [False] * 4


def test_saving_gives_files_that_this_and_the_reference_library_read(pieces: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(pieces)
    assert tokenizer is not None
    target = tmp_path / "saved"
    tokenizer.save(target)
    assert (target / "vocab.txt").read_text(encoding="utf-8").split() == VOCABULARY
    again = Tokenizer.load(target)
    assert again is not None
    assert again.specials == tokenizer.specials
    reference = transformers.PreTrainedTokenizerFast.from_pretrained(target)
    text = "北京 the cats [MASK]"
    assert again.encode(text, True) == tokenizer.encode(text, True) == reference(text)["input_ids"]
    assert reference.mask_token == "[MASK]"


def test_byte_level_pieces_know_their_special_tokens(tmp_path: Path) -> None:
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(
        ["the cat sat", "北京"], vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    made.save_model(str(tmp_path))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer is not None
    ids = tokenizer.encode("the [MASK] sat 北京", specials=True)
    assert (ids[0], ids[-1]) == (tokenizer.special("cls"), tokenizer.special("sep"))
    assert ids.count(tokenizer.special("mask")) == 1
    assert tokenizer.decode(tokenizer.encode("the cat 北京")) == "the cat 北京"


def test_a_folder_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    assert Tokenizer.load(tmp_path) is None


def test_a_damaged_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": {"type": "Nothing"}}))
    with pytest.raises(CheckpointError, match=r"The tokenizer in .* cannot be read"):
        Tokenizer.load(tmp_path)


def test_a_special_token_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\nthe\n")
    with pytest.raises(MasqueradeError, match="has no mask token"):
        Tokenizer.load(tmp_path).special("mask")  # type: ignore[union-attr]


TEXTS = ["The cat sat on the mat.", "北京是中国的首都。", "Cats and dogs run; 狗和猫在跑。"] * 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_trained_saved_and_reads_back_what_it_wrote(kind: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(iter(TEXTS), kind, 300 if kind == "bpe" else 100)
    assert tokenizer.tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again is not None
    for text in ("the cat runs; 北京在跑。", "a [MASK] sat"):
        ids = again.encode(text, specials=True)
        assert ids == tokenizer.encode(text, specials=True)
        assert (ids[0], ids[-1]) == (2, 3)
        assert ids.count(4) == text.count("[MASK]")
    assert again.decode(again.encode("The cats run;北京在跑。")) == "the cats run;北京在跑。"


def test_a_vocabulary_that_cannot_be_made_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="no tokenizer of kind 'morse'"):
        train_tokenizer(TEXTS, "morse")
    with pytest.raises(MasqueradeError, match="tokens has only special ones"):
        train_tokenizer(TEXTS, "bpe", 5)
    with pytest.raises(MasqueradeError, match="no text to train a tokenizer on"):
        train_tokenizer([])


def test_a_sentencepiece_file_of_deberta_gives_the_ids_of_sentencepiece(tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / "deberta" / "expected.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(FIXTURES / "deberta")
    assert tokenizer is not None
    for text, ids in expected.items():
        assert tokenizer.encode(text) == ids
    assert [tokenizer.specials[role] for role in ("pad", "cls", "sep", "unk")] == [0, 1, 2, 3]
    assert tokenizer.specials["mask"] == len(tokenizer) - 1
    text = "The Danube flows"
    ids, segments = tokenizer.encode_pairs([(text, "Rhine")], 40)[0]
    inner = [tokenizer.encode(text), tokenizer.encode("Rhine")]
    assert ids == [1, *inner[0], 2, *inner[1], 2] and segments == [0] * (len(inner[0]) + 2) + [1] * (len(inner[1]) + 1)
    assert tokenizer.decode(ids) == "The Danube flows Rhine"
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again is not None and again.encode("谁修建了都江堰？") == expected["谁修建了都江堰？"]


def test_a_damaged_sentencepiece_file_is_one_sentence(tmp_path: Path) -> None:
    whole = (FIXTURES / "deberta" / "spm.model").read_bytes()
    for data in (whole[: len(whole) // 2], b"\xff" * 40, b"", b"plain text"):
        (tmp_path / "spm.model").write_bytes(data)
        with pytest.raises(CheckpointError, match=r"spm\.model"):
            Tokenizer.load(tmp_path)


def test_a_token_in_small_letters_is_found_where_the_vocabulary_has_it(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text(
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nThe\nthe\nRome\n##Ab\n##ab\n中\n", encoding="utf-8"
    )
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer is not None
    assert tokenizer.small_letters == [0, 1, 2, 3, 5, 5, 6, 8, 8, 9]
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nThe\n中\n中\nthe\n", encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer is not None
    assert len(tokenizer) == 7 and tokenizer.small_letters[4] == tokenizer.small_letters[7] == 7
