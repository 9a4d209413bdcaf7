"""Answers that are written: spans of the passage, the same with a cache, as probable as training says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from reader_cases import SEP, SHEET, network, reader, tokenizer

from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import collate
from masquerade.decoding.spans import SpanChoice, choose_spans
from masquerade.layout import IGNORE, join
from masquerade.masks import forked
from masquerade.reading import reader as module
from masquerade.reading.decoders import DECODERS, write_answers
from masquerade.reading.examples import ReadingLoss
from masquerade.reading.layouts import Window
from masquerade.reading.memory import encode_passages, encode_questions
from masquerade.reading.span_scores import score_spans

SHORT = "The cat sat on a warm red mat."


@pytest.mark.parametrize("decoder", DECODERS)
def test_free_words_need_not_stand_in_the_passage(decoder: str) -> None:
    asker = reader()
    word = tokenizer().encode("sea")[0]
    with torch.no_grad():
        asker.model.heads["lm"].bias[word] = 50.0  # type: ignore[index, operator]
    found = asker.ask("Who?", SHORT, decoder=decoder, free=True)
    assert set(found.text.split()) == {"sea"}
    assert (found.start, found.end, found.passage) == (-1, -1, 0)
    assert asker.ask("Who?", SHORT, decoder=decoder).text in SHORT
    there = tokenizer().encode("mat")[0]
    with torch.no_grad():
        asker.model.heads["lm"].bias[[there, SEP]] = torch.tensor([200.0, 190.0])  # type: ignore[index, operator]
    assert asker.ask("Who?", "mat mat mat mat mat sea", decoder=decoder, free=True).start == 0


@pytest.mark.parametrize("decoder", DECODERS)
def test_one_who_says_nothing_freely_is_sure_of_no_answer(decoder: str) -> None:
    asker = reader()
    with torch.no_grad():
        asker.model.heads["lm"].bias[SEP] = 200.0  # type: ignore[index, operator]
    found = asker.ask("Who?", SHORT, decoder=decoder, free=True)
    assert not found
    assert found.score == pytest.approx(1.0, abs=1e-3)


def test_reranked_answers_are_the_best_spans_in_the_order_of_their_words_probability(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asker, drafts = reader(parts={"copies": 1.0, "pointers": 1.0}), list[str]()

    def noted(odds: torch.Tensor, passage: torch.Tensor, n_best: int) -> list[SpanChoice]:
        spans = choose_spans(odds, passage, n_best)
        drafts.extend(tokenizer().decode(passage[each.start : each.start + each.length].tolist()) for each in spans)
        return spans

    monkeypatch.setattr(module, "choose_spans", noted)
    found = asker.ask("Who sat?", SHORT, n_best=8, decoder="rerank")
    texts = [each.text for each in (found, *found.alternatives)]
    assert len(drafts) == 8
    assert {text.lower() for text in texts} <= set(drafts)
    assert texts[0].lower() != drafts[0], "a network of chance"
    scores = [each.score for each in (found, *found.alternatives)]
    assert scores == sorted(scores, reverse=True)
    every = asker.ask("Who sat?", SHORT, n_best=200, decoder="autoregressive")
    written = {each.text: each.score for each in (every, *every.alternatives)}
    both = [(score, written[text]) for score, text in zip(scores, texts, strict=True) if text in written]
    assert both
    assert [score for score, _ in both] == pytest.approx([score for _, score in both], rel=1e-3)
    assert asker.ask("Who?", "cat", n_best=3, decoder="rerank").text == "cat", "there is one draft alone"


PAIRS = [([10, 11], [20, 21, 22, 20, 21, 23]), ([12], [30, 31, 32]), ([13, 14, 15], [40, 41, 42, 43, 44, 45, 46])]


@pytest.mark.parametrize("parts", [{"words": 1.0}, {"copies": 1.0}, {"words": 1.0, "copies": 2.0}])
@pytest.mark.parametrize("fork", range(4))
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_cache_changes_no_answer_that_is_written(
    decoder: str, apart: bool, fork: int, parts: dict[str, float]
) -> None:
    sheet = replace(SHEET, apart=apart)
    model = network(fork)
    for free in (False, True):
        found = [write_answers(model, sheet, PAIRS, decoder, parts, 2, free, cache) for cache in (True, False)]
        for one, other in zip(*found, strict=True):
            assert [each.ids for each in one] == [each.ids for each in other]
            assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-4)


@pytest.mark.parametrize("fork", range(4))
@torch.inference_mode()
def test_answers_written_word_by_word_have_the_probability_that_training_gives_them(fork: int) -> None:
    model = network(fork)
    for pair, texts in zip(PAIRS, write_answers(model, SHEET, PAIRS, "autoregressive", {"words": 1.0}, 4), strict=True):
        for text in texts:
            ids = [*text.ids, SEP] if text.ended else text.ids
            layout = join([SHEET.trunk(pair[1]), SHEET.with_answer(pair[0], ids, 1)])
            rows = forked(layout)[0]
            asked = rows.label != IGNORE
            logs = model.head("lm", model.hidden(layout)[asked]).log_softmax(-1)
            assert rows.label[asked].tolist() == ids
            assert text.score == pytest.approx(float(logs[range(len(ids)), ids].sum()), abs=1e-4)


@pytest.mark.parametrize("fork", range(4))
@torch.inference_mode()
def test_words_copied_one_by_one_are_as_probable_as_training_says_that_their_places_are(fork: int) -> None:
    model = network(fork)
    loss = ReadingLoss(model, SHEET, {"copies": 1.0})

    def cost(question: Sequence[int], passage: Sequence[int], start: int, ids: Sequence[int]) -> float:
        layout = join([SHEET.trunk(passage), SHEET.with_answer(question, [*ids, SEP], 1)])
        rows = [[Example(layout, extra={"answers": PerExample([(start, len(ids))])})]]
        assert loss.counts(rows)["copies"] == 1
        return float(loss(collate(rows))["copies"])

    written = write_answers(model, SHEET, PAIRS, "autoregressive", {"copies": 1.0}, 4)
    for (question, passage), texts in zip(PAIRS[1:], written[1:], strict=True):  # no word of theirs stands twice
        for text in texts:
            assert text.score == pytest.approx(-cost(question, passage, passage.index(text.ids[0]), text.ids), abs=1e-4)
    (question, passage), texts = PAIRS[0], written[0]
    once = next(text for text in texts if text.ids in ([20], [20, 21], [21]))  # these stand at two places
    starts = [at for at in range(len(passage)) if passage[at : at + len(once.ids)] == once.ids]
    assert math.exp(once.score) >= sum(math.exp(-cost(question, passage, at, once.ids)) for at in starts) - 1e-6
    mixed = write_answers(model, SHEET, PAIRS, "autoregressive", {"copies": 1.0, "words": 1.0}, 4, free=True)
    assert any(set(text.ids) - set(pair[1]) for pair, texts in zip(PAIRS, mixed, strict=True) for text in texts)


@pytest.mark.parametrize("fork", range(4))
def test_spans_written_all_at_once_are_those_that_the_words_mark(fork: int) -> None:
    asker = reader(fork, parts={"words": 1.0})
    found = write_answers(asker.model, SHEET, PAIRS, "parallel", {"words": 1.0}, 5)
    windows = [Window(0, tuple(passage), (), (0, len(passage))) for _, passage in PAIRS]
    with torch.inference_mode():
        kept = encode_passages(asker.model, SHEET, windows)
        marks = score_spans(
            asker.model,
            encode_questions(asker.model, SHEET, kept, [[question] for question, _ in PAIRS]),
            {"words": 1.0},
        )
    for row, texts in enumerate(found):
        best = choose_spans(marks.spans[row], marks.passage[row], 5)
        passage = PAIRS[row][1]
        assert [text.ids for text in texts] == [passage[each.start : each.start + each.length] for each in best]
        assert [text.score for text in texts] == pytest.approx([each.score for each in best], abs=1e-4)
