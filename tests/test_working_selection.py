"""Long texts for task models: what a judge keeps, and answers in their places."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import reader
from torch import Tensor
from working_cases import encoder

from masquerade import progress
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.tagger import Tagger
from masquerade.layout import visible
from masquerade.memory.working.blocks import TextBlock
from masquerade.memory.working.judge import Judge, new_judge, window_layout
from masquerade.memory.working.reasoners import MemoryClassifier, MemoryReader, MemoryTagger
from masquerade.memory.working.recall import Ids
from masquerade.memory.working.selection import TextBlocks, WorkingMemory
from masquerade.reading.lexical import LexicalIndex


class WordJudge(Judge):
    """A judge that scores the tokens that the query has too."""

    def __call__(self, windows: Sequence[Sequence[Ids]]) -> list[Tensor]:
        self.judged = getattr(self, "judged", 0) + len(windows)
        return [torch.tensor([float(i in set(each[0])) for part in each for i in part]) for each in windows]


def memory(**sizes: int) -> WorkingMemory:
    return WorkingMemory(WordJudge(new_judge(encoder())), **sizes)


TEXT = "the play is long . " * 60 + "the king lives near paris . " + "a film is bad . " * 60


def test_a_judge_scores_every_token_of_each_window() -> None:
    judge = Judge(new_judge(encoder()))
    windows = [[judge.query("who"), judge.closed([5, 6])], [judge.query(), judge.closed([9])]]
    scores = judge(windows)
    assert [len(each) for each in scores] == [6, 4]
    assert all(((each > 0) & (each < 1)).all() for each in scores)
    layout = window_layout(judge.model, windows[0])
    assert layout.segment.tolist() == [0, 0, 0, 1, 1, 1]
    assert visible(layout).all()
    with pytest.raises(MasqueradeError, match="no judge"):
        Judge(encoder())


def test_judging_many_windows_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    for shown in (True, False):
        judge = Judge(new_judge(encoder()), progress=shown)
        judge([[judge.query("who"), judge.closed([5, 6] * 40)]] * 30)
        said = capsys.readouterr().err
        assert ("windows judged: " in said and "of 30" in said) == shown


def test_the_blocks_with_the_words_of_the_query_are_kept() -> None:
    short = memory(size=8).select("who is the king near paris ?", TEXT)
    assert "the king lives near paris ." in short.text
    assert not short.whole and short.judged == short.total
    assert len(short.text) < len(TEXT) / 2
    at = short.text.index("king")
    number, start, end = short.original(at, at + 4)
    assert (number, TEXT[start:end]) == (0, "king")


def test_a_text_that_fits_is_kept_whole_without_being_judged() -> None:
    held = memory(size=8)
    short = held.select("who ?", ["北京是首都。", "the king lives near paris ."])
    assert short.whole and not short.scores and not hasattr(held.judge, "judged")
    assert short.text == "北京是首都。\nthe king lives near paris ."
    at = short.text.index("paris")
    assert short.original(at, at + 5) == (1, 20, 25)


def test_every_character_of_a_short_text_goes_back_to_its_place() -> None:
    texts = ["上海是城市，很大！" * 30 + "北京是首都。" + "上海是城市，很大！" * 20, TEXT]
    short = memory(size=9).select("北京 king", texts)
    assert "北京是首都" in short.text and "king" in short.text
    for at, character in enumerate(short.text):
        if character != "\n":
            number, start, end = short.original(at, at + 1)
            assert texts[number][start:end] == character


def test_very_long_texts_are_prefiltered_by_words_and_that_is_said() -> None:
    held = memory(size=8, most=6)
    short = held.select("who is the king near paris ?", TEXT)
    assert short.judged == 6 < short.total
    assert "king lives near paris" in short.text
    blind = held.select("", TEXT)  # without a query, blocks are spread over the text
    assert blind.judged == 6


def test_the_memory_of_a_long_text_is_bounded_by_its_size() -> None:
    line = "the play is long and the film is bad but the queen is good .\n"
    text = line * 2_000 + "anna was born in rome .\n" + line * 2_000
    held = memory(most=64)
    tracemalloc.start()
    short = held.select("who was born in rome ?", text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "anna was born in rome" in short.text
    assert held.most == short.judged < short.total
    assert peak < 8_000_000 + 6 * len(text)  # a part of the text as tokens, and 4 bytes a token of the whole


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=1, max_size=12), st.data())
def test_scores_of_blocks_are_those_of_an_index(ids: list[list[int]], data: st.DataObject) -> None:
    query = data.draw(st.lists(st.integers(0, 6), max_size=6))
    blocks = TextBlocks(TextBlock(tuple(each), 7 * n, 7 * n + 5, n % 2) for n, each in enumerate(ids))
    assert list(blocks.scores(query)) == pytest.approx(LexicalIndex(ids).scores(query).tolist())
    assert blocks[-1] == TextBlock(tuple(ids[-1]), 7 * len(ids) - 7, 7 * len(ids) - 2, (len(ids) - 1) % 2)
    assert [block.ids for block in blocks] == [tuple(each) for each in ids]


def test_one_token_of_5000_characters_and_a_question_longer_than_the_window() -> None:
    held = memory(size=8)
    short = held.select("king " * 100, "x" * 5000 + " " + TEXT)
    assert short.blocks and "king" in short.text
    assert len(held.judge.query("king " * 500)) <= held.judge.window // 3 + 2


def test_an_empty_document_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="no text to read"):
        MemoryReader(reader(), memory()).ask("who ?", " \n ")
    with pytest.raises(MasqueradeError, match="question is empty"):
        MemoryReader(reader(), memory()).ask(" ", "a")
    model = encoder(outputs=("classify",))
    with pytest.raises(MasqueradeError, match="empty text"):
        MemoryClassifier(Classifier(model), memory())([""])


def test_answers_stand_in_the_original_text() -> None:
    answer, short = MemoryReader(reader(), memory(size=8)).ask(
        "who is the king near paris ?", ["a film is bad .", TEXT], n_best=3
    )
    assert not short.whole
    for each in (answer, *answer.alternatives):
        if each.text:
            assert ["a film is bad .", TEXT][each.passage][each.start : each.end] == each.text


def test_long_documents_are_classified_from_what_is_kept() -> None:
    model = encoder(outputs=("classify",))
    predictions = MemoryClassifier(Classifier(model), memory(size=8))([TEXT, "a film is bad ."])
    assert [short.whole for _, short in predictions] == [False, True]
    assert predictions[1][0] == Classifier(model)(["a film is bad ."])[0]


def test_entities_of_every_part_stand_in_the_whole_text() -> None:
    model = encoder(outputs=("tag",), labels=("O", "B-name", "I-name"))
    held, tagger = memory(size=8), Tagger(model, 60)
    text = TEXT + "北京是首都。" * 20
    groups = held.groups(text)
    assert groups[0][0] == 0 and groups[-1][1] == len(held.blocks((text,))) and len(groups) > 3
    assert all(a[1] == b[0] for a, b in pairwise(groups))
    short = held.around(text, *groups[2], room=57)
    part = held.blocks((text,))[slice(*groups[2])]
    assert text[part[0].start : part[-1].end] in short.text and not short.whole
    assert len(model.tokenizer.encode(short.text)) <= 57
    found = MemoryTagger(tagger, held)([text, "a film is bad .", ""])
    assert found[0] and all(0 <= each.start < each.end <= len(text) for each in found[0])
    assert found[0] == sorted(found[0], key=lambda each: each.start)
    assert found[1:] == [tagger(["a film is bad ."])[0], []]
