"""What networks are measured against: recurrent and n-gram language models, and the numbers that compare them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from masquerade.checkpoints.folders import load, save
from masquerade.errors import LayoutError, MasqueradeError, SpecError
from masquerade.layout import Layout, batch, pad
from masquerade.masks import backward, bidirectional, blocks, causal, pack, permuted, prefix, two_stream, window
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.training import train_tokenizer
from masquerade.training.loop import Run
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining
from masquerade.writing.ngram import USUAL, NGram, _discounts
from masquerade.writing.perplexity import Perplexity, documents, first_tokens, ngram_perplexity, perplexity, show

TINY = Spec(vocab=30, width=8, layers=2, recurrent="lstm", positions=(), segments=0, outputs=("lm",))
TEXT = "the cat sat on a warm mat and saw two dogs run by an old red house near the blue sea 北京是中国的首都。"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([TEXT], "wordpiece", 200)


def drawn(seed: int, count: int, top: int = 30) -> list[int]:
    return torch.randint(top, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


# recurrent


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_packed_documents_have_the_states_they_have_alone(kind: str) -> None:
    model = build(replace(TINY, recurrent=kind)).eval()
    apart = [causal(drawn(seed, 3 + 4 * seed)) for seed in range(4)]
    together = batch([pack(apart[:3]), pack(apart[3:])])
    states, expected = model.hidden(together), [model.hidden(layout)[0] for layout in apart]
    real = together.real
    assert not real.all(), "the test has to have padding"
    torch.testing.assert_close(states[0, real[0]], torch.cat(expected[:3]), atol=1e-5, rtol=0)
    torch.testing.assert_close(states[1, real[1]], expected[3], atol=1e-5, rtol=0)
    assert not states[~real].any()


def test_documents_may_lie_between_each_other() -> None:
    model = build(TINY).eval()
    whole = pack([causal(drawn(1, 5)), causal(drawn(2, 5))])
    order = torch.tensor([0, 5, 1, 6, 7, 2, 8, 3, 4, 9])
    states = model.hidden(whole)[:, order]
    torch.testing.assert_close(model.hidden(whole[order]), states, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_stack_is_what_the_equations_say(kind: str) -> None:
    model = build(replace(TINY, recurrent=kind, layers=1, embedding_norm=False)).eval()
    ids = drawn(0, 6)
    weights = dict(model.stack.cells.named_parameters())
    into, over = weights["weight_ih_l0"], weights["weight_hh_l0"]
    one, two = weights["bias_ih_l0"], weights["bias_hh_l0"]
    hidden = cell = torch.zeros(8)
    for step, x in enumerate(model.words.table.weight[ids]):
        new, old = into @ x + one, over @ hidden + two
        if kind == "lstm":
            enter, forget, fresh, leave = (new + old).chunk(4)
            cell = forget.sigmoid() * cell + enter.sigmoid() * fresh.tanh()
            hidden = leave.sigmoid() * cell.tanh()
        else:
            (r, z, n), (r_old, z_old, n_old) = new.chunk(3), old.chunk(3)
            keep = (z + z_old).sigmoid()
            hidden = keep * hidden + (1 - keep) * (n + (r + r_old).sigmoid() * n_old).tanh()
        torch.testing.assert_close(model.hidden(causal(ids))[0, step], hidden, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "layout",
    [
        bidirectional([1, 2, 3]),
        backward([1, 2, 3]),
        permuted([1, 2, 3], [0, 2, 1]),
        prefix([1, 2, 3], [4, 5]),
        two_stream([1, 2, 3], [0, 1, 2], mask=4),
        blocks([1, 2, 3, 4], 2, noisy=[1, 0, 0, 4]),
        window(causal([1, 2, 3]), 1),
        causal([1, 2, 3]).replace(branch=[0, 1, 2]),
        pack([causal([1, 2, 3]), bidirectional([1, 2])]),
    ],
    ids=["bidirectional", "backward", "permuted", "prefix", "two_stream", "blocks", "window", "branches", "packed"],
)
def test_a_recurrent_model_refuses_every_mask_but_the_causal_one(layout: Layout) -> None:
    with pytest.raises(LayoutError, match="needs a causal layout"):
        build(TINY).hidden(layout)


def test_a_recurrent_model_takes_no_memory() -> None:
    with pytest.raises(LayoutError, match="takes no memory of keys"):
        build(TINY).blank_memory(1, 4)


def test_a_row_of_padding_alone_has_zero_states() -> None:
    assert not build(TINY).hidden(pad(causal([]).batched(), 3)).any()


def test_padded_tensors_are_read_from_left_to_right() -> None:
    model = build(TINY).eval()
    ids = torch.tensor([drawn(0, 5)])
    torch.testing.assert_close(model.logits(ids), model.scores(causal(ids[0])), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"recurrent": "rnn"}, "There is no recurrent layer 'rnn'; choose from lstm, gru"),
        ({"groups": 1}, "no shared weights"),
        ({"positions": ("rotary",)}, "they take no distances"),
    ],
)
def test_recurrent_specs_that_cannot_be_are_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        replace(TINY, **changes)  # type: ignore[arg-type]


def test_a_recurrent_spec_is_causal_and_its_width_is_free_of_heads() -> None:
    spec = Spec(width=50, recurrent="gru")
    assert spec.mask == "causal"
    assert Spec.of({**vars(spec)}) == spec


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_model_comes_back_from_disk_as_it_was(tmp_path: Path, kind: str) -> None:
    model = build(replace(TINY, recurrent=kind, norm_first=True)).eval()
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == model.spec
    layout = causal(drawn(0, 7))
    assert torch.equal(again.scores(layout), model.scores(layout))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_model_trains_with_the_one_trainer(tokenizer: Tokenizer, tmp_path: Path, kind: str) -> None:
    tokenizer.save(tmp_path / "vocab")
    (tmp_path / "text.txt").write_text("\n\n".join([TEXT] * 20), encoding="utf-8")
    recipe = Pretraining(
        objective="next",
        train=(str(tmp_path / "text.txt"),),
        held_out=(str(tmp_path / "text.txt"),),
        tokenizer=str(tmp_path / "vocab"),
        out=str(tmp_path / "run"),
        model={"recurrent": kind, "positions": [], "segments": 0, "width": 16, "layers": 2},
        length=24,
        row=60,
        rows=4,
        steps=30,
        warmup=3,
        rate=0.01,
        recompute=True,
        held_out_rows=2,
    )
    run = Run(Pretrain(recipe))
    before = run.evaluate()["held_out"]
    run.train()
    assert run.evaluate()["held_out"] < 0.8 * before
    again = load(tmp_path / "run" / "step-30")
    assert again.spec.recurrent == kind
    seen = perplexity(again, [TEXT], length=24)
    assert seen.loss_per_token < before


# n-grams

START = "start"


def brute_force(corpus: Sequence[Sequence[int]], order: int, vocab: int) -> dict[tuple[int, tuple[object, ...]], float]:
    """Interpolated modified Kneser–Ney from its definition: the probability of every word behind every context made of
    up to ``order`` − 1 symbols of which only the first may be the start."""
    lines = [(START, *document) for document in corpus if document]
    times: Counter[tuple[object, ...]] = Counter()
    for line in lines:
        for begin in range(len(line)):
            for stop in range(begin + 1, min(begin + order, len(line)) + 1):
                times[line[begin:stop]] += 1

    def adjusted(gram: tuple[object, ...]) -> int:
        if len(gram) == order or gram[0] == START:
            return times[gram]
        return sum(1 for symbol in (START, *range(vocab)) if times[(symbol, *gram)])

    def discounts(length: int) -> list[float]:
        grams = [gram for gram in times if len(gram) == length and gram != (START,)]
        n = Counter(adjusted(gram) for gram in grams)
        if n[1] and n[2] and n[3]:
            y = n[1] / (n[1] + 2 * n[2])
            found = [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]
            if all(0 < d <= j for j, d in enumerate(found, 1)):
                return [0.0, *found]
        return [0.0, 0.5, 1.0, 1.5]

    taken = {length: discounts(length) for length in range(1, order + 1)}

    def probability(word: int, context: tuple[object, ...]) -> float:
        lower = probability(word, context[1:]) if context else 1 / vocab
        counts = {follower: adjusted((*context, follower)) for follower in range(vocab)}
        total = sum(counts.values())
        if not total:
            return lower
        discount = taken[len(context) + 1]
        given = sum(discount[min(count, 3)] for count in counts.values())
        own = counts[word] - discount[min(counts[word], 3)]
        return own / total + given / total * lower

    contexts: list[tuple[object, ...]] = [(START,)]
    longest = [(START,)]
    for _ in range(order):
        longest = [(*context, word) for context in longest for word in range(vocab)]
        contexts += longest
    return {
        (word, context): probability(word, context[-(order - 1) :] if order > 1 else ())
        for context in contexts
        for word in range(vocab)
    }


CORPORA = st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=1, max_size=5).filter(any)


@settings(max_examples=25, deadline=None)
@given(CORPORA, st.integers(1, 3))
def test_an_n_gram_model_is_kneser_and_ney_s_definition(corpus: list[list[int]], order: int) -> None:
    model = NGram.train(corpus, order, vocab=4)  # token 3 is never seen
    for (word, context), expected in brute_force(corpus, order, 4).items():
        ids = [*context[1:], word]
        assert math.exp(model.log_probability(ids)[-1]) == pytest.approx(expected, rel=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_estimated_discounts_agree_with_the_definition_too(order: int) -> None:
    random = np.random.default_rng(5)
    corpus = [np.minimum(random.geometric(0.3, 40) - 1, 5).tolist() for _ in range(5)]
    model = NGram.train(corpus, order, vocab=6)
    if order == 2:
        pairs = Counter(pair for line in corpus for pair in zip([6, *line], line, strict=False))
        assert (_discounts(np.array(list(pairs.values()))) != USUAL).all(), "the corpus has to tell its discounts"
    expected = brute_force(corpus, order, 6)
    line = drawn(3, order, top=6)
    for word in range(6):
        found = math.exp(model.log_probability([*line, word])[-1])
        assert found == pytest.approx(expected[word, (START, *line)], rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(CORPORA, st.integers(1, 5), st.lists(st.integers(0, 4), max_size=6))
def test_probabilities_sum_to_one_behind_any_context(corpus: list[list[int]], order: int, context: list[int]) -> None:
    model = NGram.train(corpus, order, vocab=5)
    likely = [math.exp(model.log_probability([*context, word])[-1]) for word in range(5)]
    assert min(likely) > 0
    assert sum(likely) == pytest.approx(1, abs=1e-9)


def test_every_token_is_scored_behind_the_whole_of_its_context() -> None:
    corpus = [drawn(seed, 30, 5) for seed in range(6)]
    model, line = NGram.train(corpus, 3, 5), drawn(9, 12, 5)
    scores = model.log_probability(line)
    assert scores.shape == (12,)
    for place in range(12):
        assert model.log_probability(line[: place + 1])[-1] == scores[place]
    assert len(model.log_probability([])) == 0
    assert (model.log_probability(np.array(line, dtype=np.uint32)) == scores).all()


def test_longer_n_grams_predict_a_pattern_better() -> None:
    pattern = [0, 1, 0, 2, 0, 3]
    train, test = [pattern * 20, pattern * 10], pattern * 5
    losses = [-NGram.train(train, order, 4).log_probability(test).mean() for order in (1, 2, 3)]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.1  # two tokens back tell everything


def test_documents_do_not_run_into_each_other() -> None:
    model = NGram.train([[0, 1], [2, 3]] * 5, 2, 4)
    behind_one = [model.log_probability([0, 1, word])[-1] for word in range(4)]
    assert behind_one[2] == behind_one[0], "2 begins documents; it does not follow 1"


@pytest.mark.parametrize(
    ("corpus", "order", "sentence"),
    [
        ([[1]], 0, "no n-grams of order 0"),
        ([], 2, "no text to count"),
        ([[], []], 2, "no text to count"),
        ([[1, 4]], 2, "no token 4 in a vocabulary of 4"),
        ([[1, -1]], 2, "no token -1 in a vocabulary of 4"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(corpus: list[list[int]], order: int, sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        NGram.train(corpus, order, 4)


# perplexity

TEXTS = [TEXT, "the dogs sat by the sea", "  \n ", "北京", "a cat " * 40]


def reader(tokenizer: Tokenizer, **changes: object) -> Model:
    values = {"vocab": len(tokenizer), "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "outputs": ("lm",)}
    model = build(Spec.of({**values, "mask": "causal", "init_std": 0.5, **changes})).eval()
    model.tokenizer = tokenizer
    return model


def direct(model: Model, ids: list[int]) -> torch.Tensor:
    """The loss of each token behind the first, in one pass over all of them."""
    with torch.no_grad():
        scores = model.scores(causal(ids))[0, :-1].log_softmax(-1)
    return -scores.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]


@pytest.mark.parametrize("changes", [{}, {"recurrent": "lstm"}])
def test_a_short_text_has_the_perplexity_of_one_pass(tokenizer: Tokenizer, changes: dict[str, object]) -> None:
    model = reader(tokenizer, **changes)
    losses = direct(model, tokenizer.encode(TEXT, specials=True))
    found = perplexity(model, [TEXT], length=100)
    assert found.loss_per_token == pytest.approx(float(losses.mean()), abs=1e-5)
    assert found.perplexity == pytest.approx(float(losses.mean().exp()), rel=1e-5)
    assert found.word_perplexity == pytest.approx(math.exp(float(losses.sum()) / len(TEXT.split())), rel=1e-4)
    assert found.bits_per_character == pytest.approx(float(losses.sum()) / math.log(2) / len(TEXT), rel=1e-5)
    assert (found.tokens, found.words, found.characters) == (len(losses), len(TEXT.split()), len(TEXT))


@pytest.mark.parametrize("stride", [None, 1, 3, 9, 10, 12, 50])
def test_every_token_counts_once_and_one_end_a_document(tokenizer: Tokenizer, stride: int | None) -> None:
    tokens = sum(len(tokenizer.encode(text)) for text in TEXTS)
    found = perplexity(reader(tokenizer), TEXTS, length=12, stride=stride)
    assert found.tokens == tokens + 4  # one of the texts is blank, and no document
    assert found.characters == sum(len(text) for text in TEXTS) - len(TEXTS[2])


def test_windows_give_each_token_the_context_they_promise(tokenizer: Tokenizer) -> None:
    model, ids = reader(tokenizer), tokenizer.encode(TEXT)
    start, end, room = tokenizer.special("cls"), tokenizer.special("sep"), 10
    assert len(ids) >= 3 * room
    losses = direct(model, [start, *ids[:room]]).tolist()  # the first window scores all of its tokens
    for place in range(room, len(ids)):  # the others move on by one, and score the last
        losses.append(float(direct(model, [start, *ids[place - room + 1 : place + 1]])[-1]))
    losses.append(float(direct(model, [start, *ids[-room:], end])[-1]))
    found = perplexity(model, [TEXT], length=room + 2, stride=1)
    assert found.tokens == len(losses)
    assert found.loss_per_token == pytest.approx(np.mean(losses), rel=1e-5)


def test_pieces_cut_apart_are_those_of_training(tokenizer: Tokenizer, tmp_path: Path) -> None:
    from masquerade.data.corpus import prepare

    model = reader(tokenizer)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    tokens = prepare([str(tmp_path / "text.txt")], tokenizer, tmp_path / "tokens")
    pieces = [tokens.ids[begin:stop].tolist() for begin, stop in tokens.pieces(10).spans]
    start, end = tokenizer.special("cls"), tokenizer.special("sep")
    total = sum(float(direct(model, [start, *piece]).sum()) for piece in pieces)
    total += float(direct(model, [start, *pieces[-1], end])[-1])
    found = perplexity(model, [TEXT], length=12, stride=12)
    assert found.loss_per_token * found.tokens == pytest.approx(total, rel=1e-5)


def test_other_start_and_end_tokens_can_be_named(tokenizer: Tokenizer) -> None:
    model = reader(tokenizer)
    mask = tokenizer.special("mask")
    losses = direct(model, [mask, *tokenizer.encode(TEXT), mask])
    found = perplexity(model, [TEXT], length=100, start=mask, end=mask)
    assert found.loss_per_token == pytest.approx(float(losses.mean()), abs=1e-5)


def test_a_model_in_training_is_measured_without_dropout_and_goes_on_training(tokenizer: Tokenizer) -> None:
    model = reader(tokenizer)
    still = perplexity(model, [TEXT], length=20)
    assert perplexity(model.train(), [TEXT], length=20) == still
    assert model.training


class Uniform:
    """Stands in for n-grams: each of its tokens says as much as the characters it stands for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocab, self.tokenizer = len(tokenizer), tokenizer

    def log_probability(self, ids: Sequence[int]) -> np.ndarray:
        spelled = [len(token) for token in self.tokenizer.tokens(ids[:-1])]
        return -math.log(2) * np.array([*spelled, 0.0])


def test_bits_per_character_do_not_depend_on_how_a_text_is_cut() -> None:
    text = "the cat sat on the mat and the cat saw the other cat"
    cuts = [train_tokenizer([text], kind, size, lowercase=False) for kind, size in (("characters", 40), ("bpe", 290))]
    found = [ngram_perplexity(Uniform(cut), [text], cut) for cut in cuts]  # type: ignore[arg-type]
    assert found[0].tokens > found[1].tokens
    assert found[0].perplexity < found[1].perplexity
    for each in found:
        assert each.bits_per_character == pytest.approx(1)
        assert each.word_perplexity == pytest.approx(2 ** (len(text) / len(text.split())))


def test_a_uniform_network_guesses_among_its_vocabulary(tokenizer: Tokenizer) -> None:
    model = reader(tokenizer)
    nn.init.zeros_(model.words.table.weight)
    assert perplexity(model, TEXTS, length=12).perplexity == pytest.approx(len(tokenizer), rel=1e-5)


def test_n_grams_are_measured_alike(tokenizer: Tokenizer) -> None:
    lines = list(documents([TEXT], tokenizer))
    assert lines == [tokenizer.encode(TEXT, specials=True)[1:]]
    model = NGram.train(lines, 3, len(tokenizer))
    found = ngram_perplexity(model, TEXTS, tokenizer)
    network = perplexity(reader(tokenizer), TEXTS, length=12)
    assert (found.tokens, found.words, found.characters) == (network.tokens, network.words, network.characters)
    losses = [-model.log_probability(line) for line in documents([text for text in TEXTS if text.strip()], tokenizer)]
    assert found.loss_per_token == pytest.approx(np.concatenate(losses).mean())
    assert ngram_perplexity(model, [TEXT], tokenizer).perplexity < found.perplexity < len(tokenizer)


@pytest.mark.parametrize("texts", [[], [""], ["  \n", "\t　"]])
def test_a_text_without_words_is_one_sentence(tokenizer: Tokenizer, texts: list[str]) -> None:
    with pytest.raises(MasqueradeError, match="no text to predict"):
        perplexity(reader(tokenizer), texts, length=12)
    with pytest.raises(MasqueradeError, match="no text to predict"):
        ngram_perplexity(NGram.train([[1]], 2, len(tokenizer)), texts, tokenizer)


def test_what_cannot_be_measured_is_one_sentence(tokenizer: Tokenizer) -> None:
    model = reader(tokenizer)
    for options, sentence in (
        ({"length": 2}, "Windows of 2 tokens"),
        ({"length": 12, "stride": 0}, "move on by 0"),
        ({"length": 513}, "which has 512 positions"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            perplexity(model, [TEXT], **options)
    with pytest.raises(MasqueradeError, match="the tokenizer has"):
        ngram_perplexity(NGram.train([[1]], 2, 7), [TEXT], tokenizer)
    model.tokenizer = None
    with pytest.raises(MasqueradeError, match="has no tokenizer"):
        perplexity(model, [TEXT], length=12)


def test_a_perplexity_too_large_for_a_number_is_infinite() -> None:
    assert Perplexity(5.0, 1000, words=1, characters=999).word_perplexity == math.inf


def test_results_are_shown_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    results = {
        "3-gram [a]": Perplexity(math.log(64), 20, words=10, characters=60),
        "北京": Perplexity(5.0, 999, 1, 998),
    }
    show(results)
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("3-gram [a]", "64.00", "4,096.0", "2.0000", "北京", "inf"))
    show(results, as_json=True)
    read = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert read["3-gram [a]"] == results["3-gram [a]"].values()
    assert read["北京"]["word_perplexity"] is None
    assert read["北京"]["tokens"] == 999


def test_a_limit_keeps_the_first_tokens() -> None:
    texts = [[1, 2, 3], [4, 5], [6]]
    assert first_tokens(texts, None) == texts
    assert first_tokens(texts, 4) == [[1, 2, 3], [4]]
    assert first_tokens(texts, 3) == [[1, 2, 3]]
