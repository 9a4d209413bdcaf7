"""The question-answering pipeline gives what the one that transformers had gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from qa_checkpoints import qa_checkpoint

import masquerade
from masquerade.errors import MasqueradeError
from masquerade.reading.reader import Reader
from masquerade.reading.shipped import shipped

QUESTION = "where does the Danube flow into?"
SHORT = "The Danube flows into the Black Sea, and the Rhine does not."
THINGS = ("stone", "old", "city", "1822")
LONG = " ".join(f"{SHORT} The {each} was found in {each} by the {each} king ." for each in THINGS)
FAMILIES = ("Bert", "Roberta", "XLMRoberta", "DebertaV2")


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a checkpoint, and the reference's model."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, qa_checkpoint(request.param, folder)


@torch.no_grad()
def reference(
    folder: Path, model: Any, question: str, context: str, top_k: int = 1, doc_stride: int | None = None,
    max_answer_len: int = 15, max_seq_len: int = 64, handle_impossible_answer: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """The pipeline of transformers 4, written down again: overflowing windows by the tokenizer, a softmax of starts and
    of ends, the products of both, whole words."""
    backend = masquerade.load(folder).tokenizer.backend
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=backend.id_to_token(0))
    stride = min(max_seq_len // 2, 128) if doc_stride is None else doc_stride
    windows = fast(
        question, context, truncation="only_second", max_length=max_seq_len, stride=stride,
        return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True,
    )  # fmt: skip
    backend.no_truncation()
    whole = backend.encode(context, add_special_tokens=False)  # a window may end inside of a word
    words = [whole.word_to_chars(number) for number in sorted(set(whole.word_ids))]
    word_of = {place: word for word in words for place in range(*word)}
    found, none = dict[tuple[int, int], float](), 1.0
    for number, window in enumerate(windows.encodings):
        types = getattr(model.config, "type_vocab_size", 0) > 1
        extra = {"token_type_ids": torch.tensor([window.type_ids])} if types else {}
        out = model(input_ids=torch.tensor([window.ids]), **extra)
        keep = np.array([each == 1 for each in windows.sequence_ids(number)])
        keep[0] = True
        start, end = (np.where(keep, each[0].double().numpy(), -10000.0) for each in (out.start_logits, out.end_logits))
        start, end = (np.exp(each - each.max()) / np.exp(each - each.max()).sum() for each in (start, end))
        none, offsets = min(none, start[0] * end[0]), window.offsets
        scores = [
            (start[i] * end[j], i, j)
            for i in range(1, len(start)) for j in range(i, min(len(end), i + max_answer_len)) if keep[i] and keep[j]
        ]  # fmt: skip
        for score, i, j in scores:  # all of them: those of the same words are one answer
            first, last = word_of[offsets[i][0]][0], word_of[offsets[j][1] - 1][1]
            words_there = context[first:last].strip()
            first += context[first:last].find(words_there)
            last = first + len(words_there)
            if words_there:
                found[first, last] = max(score, found.get((first, last), 0.0))
    answers = [{"score": s, "start": i, "end": j, "answer": context[i:j]} for (i, j), s in found.items()]
    answers += [{"score": none, "start": 0, "end": 0, "answer": ""}] * handle_impossible_answer
    return sorted(answers, key=lambda each: -each["score"])[:top_k]


@pytest.mark.parametrize("context", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 5},
        {"top_k": 3, "max_answer_len": 2},
        {"top_k": 4, "handle_impossible_answer": True},
        {"doc_stride": 4, "max_seq_len": 40, "top_k": 2},
    ],
    ids=lambda options: " ".join(options),
)
def test_results_are_those_of_the_pipeline_that_was_removed(
    options: dict[str, Any], context: str, checkpoint: tuple[Path, Any]
) -> None:
    folder, model = checkpoint
    usual = {"max_seq_len": 64} | options
    expected = reference(folder, model, QUESTION, context, **usual)
    got = masquerade.pipeline("question-answering", model=str(folder), **usual)(question=QUESTION, context=context)
    found = got if options.get("top_k", 1) > 1 else [got]
    assert [set(each) for each in found] == [{"score", "start", "end", "answer"}] * len(expected)
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in expected], rel=1e-4)
    for ours, theirs in zip(found, expected, strict=True):
        assert {**ours, "score": 0} == {**theirs, "score": 0}
        assert ours["answer"] == context[ours["start"] : ours["end"]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT for question answering."""
    qa_checkpoint("Bert", folder := tmp_path_factory.mktemp("bert"))
    return folder


def test_it_is_called_in_every_way(bert: Path) -> None:
    answers = masquerade.pipeline("question-answering", bert, max_seq_len=64)
    one = answers(question=QUESTION, context=SHORT)
    other = answers(question="who?", context=LONG)
    assert answers({"question": QUESTION, "context": SHORT}) == one
    assert answers([{"question": QUESTION, "context": SHORT}]) == one
    both = answers([{"question": QUESTION, "context": SHORT}, {"question": "who?", "context": LONG}])
    assert both == answers(question=[QUESTION, "who?"], context=[SHORT, LONG])
    assert both == answers({"question": QUESTION, "context": SHORT}, {"question": "who?", "context": LONG})
    for got, alone in zip(both, (one, other), strict=True):
        assert {**got, "score": 0} == {**alone, "score": 0}
        assert got["score"] == pytest.approx(alone["score"], rel=1e-4)
    assert len(answers(question=[QUESTION, "who?"], context=SHORT)) == 2
    with pytest.raises(MasqueradeError, match="has no room"):  # the model has 64 positions, whatever is asked for
        answers(question=QUESTION, context=SHORT, max_seq_len=999, doc_stride=60)
    assert [len(each) for each in answers(question=[QUESTION, "who?"], context=SHORT, top_k=3)] == [3, 3]
    for given in (masquerade.load(bert), Reader.load(bert)):
        assert masquerade.pipeline("question-answering", given, max_seq_len=64)(question=QUESTION, context=SHORT) == one
    assert answers(question="who " * 500, context=SHORT, max_question_len=8)["answer"]


def test_without_a_model_the_reader_of_the_language_answers() -> None:
    text = "The Danube flows into the Black Sea. The Rhine does not."
    answers = masquerade.pipeline("question-answering")
    found = answers(question="Where does the Danube flow into?", context=text)
    expected = Reader.load("en").ask("Where does the Danube flow into?", text)
    assert found == {"score": pytest.approx(expected.score), "start": expected.start, "end": expected.end,
                     "answer": expected.text}  # fmt: skip
    assert answers.asking.top_k == 1 and len(answers(question="Where?", context=text, top_k=2)) == 2
    silent = Reader.load(shipped("en"))
    silent.settings = type(silent.settings)(**{**vars(silent.settings), "threshold": 2.0})
    quiet = masquerade.pipeline("question-answering", silent)
    assert quiet(question="Where?", context=text)["answer"] != ""
    refused = quiet(question="Where?", context=text, handle_impossible_answer=True)
    assert (refused["answer"], refused["start"], refused["end"]) == ("", 0, 0)
    assert silent.settings.threshold == 2.0
    with pytest.raises(MasqueradeError, match="leave 'doc_stride' out"):
        answers(question="Where?", context=text, doc_stride=3)


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ([], {}, "There is nothing to answer"),
        ([], {"question": "q"}, "needs a 'context'"),
        ([], {"question": " ", "context": "c"}, "The question is empty"),
        ([], {"question": "q", "context": "\n"}, "The context is empty"),
        ([], {"question": ["q", "r"], "context": ["c"]}, "There are 2 questions, but 1 contexts"),
        (["text"], {}, "An example is a dict"),
        ([{"question": "q", "context": "c"}], {"top_k": 0}, "'top_k' has to be a number from 1 on"),
        ([{"question": "q", "context": "c"}], {"max_answer_len": 0}, "'max_answer_len' has to be"),
        ([{"question": "q", "context": "c"}], {"doc_stride": -1}, "'doc_stride' has to be"),
        ([{"question": "q", "context": "c"}], {"topk": 2}, "There is no option 'topk'"),
        ([{"question": "q", "context": "c"}], {"doc_stride": 60}, "has no room"),
        ([{"question": "q", "context": "c"}], {"max_seq_len": 4}, "has no room"),
    ],
)
def test_bad_input_is_one_sentence(given: list[Any], options: dict[str, Any], sentence: str, bert: Path) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        masquerade.pipeline("question-answering", bert)(*given, **options)


def test_other_tasks_are_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="There is no pipeline 'translation'"):
        masquerade.pipeline("translation")
