"""A reader asked: answers stand in the text where it says, whatever the text, the batch, the memory, the decoder."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from reader_cases import (
    ASKED,
    CITY,
    LONG,
    MASK,
    PARTS,
    SEP,
    SHEET,
    SHORT,
    every,
    network,
    reader,
    same,
    tokenizer,
)

from masquerade import Model
from masquerade.errors import MasqueradeError
from masquerade.reading import answers as answers_module
from masquerade.reading import nbest
from masquerade.reading import reader as module
from masquerade.reading.answers import VOTES, Answer, Candidate, merged
from masquerade.reading.decoders import DECODERS
from masquerade.reading.layouts import ReaderLayout, Window
from masquerade.reading.memory import encode_passages, encode_questions
from masquerade.reading.odds import WindowScores, combined, log_probabilities
from masquerade.reading.questions import WindowQuestion
from masquerade.reading.reader import Reader, Settings
from masquerade.reading.span_scores import ReaderRows, SpanScores, score_spans

SCRAPS = [
    "The", "cat", "NASA", "Café", "cafe\u0301", "É", "walking", "dogs", "北京", "是", "中国的首都", "上海",
    "２０２１年", "2021", "1", "😀", "👩‍👩‍👧", "unheard-of", "İ", "ﬁ", ".", "。", "，", "?", "[MASK]",
    " ", "  ", "\t", "\u3000", "\n", "\u200b",
]  # fmt: skip
texts = st.lists(st.sampled_from(SCRAPS), min_size=1, max_size=40).map("".join).filter(lambda text: bool(text.strip()))


def pointing(model: Model, rows: ReaderRows, weights: Mapping[str, float]) -> SpanScores:
    """SpanScores of one who answers a question with its own words, where the passage has them."""
    found, questions, longest = [], [], int((rows.close - rows.begin).max())
    spans = torch.full((len(rows.states), longest, SHEET.slots), -torch.inf)
    for row, (begin, close) in enumerate(zip(rows.begin.tolist(), rows.close.tolist(), strict=True)):
        ids = rows.layout.ids[row].tolist()
        questions.append(ids[SHEET.slots + 2 : begin - 1])
        found.append(ids[begin:close] + [-1] * (longest - close + begin))
        for start in range(close - begin):
            for number in range(min(SHEET.slots, close - begin - start)):
                there = found[-1][start : start + number + 1] == questions[-1]
                spans[row, start, number] = 0.0 if there else -30.0
    return SpanScores(spans, torch.full((len(rows.states),), -15.0), torch.tensor(found))


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader that answers with the words of the question."""
    monkeypatch.setattr(module, "score_spans", pointing)
    for part in (nbest, answers_module):  # which leave out such answers
        monkeypatch.setattr(part, "repeats", lambda answer, question: False)
    return reader()


# ----------------------------------------------------------------------------------------------------------- places


@seeded
@given(texts, st.integers(0, 3))
def test_an_answer_is_what_stands_at_its_place_in_the_original_text(text: str, seed: int) -> None:
    (ids, places), found = tokenizer().encode_places([text])[0], reader(seed=seed).ask("Where is 北京?", text, n_best=6)
    assert bool(found) == bool(ids)
    pieces = [piece.startswith("##") for piece in [*tokenizer().tokens(ids), ""]]
    for answer in every(found):
        assert 0 <= answer.start < answer.end <= len(text)
        assert text[answer.start : answer.end] == answer.text
        assert answer.text == answer.text.strip()
        assert answer.passage == 0
        first = [start for start, _ in places].index(answer.start)
        last = max(index for index, (_, end) in enumerate(places) if end <= answer.end)  # an accent may follow it
        assert last - first < SHEET.slots
        if not pieces[first] and not pieces[last + 1]:  # whole words are read again as the same
            assert tokenizer().encode_places([answer.text])[0][0] == ids[first : last + 1]


@pytest.mark.parametrize("reach", [0, 9])
def test_pointers_reach_beyond_the_slots_and_drafts_do_not(reach: int) -> None:
    model = network(seed=2)
    asker = Reader(Settings(SHEET.slots, SHEET.question, {"pointers": 1.0}, reach=reach).put(model))
    text = "the cat sat on a warm red mat in the sea by two old dogs"
    words = text.split()
    texts = [" ".join(words[number:] + words[:number]) for number in range(len(words))]
    found = {
        decoder: [each for text in texts for each in every(asker.ask("Who?", text, n_best=99, decoder=decoder))]
        for decoder in ("parallel", "rerank")
    }
    lengths = {decoder: {len(answer.text.split()) for answer in answers} for decoder, answers in found.items()}
    assert max(lengths["parallel"]) == (reach or SHEET.slots)
    assert max(lengths["rerank"]) <= SHEET.slots, "what is written takes the places of the slots"


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("nasa", "Who saw  NASA?", "NASA"),
        ("cafe", "the\tCafé，是", "Café"),
        ("２０２１年", "北京 2021 是２０２１年。", "２０２１年"),
        ("中国的首", "北京是中国的首都", "中国的首"),
        ("red mat", "A 😀 red \u3000 Mat.", "red \u3000 Mat"),
        ("THE CAT", "  the  cat", "the  cat"),
    ],
)
def test_an_answer_has_the_spelling_of_the_text(echo: Reader, question: str, text: str, answer: str) -> None:
    found = echo.ask(question, text)
    assert found.text == answer
    assert found.start == text.index(answer)
    assert found.score > 0.99


def test_an_answer_is_found_anywhere_in_a_passage_of_many_windows(echo: Reader) -> None:
    count, filler, answer = 2 * SHEET.room, ["the  sea", "in", "上", "CAFÉ"], "two red Cats"
    texts, places = [], []
    for at in range(count - 3):
        before = " ".join(filler[number % 4] for number in range(at))
        behind = " ".join(filler[number % 4] for number in range(at, count))
        texts.append(f"{before} {answer} {behind}")
        places.append(len(before) + 1)
    windows = SHEET.windows(tokenizer(), texts[:1])
    assert len(windows) > 3
    found = echo.ask_many([(answer, text) for text in texts])
    assert [each.text for each in found] == [answer] * len(texts)
    assert [each.start for each in found] == places


@seeded
@given(st.integers(1, 30), st.integers(0, 150), st.integers(1, 30))
def test_windows_cover_a_passage_and_hold_every_answer_whole(room: int, count: int, slots: int) -> None:
    sheet = ReaderLayout(slots, 3, slots + 3 + 3 + 1 + 7 + room, 2, 3, 4)
    text = " ".join(["cat", "red", "the"][number % 3] for number in range(count))
    ids, places = tokenizer().encode_places([text])[0]
    windows = sheet.windows(tokenizer(), ["", text])
    assert [window.passage for window in windows] == [0] + [1] * (len(windows) - 1)
    step = max(1, min(sheet.room - sheet.room // 4, sheet.room - slots))
    begins = [number * step for number in range(len(windows) - 1)]
    for begin, window in zip(begins, windows[1:], strict=True):
        assert list(window.ids) == ids[begin : begin + sheet.room]
        assert list(window.places) == places[begin : begin + sheet.room]
        assert len(window.ids) <= sheet.room
    assert all(begin + sheet.room < count for begin in begins[:-1]), "no window but the last reaches the end"
    longest = min(slots, sheet.room)
    for start in range(count - longest + 1):
        assert any(begin <= start and start + longest <= begin + sheet.room for begin in begins)
    own = [
        range(begin + window.own[0], begin + window.own[1]) for begin, window in zip(begins, windows[1:], strict=True)
    ]
    assert [start for each in own for start in each] == list(range(count)), "each answer belongs to one window"
    if sheet.room > slots:
        ends = [begin + len(window.ids) for begin, window in zip(begins, windows[1:], strict=True)]
        assert all(each[-1] + slots <= end for each, end in list(zip(own, ends, strict=True))[:-1]), "… and ends there"


def test_a_table_that_begins_elsewhere_has_room_for_fewer_positions() -> None:
    found = reader(position_offset=2, longest=SHEET.longest).ask("Where?", LONG)
    assert LONG[found.start : found.end] == found.text


# ---------------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(("fork", "vote"), [(0, "best"), (1, "all"), (2, "best"), (3, "all")])
def test_many_questions_are_answered_as_each_is_alone(fork: int, vote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asker, told = reader(fork), list[int]()
    alone = [asker.ask(question, passages, 4, vote) for question, passages in ASKED]
    for tokens in (1024, 200, 1):
        monkeypatch.setattr("masquerade.kernels.batch_tokens", lambda device, tokens=tokens: tokens)
        together = asker.ask_many(ASKED, 4, vote, done=told.append)
        assert all(same(one, other) for one, other in zip(alone, together, strict=True))
    assert sum(told) >= 3 * sum(1 if isinstance(passages, str) else len(passages) for _, passages in ASKED) - 3
    assert asker.ask_many([]) == []


def test_the_best_answers_come_first_and_none_comes_twice() -> None:
    for question, passages in ASKED:
        found = reader().ask(question, passages, n_best=8)
        answers = every(found)
        assert 2 <= len(answers) <= 8
        assert all(one.score >= other.score for one, other in pairwise(answers))
        assert len({answer.text.casefold() for answer in answers}) == len(answers)
        for one, other in combinations(answers, 2):
            assert one.passage != other.passage or one.end <= other.start or other.end <= one.start
        few = reader().ask(question, passages, n_best=3)
        assert [each.text for each in every(few)] == [each.text for each in answers[:3]]


def test_a_passage_that_stands_twice_is_another_witness() -> None:
    once, twice = (reader().ask("谁", [CITY] * count, vote="all") for count in (1, 2))
    p = reader().ask("谁", CITY).score
    assert once.score == pytest.approx(p * p / (p + 1), rel=1e-4)
    assert twice.score == pytest.approx(2 * p * p / (2 * p + 1), rel=1e-4)
    assert reader().ask("谁", [CITY] * 2, vote="best").score == pytest.approx(p, rel=1e-4)


# ------------------------------------------------------------------------------------------------------------ votes

CANDIDATES = [
    Candidate("Paris", 0.5, 0, 10, 15),
    Candidate("Rome", 0.4, 0, 30, 34),
    Candidate("paris", 0.3, 0, 50, 55),  # the same in the same passage: counts once, at its best place
    Candidate("Rome", 0.45, 1, 3, 7),
    Candidate("Rome", 0.2, 2, 8, 12),
    Candidate("", 0.9, 2),
    Candidate("Oslo", 0.1, 2, 0, 4),
]


def test_the_best_place_wins_or_all_passages_vote() -> None:
    best = merged(CANDIDATES, 0.05, VOTES["best"], 3, 0.0)
    assert best == Answer("Paris", 0.5, 0, 10, 15, (Answer("Rome", 0.45, 1, 3, 7), Answer("Oslo", 0.1, 2, 0, 4)))
    voted = merged(CANDIDATES, 0.05, VOTES["all"], 2, 0.0)
    rome = (0.4**2 + 0.45**2 + 0.2**2) / (0.4 + 0.45 + 0.2 + 1)
    assert (voted.text, voted.passage, voted.start) == ("Rome", 1, 3)
    assert voted.score == pytest.approx(rome)
    assert [each.text for each in voted.alternatives] == ["Paris"]
    assert voted.alternatives[0].score == pytest.approx(0.5**2 / 1.5)


def sight(passage: int, none: float, **spans: float) -> WindowScores:
    """A window with the probabilities that it alone gives to its spans and to no answer."""
    found = [Candidate(text, math.log(share / none), passage) for text, share in spans.items()]
    return WindowScores(found, math.log((1 - none) / none))


def test_spans_of_several_windows_are_compared_by_their_odds_against_no_answer() -> None:
    sights = [sight(0, 0.4, Rome=0.6), sight(1, 0.02, Paris=0.5, paris_itself=0.48), sight(2, 0.99, Oslo=0.01)]
    spans, none = combined(sights)
    odds = {"Rome": 0.6 / 0.4, "Paris": 0.5 / 0.02, "paris_itself": 0.48 / 0.02, "Oslo": 0.01 / 0.99}
    total = 1 + sum(odds.values())
    assert {each.text: each.score for each in spans} == pytest.approx({text: x / total for text, x in odds.items()})
    assert none == pytest.approx(1 / total)
    best = merged(spans, none, VOTES["best"], 1, 0.0)
    assert best.text == "Paris", "though Rome has the greatest probability in its own window"


@pytest.mark.parametrize("none", [1e-300, 0.3, 1 - 1e-12])
def test_a_window_alone_keeps_its_probabilities(none: float) -> None:
    spans, nothing = combined([sight(0, none, Rome=1 - none)])
    assert spans[0].score == pytest.approx(1 - none)
    assert nothing == pytest.approx(none)


@torch.inference_mode()
def test_a_long_passage_has_the_odds_of_all_its_windows_each_span_counted_once() -> None:
    asker, question = reader(threshold=1.1), tokenizer().encode("Where?")
    windows = asker.layout.windows(tokenizer(), [LONG])
    assert len(windows) > 2
    odds = dict[tuple[int, int], float]()
    for window in windows:
        rows = encode_questions(
            asker.model, asker.layout, encode_passages(asker.model, asker.layout, [window]), [[question]]
        )
        scores = score_spans(asker.model, rows, asker.settings.parts)
        spans, _ = log_probabilities(scores.spans, scores.none)
        mine = {
            (window.places[a][0], window.places[a + j][1]): float(spans[0, a, j].exp())
            for a in range(*window.own)
            for j in range(min(asker.layout.slots, len(window.ids) - a))
        }
        assert odds.keys().isdisjoint(mine)
        odds |= {place: share / (1 - sum(mine.values())) for place, share in mine.items()}
    [found] = asker.ask_many([("Where?", LONG)], n_best=10**4, priors=[[0.0]])
    total = 1 + sum(odds.values())
    assert found.score == pytest.approx(1 / total, abs=1e-4)
    for answer in found.alternatives:
        assert answer.score == pytest.approx(odds[answer.start, answer.end] / total, abs=1e-4)


def test_a_prior_is_added_to_the_log_odds_of_a_passage() -> None:
    asker = reader(threshold=1.1)

    def odds(*priors: float) -> dict[int, float]:
        [found] = asker.ask_many([("Where?", [SHORT, CITY])], n_best=10**4, priors=[priors])
        total = dict.fromkeys((0, 1), 0.0)
        for each in found.alternatives:
            total[each.passage] += each.score / found.score
        return total

    even, changed = odds(0, 0), odds(0, -1.5)
    assert changed[0] == pytest.approx(even[0], rel=1e-3)
    assert changed[1] == pytest.approx(even[1] * math.exp(-1.5), rel=1e-3)


def test_a_window_that_shares_more_words_with_the_question_counts_more() -> None:
    asker, texts = reader(), [SHORT, SHORT + " Where?"]
    even = asker.ask_many([("Where?", texts)], n_best=10**4, threshold=0.0, priors=[[0.0, 0.0]])[0]
    found = asker.ask("Where?", texts, n_best=10**4, threshold=0.0)

    def share(answer: Answer) -> float:
        return sum(each.score for each in (answer, *answer.alternatives) if each.passage == 1)

    assert share(found) > share(even)


def test_there_is_no_answer_where_none_is_more_probable_than_the_reader_allows() -> None:
    none = reader(threshold=1.1).ask("Where?", SHORT).score
    asker = reader()
    for allowed, answered in ((none + 1e-3, True), (none - 1e-3, False)):
        asker.settings = replace(asker.settings, refuse=allowed)
        found = asker.ask("Where?", SHORT)
        assert bool(found) is answered
        assert answered or (found.score, len(found.alternatives)) == (pytest.approx(none), 1)
    assert asker.ask("Where?", SHORT, threshold=0.0), "a threshold that is given takes the place of the reader's rule"


def test_what_is_below_the_threshold_is_no_answer() -> None:
    assert merged(CANDIDATES, 0.05, VOTES["best"], 1, 0.5).text == "Paris"
    nothing = merged(CANDIDATES, 0.05, VOTES["best"], 2, 0.51)
    assert not nothing
    assert (nothing.text, nothing.score, nothing.passage, nothing.start, nothing.end) == ("", 0.05, -1, -1, -1)
    assert [each.text for each in nothing.alternatives] == ["Paris", "Rome"]
    assert merged([], 0.7, VOTES["all"], 2, 0.0) == Answer("", 0.7)
    found = reader().ask("Where?", SHORT, n_best=2)
    refused = reader(threshold=found.score + 1e-3).ask("Where?", SHORT, n_best=2)
    assert not refused
    assert [each.text for each in refused.alternatives] == [each.text for each in every(found)]
    assert reader(threshold=found.score - 1e-3).ask("Where?", SHORT).text == found.text


def test_scores_and_the_score_of_no_answer_are_probabilities() -> None:
    asker = reader(threshold=1.1, seed=1)  # it is surer of some short texts than of longer ones
    nothing = asker.ask("Where?", SHORT, n_best=100)
    assert 0.5 < nothing.score + sum(each.score for each in nothing.alternatives) < 1.0  # some spans overlap others
    texts = ["The cat.", "上海在", SHORT, CITY, SHORT + CITY]
    alone = [asker.ask("Where?", text).score for text in texts]
    for one, other in combinations(range(len(texts)), 2):
        both = asker.ask("Where?", [texts[one], texts[other]])
        expected = 1 / (1 / alone[one] + 1 / alone[other] - 1)  # the odds of both against no answer
        assert both.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("fork", range(4))
@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_gives_spans_of_the_passage(decoder: str, fork: int) -> None:
    asker = reader(fork)
    for (_, passages), found in zip(ASKED, asker.ask_many(ASKED, 3, decoder=decoder), strict=True):
        given = [passages] if isinstance(passages, str) else passages
        assert found
        for answer in every(found):
            assert given[answer.passage][answer.start : answer.end] == answer.text
            assert 0 < answer.score <= 1
            assert 1 <= len(tokenizer().encode(answer.text)) <= SHEET.slots


# ----------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"question": ""}, "The question is empty"),
        ({"question": " \t"}, "The question is empty"),
        ({"passages": ""}, "There is no text to read the answer from"),
        ({"passages": []}, "There is no text to read the answer from"),
        ({"passages": ["", " \n "]}, "There is no text to read the answer from"),
        ({"n_best": 0}, "whole number of at least 1, not 0"),
        ({"n_best": 5.5}, r"whole number of at least 1, not 5\.5"),
        ({"n_best": True}, "whole number of at least 1, not True"),
        ({"n_best": "2"}, "whole number of at least 1, not '2'"),
        ({"question": None}, r"A question has to be text \(str\), not NoneType"),
        ({"question": b"Who?"}, r"A question has to be text \(str\), not bytes"),
        ({"passages": b"The cat."}, "A passage has to be text .*, not bytes"),
        ({"passages": ["The cat.", b"The cat."]}, "A passage has to be text .*, not bytes"),
        ({"passages": None}, "A passage has to be text .*, not NoneType"),
        ({"passages": 7}, "A passage has to be text .*, not int"),
        ({"vote": "lots"}, "There is no vote 'lots'; choose from best, all"),
        ({"decoder": "guess"}, "There is no decoder 'guess'; choose from parallel"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        reader().ask(**{"question": "Who?", "passages": SHORT} | asked)


def test_a_model_that_is_no_reader_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="This model is no reader"):
        Reader(network())
    with pytest.raises(MasqueradeError, match="This model is no reader"):
        reader(fork=None)  # its stack would not tell the questions of a passage apart
    with pytest.raises(MasqueradeError, match="has no room for 4 slots, a question of 60 tokens"):
        Reader(Settings(4, 60, PARTS).put(network()))
    for wrong in ({}, {"words": 0.0}):
        with pytest.raises(MasqueradeError, match="are 0; give at least one of words, copies, pointers"):
            Reader(Settings(4, 12, wrong).put(network()))
    with pytest.raises(MasqueradeError, match="no 'wrods' for a weight under"):
        Reader(Settings(4, 12, {"wrods": 1.0}).put(network()))
    with pytest.raises(MasqueradeError, match="no 'copy' head"):
        reader(outputs=("lm", "span")).ask("Who?", SHORT)
    with pytest.raises(MasqueradeError, match="no language head to generate answers with"):
        reader(outputs=("copy", "span")).ask("Who?", SHORT, decoder="blocks")


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_text_without_any_word_has_no_answer(decoder: str) -> None:
    nothing = reader().ask("Who?", "\u200b", decoder=decoder)
    assert not nothing
    assert reader().ask("Who?", ["", "\u200b", SHORT], decoder=decoder).passage == 2


def test_settings_travel_with_the_model() -> None:
    asker = reader(threshold=0.25)
    assert Settings.of(asker.model) == asker.settings
    assert (asker.settings.threshold, asker.settings.parts, asker.layout) == (0.25, PARTS, SHEET)


def test_an_answer_that_ends_in_an_accent_keeps_it() -> None:
    text = "Two old dogs saw the Cafe\u0301 ."
    ids, places = tokenizer().encode_places([text])[0]
    window = Window(0, tuple(ids), tuple(places), (0, len(ids)))
    at = tokenizer().tokens(ids).index("cafe")
    found = WindowQuestion(0, [], 0, text, window).span(at, 1, 1.0)
    assert found.text == text[found.start : found.end] == "Cafe\u0301"


def test_special_tokens_that_a_text_speaks_of_are_letters() -> None:
    ids, places = tokenizer().encode_places(["the [SEP] cat [MASK]"])[0]
    assert not {SEP, MASK} & set(ids)
    assert places[-1] == (19, 20)
    assert SHEET.questions(tokenizer(), ["who is [MASK]?"])[0].count(MASK) == 0
    assert MASK in tokenizer().encode("the [MASK]"), "where masks are filled they are masks"


def test_a_threshold_is_of_the_best_probability_whatever_the_vote() -> None:
    found = [Candidate("cat", 0.4, 0, 0, 3), Candidate("cat", 0.3, 1, 0, 3), Candidate("mat", 0.2, 1, 5, 8)]
    for vote in VOTES.values():
        assert merged(found, 0.1, vote, 1, threshold=0.39).text == "cat"
        assert not merged(found, 0.1, vote, 1, threshold=0.41)


def test_a_question_may_be_a_dict_and_other_shapes_are_one_sentence() -> None:
    asker = reader()
    plain = asker.ask_many([("Where is the cat?", SHORT), ("Who?", [SHORT, CITY])])
    one = {"id": "7", "question": "Where is the cat?", "context": SHORT}
    assert asker.ask_many([one, {"question": "Who?", "passages": [SHORT, CITY]}]) == plain
    for wrong, sentence in (
        ({"question": "Who?"}, "needs 'question', and 'context' or 'passages'"),
        ({"context": SHORT}, "needs 'question', and 'context' or 'passages'"),
        ("Who?", "has to be a pair"),
        (("Who?", SHORT, 3), "has to be a pair"),
        (None, "has to be a pair"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            asker.ask_many([wrong])  # type: ignore[list-item]


def test_an_answer_near_the_edge_of_a_window_belongs_to_one_that_shows_what_is_around_it() -> None:
    text = " ".join(["the cat sat on a warm red mat"] * 30)
    windows = SHEET.windows(tokenizer(), [text])
    assert len(windows) > 3
    for window in windows[1:-1]:
        first, end = window.own
        assert first >= SHEET.slots, "what comes before an own answer is in the window"
        assert len(window.ids) - (end - 1 + SHEET.slots) >= 0, "and so is its last token"
    assert windows[0].own[0] == 0 and windows[-1].own[1] == len(windows[-1].ids)


def test_the_reader_imports_no_objective_and_nothing_of_training() -> None:
    code = (
        "import sys, masquerade.reading.reader\n"
        "names = ('masquerade.objectives', 'masquerade.training', 'accelerate', 'datasets', 'jieba')\n"
        "print([name for name in sys.modules if name in names])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
