"""Published checkpoints that write: the texts of Writer.load are those of the reference's ``generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from writers import END, PAD, START, VOCAB, writer

import masquerade
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.writer import Writer

NAMES = ["<pad>", "<unk>", "</s>", "<s>", *(f"w{number}" for number in range(4, VOCAB))]
TEXTS = ["w7 w8 w9 w30 w11", "w5 w21", "w33 w33 w12 w6 w25 w18 w9"]
SETTINGS = {
    "t5": {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "min_length": 4, "max_length": 12},
    "bart": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": True, "max_length": 9, "forced_bos_token_id": 6},
    "pegasus": {"num_beams": 4, "length_penalty": 0.6, "max_length": 11},
}


def words(folder: Path) -> Tokenizer:
    """A tokenizer of the tiny vocabulary, which ends every source, saved in the folder."""
    backend = Backend(WordLevel({name: number for number, name in enumerate(NAMES)}, unk_token="<unk>"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    made = Tokenizer(backend)
    made.save(folder)
    return made


def published(kind: str, folder: Path) -> tuple[Any, Tokenizer]:
    """A tiny random checkpoint with a generation_config.json, as the reference saves it."""
    reference, _ = writer(kind, folder)
    for name, value in SETTINGS[kind].items():
        setattr(reference.generation_config, name, value)
    reference.generation_config.decoder_start_token_id, reference.generation_config.pad_token_id = START, PAD
    reference.save_pretrained(folder)
    return reference, words(folder)


@pytest.mark.parametrize("kind", SETTINGS)
def test_texts_are_those_of_the_reference(kind: str, tmp_path: Path) -> None:
    reference, tokenizer = published(kind, tmp_path)
    found = Writer.load(tmp_path).write_many(TEXTS)
    for text, ours in zip(TEXTS, found, strict=True):
        theirs = reference.generate(torch.tensor([tokenizer.encode(text, specials=True)]))[0].tolist()
        started = 2 if "forced_bos_token_id" in SETTINGS[kind] else 1
        assert ours.text == tokenizer.decode([number for number in theirs[started:] if number not in (PAD, END)])


def test_n_best_and_greedy_are_those_of_the_reference(tmp_path: Path) -> None:
    reference, tokenizer = published("pegasus", tmp_path)
    ids = torch.tensor([tokenizer.encode(TEXTS[0], specials=True)])
    made = Writer.load(tmp_path)
    best = made.write(TEXTS[0], n_best=3)
    theirs = reference.generate(ids, num_return_sequences=3).tolist()
    expected = [tokenizer.decode([number for number in each if number not in (PAD, END)]) for each in theirs]
    assert [best.text, *(each.text for each in best.alternatives)] == expected
    greedy = reference.generate(ids, num_beams=1)[0].tolist()
    assert made.write(TEXTS[0], "greedy").text == tokenizer.decode([n for n in greedy if n not in (PAD, END)])


def test_a_source_that_is_too_long_is_cut_and_says_so(tmp_path: Path) -> None:
    published("bart", tmp_path)
    made = Writer.load(tmp_path)
    long = " ".join(["w5"] * 60)
    assert made.write(long).unread == 60 + 1 - 40
    assert made.write(TEXTS[0]).unread == 0
    whole = made.write_windows(long)
    parts = made.write_many([" ".join(["w5"] * 39), " ".join(["w5"] * 21)])
    assert whole.text == " ".join(each.text for each in parts)


def test_the_dropped_pipelines_are_back(tmp_path: Path) -> None:
    reference, tokenizer = published("pegasus", tmp_path)
    ids = torch.tensor([tokenizer.encode(TEXTS[0], specials=True)])

    def expected(**options: Any) -> list[str]:
        theirs = reference.generate(ids, **options).tolist()
        return [tokenizer.decode([number for number in each if number not in (PAD, END)]) for each in theirs]

    summarize = masquerade.pipeline("summarization", str(tmp_path), max_length=8)
    assert summarize(TEXTS[0]) == [{"summary_text": expected(max_length=8)[0]}]
    assert summarize(TEXTS, num_beams=1)[0] == {"summary_text": expected(max_length=8, num_beams=1)[0]}
    several = masquerade.pipeline("text2text-generation", summarize.writer)(TEXTS[0], num_return_sequences=2)
    assert [each["generated_text"] for each in several] == expected(num_return_sequences=2)
    with pytest.raises(MasqueradeError, match="no option 'speed'"):
        summarize(TEXTS[0], speed=3)
    with pytest.raises(MasqueradeError, match="needs a model"):
        masquerade.pipeline("summarization")


def test_what_cannot_write_is_one_sentence(tmp_path: Path) -> None:
    published("bart", tmp_path)
    made = Writer.load(tmp_path)
    with pytest.raises(MasqueradeError, match="Text 2 is empty"):
        made.write_many(["w5", " "])
    with pytest.raises(MasqueradeError, match="take a list of texts"):
        made.write_many("w5")
    with pytest.raises(MasqueradeError, match="A text of 41 tokens is longer than the decoder, which has 40 positions"):
        made.write("w5", max_new=41)
    with pytest.raises(MasqueradeError, match="no task 'summary'; it has none"):
        made.write("w5", task="summary")
    with pytest.raises(MasqueradeError, match="'rounds' is no setting of the method 'beam'"):
        made.write("w5", rounds=3)
