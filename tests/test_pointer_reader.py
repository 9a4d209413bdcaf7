"""Any checkpoint with a span head answers as the reference's logits say, searched exhaustively."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from qa_checkpoints import FAMILIES, qa_checkpoint
from typed import run

import masquerade
from masquerade.errors import MasqueradeError
from masquerade.reading.nbest import inside_word, repeats
from masquerade.reading.pointer_reader import BY_NONE, PointerReader
from masquerade.reading.reader import Reader

QUESTION = "where does the Danube flow into?"
SHORT = "The Danube flows into the Black Sea, and the Rhine does not."
THINGS = ("stone", "old", "city", "new", "river", "water", "1799", "1822")
LONG = " ".join(f"{SHORT} The {each} was found in {each} by the {each} king ." for each in THINGS)
CHINESE = "北京是中国的首都。 the king was in 北京"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """For each family its folder and the reference's model, made when first used."""

    class Made(dict[str, tuple[Path, Any]]):
        def __missing__(self, family: str) -> tuple[Path, Any]:
            folder = tmp_path_factory.mktemp(family)
            self[family] = folder, qa_checkpoint(family, folder)
            return self[family]

    return Made()


@torch.no_grad()
def searched(reader: Reader, model: Any, question: str, text: str) -> tuple[list[tuple[str, float, int, int]], float]:
    """Answers of whole words that do not overlap with their probabilities, the best first, and the probability of
    none: every span of every window, from the logits of the reference for what its own tokenizer makes of the pair."""
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=reader.tokenizer.backend)
    odds, total = dict[tuple[int, int], float](), 0.0
    asked = fast(question, add_special_tokens=False)["input_ids"][: reader.layout.question]
    for window in reader.layout.windows(reader.tokenizer, [text]):
        pair = fast("a", "a", return_special_tokens_mask=True, return_token_type_ids=True)
        ids, kinds, belongs = list(pair["input_ids"]), list(pair["token_type_ids"]), pair.sequence_ids(0)
        for number, given in ((1, list(window.ids)), (0, asked)):  # the words of the pair in the place of "a" and "a"
            first, last = belongs.index(number), len(belongs) - belongs[::-1].index(number)
            ids[first:last], kinds[first:last] = given, [kinds[first]] * len(given)
        segments = {"token_type_ids": torch.tensor([kinds])} if getattr(model.config, "type_vocab_size", 0) > 1 else {}
        out = model(input_ids=torch.tensor([ids]), **segments)
        start, end = out.start_logits[0].double(), out.end_logits[0].double()
        begin = len(ids) - len(window.ids) - (len(belongs) - (len(belongs) - belongs[::-1].index(1)))
        weights, n = dict[tuple[int, int], float](), len(window.ids)
        for i in range(n):
            for j in range(i, min(n, i + reader.layout.longest_answer)):
                weights[i, j] = math.exp(start[begin + i] + end[begin + j])
        whole = sum(weights.values()) + math.exp(start[0] + end[0])
        mine = {span: weight for span, weight in weights.items() if window.own[0] <= span[0] < window.own[1]}
        rest = whole - sum(mine.values())
        for (i, j), weight in mine.items():
            place = window.places[i][0], window.places[j][1]
            odds[place] = max(odds.get(place, 0.0), weight / rest)
        total += sum(mine.values()) / rest
    answers = dict[str, tuple[str, float, int, int]]()
    for (first, last), value in sorted(odds.items(), key=lambda item: -item[1]):
        words = text[first:last].strip()
        first += text[first:last].find(words)
        last = first + len(words)
        cut = inside_word(text, first) or inside_word(text, last) or repeats(words, question)
        if words and not cut and not any(other[2] < last and first < other[3] for other in answers.values()):
            answers.setdefault(words.casefold(), (words, value / (1 + total), first, last))
    return list(answers.values()), 1 / (1 + total)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", [SHORT, LONG, CHINESE], ids=["short", "long", "chinese"])
def test_answers_are_those_of_an_exhaustive_search(
    family: str, text: str, checkpoints: dict[str, tuple[Path, Any]]
) -> None:
    folder, model = checkpoints[family]
    reader = Reader.load(folder)
    assert isinstance(reader, PointerReader)
    assert (len(reader.layout.windows(reader.tokenizer, [text])) > 2) == (text is LONG)
    expected, none = searched(reader, model, QUESTION, text)
    reader.settings = replace(reader.settings, threshold=0.0)
    answer = reader.ask(QUESTION, text, n_best=4, windows=0)
    found = [(each.text, each.score, each.start, each.end) for each in (answer, *answer.alternatives)]
    assert [each[0] for each in found] == [each[0] for each in expected[:4]]
    assert [each[1] for each in found] == pytest.approx([each[1] for each in expected[:4]], rel=1e-4)
    for words, _, start, end in found:
        assert text[start:end] == words == words.strip()
    reader.settings = replace(reader.settings, threshold=BY_NONE)
    decided = reader.ask(QUESTION, text, windows=0)
    assert bool(decided) == (expected[0][1] >= none)
    assert decided.score == pytest.approx(max(expected[0][1], none), rel=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_of_other_lengths_in_the_batch_change_nothing(
    family: str, checkpoints: dict[str, tuple[Path, Any]]
) -> None:
    reader = Reader.load(checkpoints[family][0])
    asked = [(QUESTION, SHORT), ("who?", LONG), ("who is the king?", CHINESE), (QUESTION, [CHINESE, SHORT])]
    together = reader.ask_many(asked, n_best=3)
    for question, answer in zip(asked, together, strict=True):
        alone = reader.ask(*question, n_best=3)
        assert alone.text == answer.text
        assert alone.score == pytest.approx(answer.score, rel=1e-4)


def test_the_threshold_decides_whether_there_is_an_answer(checkpoints: dict[str, tuple[Path, Any]]) -> None:
    folder, model = checkpoints["Bert"]
    model = masquerade.load(folder)
    expected, none = searched(PointerReader(model), checkpoints["Bert"][1], QUESTION, SHORT)
    best = expected[0][1]
    assert PointerReader(model, threshold=best * 0.99).ask(QUESTION, SHORT).text == expected[0][0]
    refused = PointerReader(model, threshold=best * 1.01).ask(QUESTION, SHORT)
    assert not refused and refused.score == pytest.approx(none, rel=1e-4)
    assert refused.alternatives[0].text == expected[0][0]


def test_long_questions_are_cut_and_the_command_line_takes_such_checkpoints(
    checkpoints: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    folder = checkpoints["DebertaV2"][0]
    reader = Reader.load(folder)
    assert reader.ask("who " * 500, SHORT).score > 0
    (tmp_path / "a.txt").write_text(SHORT)
    printed = run("ask", QUESTION, "--in", tmp_path / "a.txt", "-m", folder, "--n-best", 2)
    assert f"{tmp_path / 'a.txt'}:1 (characters " in printed
    reader.remember([SHORT])


def test_what_such_a_checkpoint_cannot_do_is_one_sentence(
    checkpoints: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    reader = Reader.load(checkpoints["Bert"][0])
    for options in ({"decoder": "autoregressive"}, {"free": True}):
        with pytest.raises(MasqueradeError, match="only points at spans"):
            reader.ask(QUESTION, SHORT, **options)
    model = masquerade.load(checkpoints["Bert"][0]).with_heads(("lm",))
    with pytest.raises(MasqueradeError, match="has no span head"):
        PointerReader(model)
    masquerade.save(model, tmp_path)
    with pytest.raises(MasqueradeError, match="is no reader"):
        Reader.load(tmp_path)
