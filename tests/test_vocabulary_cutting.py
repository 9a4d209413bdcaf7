"""A vocabulary cut to what is needed: the same tokens, the same scores, an ordinary checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import randomised

from masquerade import Model, Spec, build, load, save
from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.decoding.constraints import TokenSet
from masquerade.errors import MasqueradeError
from masquerade.text.subset import cut, occurring
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.training import KINDS, train_tokenizer
from masquerade.writing.generate import generate

TEXTS = [
    "北京是中国的首都，也是一座历史名城。",
    "the capital of China is Beijing, an old city with many temples",
    "上海有许多高楼；the towers of Shanghai are tall.",
    "language models read and write, masked or not: 语言模型会读也会写",
]
TOKENIZERS = {kind: train_tokenizer(TEXTS * 3, kind, size=420 if kind == "bpe" else 160) for kind in KINDS}
WORDS = sorted({word for text in TEXTS for word in text.replace("，", " ").split()})


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_have_only_kept_tokens_are_cut_as_before(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]

    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        st.lists(st.text(alphabet="北京上海读写 abctheow,。", max_size=6), max_size=4),
    )
    def check(kept: list[str], others: list[str]) -> None:
        smaller, old = cut(tokenizer, occurring(tokenizer, kept))
        for text in [*kept, " ".join(kept), "".join(kept), *others]:
            before = tokenizer.encode(text, specials=True)
            if set(before) <= set(old):
                assert [old[number] for number in smaller.encode(text, specials=True)] == before
                assert smaller.decode(smaller.encode(text)) == tokenizer.decode(tokenizer.encode(text))

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_tokenizer_is_smaller_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind]
    smaller, old = cut(tokenizer, occurring(tokenizer, [TEXTS[0]]))
    assert len(smaller) == len(old) < len(tokenizer)
    assert smaller.tokens(range(len(old))) == tokenizer.tokens(old)
    assert {role: old[number] for role, number in smaller.specials.items()} == tokenizer.specials
    smaller.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again is not None
    assert again.encode(TEXTS[0], specials=True) == smaller.encode(TEXTS[0], specials=True)
    assert again.specials == smaller.specials


def test_only_tokens_that_occur_often_enough_are_chosen() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    once, twice = tokenizer.encode("北 京 京"), tokenizer.encode("京")
    assert occurring(tokenizer, ["北 京", "京"]) == sorted(set(once))
    assert occurring(tokenizer, ["北 京", "京"], least=2) == twice


def test_every_byte_stays_writable_under_byte_pairs() -> None:
    smaller, _ = cut(TOKENIZERS["bpe"], occurring(TOKENIZERS["bpe"], ["city"]))
    assert smaller.decode(smaller.encode("从未见过 ünseen")) == "从未见过 ünseen"


def reference(kind: str, tied: bool) -> Any:
    """A tiny random model for the word-piece vocabulary."""
    vocab = len(TOKENIZERS["wordpiece"]) + 3  # some rows more than there are tokens, as published models have them
    sizes: dict[str, Any] = {
        "bert": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3},
        "t5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "eos_token_id": 3,
               "decoder_start_token_id": 0},
    }[kind]  # fmt: skip
    config, name = {
        "bert": ("BertConfig", "BertForMaskedLM"),
        "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
        "t5": ("T5Config", "T5ForConditionalGeneration"),
    }[kind]
    made = getattr(transformers, config)(**sizes, vocab_size=vocab, tie_word_embeddings=tied)
    return randomised(getattr(transformers, name)(made), 0.3)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_the_scores_of_kept_tokens_are_what_they_were(kind: str, tied: bool, tmp_path: Path) -> None:
    theirs = reference(kind, tied)
    theirs.save_pretrained(tmp_path / "whole")
    TOKENIZERS["wordpiece"].save(tmp_path / "whole")
    whole = load(tmp_path / "whole")
    smaller, old = keep_tokens(whole, occurring(TOKENIZERS["wordpiece"], [TEXTS[0]]))
    save(smaller, tmp_path / "cut")
    again = load(tmp_path / "cut")
    assert again.spec == smaller.spec
    assert again.spec.vocab == len(old) < whole.spec.vocab
    assert smaller.has_tokenizer
    new = torch.tensor([smaller.tokenizer.encode(TEXTS[0], specials=True)])
    before = torch.tensor(old)[new]
    extra = [{"decoder_input_ids": ids[:, :5]} if kind == "t5" else {} for ids in (before, new)]
    with torch.no_grad():
        expected = whole.logits(before, **extra[0])
        reread = type(theirs).from_pretrained(tmp_path / "cut").eval()(new, **extra[1]).logits
        for got in (smaller.logits(new, **extra[1]), again.logits(new, **extra[1]), reread):
            assert isinstance(got, torch.Tensor) and isinstance(expected, torch.Tensor)
            torch.testing.assert_close(got, expected[..., old], atol=1e-5, rtol=0)


def test_a_cut_model_writes_what_the_whole_one_writes_under_that_token_set(tmp_path: Path) -> None:
    reference("gpt2", True).save_pretrained(tmp_path)
    TOKENIZERS["wordpiece"].save(tmp_path)
    whole = load(tmp_path)
    smaller, old = keep_tokens(whole, occurring(TOKENIZERS["wordpiece"], TEXTS[:1]))
    expected = generate(whole, "北京是", max_new=8, constraint=TokenSet(old))[0]
    got = generate(smaller, "北京是", max_new=8)[0]
    assert [old[number] for number in got.ids] == expected.ids
    assert got.text == expected.text != generate(whole, "北京是", max_new=8)[0].text


def test_a_configuration_names_its_tokens_by_their_new_ids(tmp_path: Path) -> None:
    reference("t5", True).save_pretrained(tmp_path)
    TOKENIZERS["wordpiece"].save(tmp_path)
    whole = load(tmp_path)
    smaller, old = keep_tokens(whole, occurring(TOKENIZERS["wordpiece"], TEXTS[:1]))
    named = {key: value for key, value in smaller.config.items() if key.endswith("_token_id") and value is not None}
    assert named
    assert {key: old[value] for key, value in named.items()} == {key: whole.config[key] for key in named}


def test_what_cannot_be_cut_is_told_in_a_sentence() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    with pytest.raises(MasqueradeError, match="There is no token 9999 to keep"):
        cut(tokenizer, [9999])
    with pytest.raises(MasqueradeError, match="The texts have no tokens"):
        occurring(tokenizer, [""])
    with pytest.raises(MasqueradeError, match="at least 1"):
        occurring(tokenizer, ["北"], least=0)
    small: dict[str, Any] = {"width": 8, "layers": 1, "heads": 1, "feedforward": 8, "outputs": ("lm",)}
    with pytest.raises(MasqueradeError, match="without a tokenizer"):
        keep_tokens(build(Spec(vocab=20, **small)), [5])
    with pytest.raises(MasqueradeError, match="check that the tokenizer belongs to it"):
        keep_tokens(Model(Spec(vocab=20, **small), tokenizer), [50])
    clusters = Spec(vocab=len(tokenizer), cutoffs=(20,), lm_dense=False, **small)
    with pytest.raises(MasqueradeError, match="clusters"):
        keep_tokens(Model(clusters, tokenizer), [5])
