"""A reader that learns: from labels that are what the text says, the same after a crash, by heart if it is small."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from reader_cases import SEP, SHEET, network, tokenizer

from masquerade import load, save
from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import Batch, DataCursor, Row, collate
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, Kind, Layout, join
from masquerade.masks import forked
from masquerade.reading.examples import ReadingLoss, tokens_of, training_windows
from masquerade.reading.memory import encode_passages, encode_questions
from masquerade.reading.odds import log_probabilities
from masquerade.reading.reader import Reader
from masquerade.reading.records import Gold, QuestionRecord, read_questions
from masquerade.reading.scores import squad_scores
from masquerade.reading.span_scores import PARTS, score_spans
from masquerade.reading.training import Reading, TrainReader
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run
from masquerade.training.recipe import read_recipe

MAT = "The cat sat on a warm red mat by the sea. NASA saw the cat."
DOGS = "Two old dogs saw NASA in  the Café: the dogs walk."
CITY = "北京是中国的首都。上海在中国，２０２１年。"
TALE = " ".join(["The cat was born in 1 by the sea."] + ["dogs walk on a mat,"] * 14 + ["Who saw 北京? Two cats saw."])
QUESTIONS = [  # title, passage, question, accepted answers
    ("cats", MAT, "Who sat on the mat?", ["The cat", "cat"]),
    ("cats", MAT, "Where was the cat?", ["by the sea"]),
    ("cats", MAT, "What is red?", ["mat"]),
    ("cats", DOGS, "Who saw NASA?", ["Two old dogs"]),
    ("cats", DOGS, "What was in the cafe?", ["NASA"]),
    ("cats", DOGS, "Where?", ["the Café"]),
    ("cities", CITY, "中国的首都是哪里？", ["北京"]),
    ("cities", CITY, "什么年？", ["２０２１年"]),
    ("cities", CITY, "哪里在中国？", ["上海"]),
    ("tales", TALE, "Who was born?", ["The cat"]),
    ("tales", TALE, "Who saw 北京?", ["Two cats"]),
    ("tales", TALE, "Where was 上海?", []),
]


def write(path: Path, questions: Sequence[tuple[str, str, str, list[str]]]) -> str:
    """Questions as flat records in a file."""
    lines = []
    for number, (title, passage, question, answers) in enumerate(questions):
        starts = [passage.index(text) for text in answers]
        answered = {"text": answers, "answer_start": starts}
        record = {"id": str(number), "title": title, "context": passage, "question": question, "answers": answered}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions and a network to begin with."""
    home = tmp_path_factory.mktemp("reading")
    write(home / "questions.jsonl", QUESTIONS)
    write(home / "short.jsonl", QUESTIONS[:9])
    changes: dict[str, Any] = {"width": 32, "layers": 2, "feedforward": 64, "init_std": 0.1}
    save(network(None, **changes, norm_first=True, outputs=("lm",)), home / "start")
    return home


def recipe(home: Path, out: Path, **changes: Any) -> Reading:
    plain = Reading(
        start=str(home / "start"), train=(str(home / "questions.jsonl"),), out=str(out), slots=SHEET.slots, fork=1,
        question=SHEET.question, dropout=0.0, unanswerable=0.0, batch=6, epochs=4, rate=3e-3, log_every=1, row=128,
    )  # fmt: skip
    return replace(plain, **changes)


def job_of(home: Path, out: Path, **changes: Any) -> TrainReader:
    """A job that has read its questions."""
    job = TrainReader(recipe(home, out, **changes))
    job.read(job.begin()[""], out)
    return job


def batches(job: TrainReader, count: int, place: DataCursor | None = None) -> list[tuple[list[Row], DataCursor]]:
    return list(islice(job.batches(place or DataCursor()), count))


def questions_of(batch: Batch) -> Iterator[tuple[Layout, list[int], list[int], int, int]]:
    """Each question of a batch: its row, its ids, its passage, and the span that is said to answer it."""
    rows, _ = forked(batch.layout)
    assert rows.rows == len(batch.extra["answers"])
    for number, (start, length) in enumerate(batch.extra["answers"].tolist()):
        row = rows.row(number)
        asked = (row.position > SHEET.slots + 1) & (row.position < SHEET.start)
        passage = row.ids[row.position >= SHEET.start]
        assert int(passage[-1]) == SEP
        yield row, row.ids[asked].tolist()[:-1], passage.tolist()[:-1], start, length


ANSWERS = {  # ids of question and answers, of each passage
    (tuple(tokenizer().encode(question)[: SHEET.question]), passage): [tokenizer().encode(text) for text in answers]
    for _, passage, question, answers in QUESTIONS
}


def stands(words: Sequence[int], passage: Sequence[int]) -> bool:
    return any(list(passage[at : at + len(words)]) == list(words) for at in range(len(passage)))


def passage_of(ids: Sequence[int]) -> str:
    """The passage that a window is of."""
    return next(text for text in (MAT, DOGS, CITY, TALE) if stands(ids, tokenizer().encode(text)))


# ----------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("written", [0.0, 0.5, 1.0])
def test_labels_and_spans_are_the_answers_that_the_text_has(home: Path, tmp_path: Path, written: float) -> None:
    job = job_of(home, tmp_path, written=written, unanswerable=0.5)
    answered, kinds = set(), set()
    for rows, _ in batches(job, 20):
        for row, question, passage, start, length in questions_of(collate(rows)):
            accepted = ANSWERS.get((tuple(question), passage_of(passage)), [])
            words = passage[start : start + length] if length else []
            assert words in accepted if length else (start, length) == (-1, 0)
            if not length:
                assert not any(stands(answer, passage) for answer in accepted)
            asked = row.label != IGNORE
            assert row.label[asked].tolist() == [*words, SEP][: SHEET.slots]
            assert row.position[asked].tolist() == list(range(1, 1 + int(asked.sum())))
            answered.add((tuple(question), tuple(words)))
            kinds.add(Kind(int(row.kind[asked][0])))
    expected = {(question, tuple(answer)) for (question, _), answers in ANSWERS.items() for answer in answers}
    assert {pair for pair in answered if pair[1]} == expected, "every accepted answer is taught at some time"
    assert kinds == {0.0: {Kind.CONTENT}, 0.5: {Kind.CONTENT, Kind.PEER}, 1.0: {Kind.PEER}}[written]


def test_unanswerable_questions_are_of_the_article_and_have_answers_elsewhere(home: Path, tmp_path: Path) -> None:
    job, found = job_of(home, tmp_path, unanswerable=1.0), set[tuple[str, tuple[int, ...]]]()
    every = {key[0]: answers for key, answers in ANSWERS.items()}
    titles = {tuple(tokenizer().encode(question)[: SHEET.question]): title for title, _, question, _ in QUESTIONS}
    articles = {passage: title for title, passage, _, _ in QUESTIONS}
    for rows, _ in batches(job, 40):
        for _, question, passage, _, length in questions_of(collate(rows)):
            text = passage_of(passage)
            if (tuple(question), text) not in ANSWERS:
                assert length == 0
                assert titles[tuple(question)] == articles[text]
                assert not any(stands(answer, passage) for answer in every[tuple(question)])
                found.add((text, tuple(question)))
    assert {text for text, _ in found} == {MAT, DOGS}, "the other articles have one passage"
    saw = tuple(tokenizer().encode("What was in the cafe?"))
    assert (MAT, saw) not in found, "NASA is in both passages"
    assert (MAT, tuple(tokenizer().encode("Who saw NASA?"))) in found


def test_a_question_is_no_stranger_where_it_is_asked_itself(home: Path, tmp_path: Path) -> None:
    texts = ["The cat sat on a red mat.", "Two dogs walk by the sea.", "Who saw the sea?"]
    pages = [{"passage": text, "answer": answer} for text, answer in zip(texts, ["The cat", "", "Who"], strict=True)]
    path = tmp_path / "several.json"
    path.write_text(json.dumps({"id": "1", "title": "one", "question": "Who is it?", "passages": pages}))
    job = job_of(home, tmp_path, unanswerable=1.0, train=(str(path),))
    assert [spans for lesson in job.windows for _, spans in lesson.questions] == [[(0, 2)], [], [(0, 1)]]
    for seed in range(30):
        for lesson in job.windows:
            example = job.example(lesson, rng_for(seed))
            assert len(example.extra["answers"].tensor) == 1


def test_questions_that_another_window_answers_are_asked_as_questions_without_an_answer(
    home: Path, tmp_path: Path
) -> None:
    windows = SHEET.windows(tokenizer(), [TALE])
    assert len(windows) > 2
    born, saw, never = (tokenizer().encode(question)[: SHEET.question] for _, _, question, _ in QUESTIONS[-3:])
    for share in (0.0, 1.0):
        job = job_of(home, tmp_path, unanswerable=share)
        tales = [lesson for lesson in job.windows if lesson.article == "tales"]
        first, last = tales[0], tales[-1]
        assert [lesson.window.ids for lesson in tales] == [window.ids for window in windows]
        assert [ids for ids, spans in first.questions if spans] == [born]
        assert first.absent == [saw]
        assert [ids for ids, spans in last.questions if spans] == [saw]
        assert last.absent == [born]
        asked = dict[tuple[int, ...], tuple[int, int]]()
        for _, question, passage, start, length in questions_of(collate([[job.example(last, rng_for(3))]])):
            asked[tuple(question)] = (start, length)
            if length:
                assert passage[start : start + length] == tokenizer().encode("Two cats")
        assert asked.pop(tuple(saw))[1] == 3, "two cat ##s"
        assert asked == {tuple(never): (-1, 0)} | ({tuple(born): (-1, 0)} if share else {})


def test_a_passage_of_many_questions_becomes_several_lessons() -> None:
    asked = [QuestionRecord(str(n), f"Who {'?' * n}", (MAT,), ((),), ()) for n in range(7)]
    found = training_windows(tokenizer(), SHEET, asked, most=3)
    assert [len(lesson.questions) for lesson in found] == [3, 3, 1]
    assert {lesson.window.ids for lesson in found} == {tuple(tokenizer().encode(MAT))}


def test_a_question_whose_answers_are_longer_than_the_slots_teaches_nothing() -> None:
    words = MAT.split()
    texts = [" ".join(words[:2]), " ".join(words[: SHEET.slots + 1])]
    golds = [Gold(text, 0) for text in texts]
    asked = [QuestionRecord(str(n), f"Who {n}", (MAT,), (tuple(golds[n:]),), tuple(texts[n:])) for n in range(2)]
    (lesson,) = training_windows(tokenizer(), SHEET, asked, most=8)
    assert [spans for _, spans in lesson.questions] == [[(0, 2)]], "the short answer of the first question"
    assert not lesson.absent, "the second one has an answer here"
    assert not training_windows(tokenizer(), SHEET, asked[1:], most=8), "a passage that nothing is asked of"


@torch.inference_mode()
def test_an_answer_that_is_longer_than_the_slots_fills_them_and_is_pointed_at_to_its_end() -> None:
    sheet, text = replace(SHEET, reach=7), " ".join(MAT.split()[:6])
    asked = QuestionRecord("1", "Who?", (MAT,), ((Gold(text, 0),),), (text,))
    (lesson,) = training_windows(tokenizer(), sheet, [asked], most=8)
    assert lesson.questions[0][1] == [(0, 6)]
    model, ids, question = network(), lesson.window.ids, lesson.questions[0][0]
    rows = encode_questions(model, sheet, encode_passages(model, sheet, [lesson.window]), [[question]])
    logs, begin = rows.ends(model)[0], int(rows.begin[0])
    scores = score_spans(model, rows, {"copies": 1.0})
    copied = log_probabilities(scores.spans, scores.none)[0][0, 0, SHEET.slots - 1]
    for length in (SHEET.slots, 6):
        layout = join([sheet.trunk(ids), sheet.with_labels(question, [*ids[:length], SEP], 1)])
        example = Example(layout, extra={"answers": PerExample([(0, length)])})
        costs = ReadingLoss(model, sheet, {"copies": 1.0, "pointers": 1.0})(collate([[example]]))
        assert float(costs["copies"]) == pytest.approx(-float(copied), abs=1e-4), "to the slots both are full"
        pointed = (logs[begin, 0] + logs[begin + length - 1, 1]) / 2
        assert float(costs["pointers"]) == pytest.approx(-float(pointed), abs=1e-4)


def test_shorter_windows_than_the_reader_has_room_for_can_be_learnt_from(home: Path, tmp_path: Path) -> None:
    job = job_of(home, tmp_path, window=20)
    whole = tokenizer().encode(TALE)
    tales = [lesson for lesson in job.windows if lesson.article == "tales"]
    assert [lesson.window.ids for lesson in tales] == [
        tuple(whole[at : at + 20]) for at in range(0, len(whole) - 5, 15)
    ]
    answered = {tuple(ids) for lesson in job.windows for ids, spans in lesson.questions if spans}
    asked = tokenizer().encode_places([question for *_, question, golds in QUESTIONS if golds])
    assert answered == {tuple(ids[: SHEET.question]) for ids, _ in asked}
    assert max(len(each.window.ids) for each in job_of(home, tmp_path, window=10**6).windows) == SHEET.room


def test_of_windows_that_answer_nothing_some_teach_that(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "tale.jsonl", [("tales", TALE, "Who was born?", ["The cat"])])
    job = job_of(home, tmp_path, unanswerable=0.5, train=(path,), batch=1)
    empty = [lesson for lesson in job.windows if not lesson.questions]
    assert len(empty) == len(job.windows) - 1 >= 2
    taken = [sum(len(step) for step in job._cut(epoch)) - 1 for epoch in range(40)]
    assert 0.3 < sum(taken) / (40 * len(empty)) < 0.7
    for lesson in empty:
        example = job.example(lesson, rng_for(0))
        assert example.extra["answers"].tensor.tolist() == [[-1, 0]]
    never = job_of(home, tmp_path, unanswerable=0.0, train=(path,), batch=1)
    assert {len(never._cut(epoch)) for epoch in range(9)} == {1}


@pytest.mark.parametrize(
    ("text", "answer", "words"),
    [
        ("the Cafe\u0301 is red", "Cafe\u0301", ["cafe"]),  # the accent is in no token
        ("the \u200bcat\u200b sat", "\u200bcat\u200b", ["cat"]),
        ("The  cats sat", "cat", ["cat"]),
        ("The cats sat", "ats", ["cat", "##s"]),  # the tokens that cover it
        ("北京是", "京是", ["京", "是"]),
    ],
)
def test_the_tokens_of_an_answer_are_those_that_cover_its_characters(text: str, answer: str, words: list[str]) -> None:
    window, start = SHEET.windows(tokenizer(), [text])[0], text.index(answer)
    found = tokens_of(window, start, start + len(answer))
    assert found is not None
    assert tokenizer().tokens(window.ids[found[0] : sum(found)]) == words


def test_an_answer_that_a_window_cuts_is_not_in_it() -> None:
    windows = SHEET.windows(tokenizer(), [TALE])
    ids, places = tokenizer().encode_places([TALE])[0]
    begins = [places.index(window.places[0]) for window in windows]
    for first in range(len(ids) - 3):
        for begin, window in zip(begins, windows, strict=True):
            inside = begin <= first and first + 3 <= begin + len(window.ids)
            found = tokens_of(window, places[first][0], places[first + 2][1])
            assert found == ((first - begin, 3) if inside else None)


# ------------------------------------------------------------------------------------------------------------- loss


@pytest.mark.parametrize("part", sorted(PARTS))
@torch.inference_mode()
def test_what_an_answer_costs_is_what_its_span_is_marked_with(home: Path, tmp_path: Path, part: str) -> None:
    job, model = job_of(home, tmp_path), network(fork=1)
    loss = ReadingLoss(model, SHEET, {part: 1.0})
    for lesson in job.windows:
        example = job.example(lesson, rng_for(0))
        kept = encode_passages(model, SHEET, [lesson.window])
        rows = encode_questions(model, SHEET, kept, [[ids for ids, _ in lesson.questions]])
        marks = score_spans(model, rows, {part: 1.0})
        if part == "copies":  # learnt among all spans
            spans, none = log_probabilities(marks.spans, marks.none)
            marks = replace(marks, spans=spans, none=none)
        whole = 0.0
        for row, (start, length) in enumerate(example.extra["answers"].tensor.tolist()):
            whole -= float(marks.spans[row, start, length - 1] if length else marks.none[row])
        cost = float(loss(collate([[example]]))[part])
        assert cost == pytest.approx(whole / 2 if part == "pointers" else whole, rel=1e-4)


@torch.inference_mode()
def test_neither_packing_nor_batches_change_what_questions_cost(home: Path, tmp_path: Path) -> None:
    job, model = job_of(home, tmp_path, written=0.5, unanswerable=0.5, batch=20, row=200), network(fork=1)
    loss = ReadingLoss(model, SHEET, dict.fromkeys(PARTS, 1.0))
    rows = batches(job, 1)[0][0]
    examples = [example for row in rows for example in row]
    assert 1 < len(rows) < len(examples), "several rows, and several examples in one"
    together = loss(collate(rows))
    apart = [loss(collate([[example]])) for example in examples]
    counts = loss.counts(rows)
    for part in PARTS:
        assert float(together[part]) == pytest.approx(sum(float(each[part]) for each in apart), rel=1e-4)
        assert counts[part] == sum(loss.counts([[example]])[part] for example in examples)
    assert counts["pointers"] == sum(each.count("answers") for each in examples)
    assert counts["copies"] < counts["words"], "what is written word by word copies no place"


def test_rows_shorter_than_the_slots_can_be_learnt_word_by_word(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "short.jsonl", [("", "the cat", "Who?", ["cat"])])
    job = job_of(home, tmp_path, written=1.0, slots=16, train=(path,))
    loss = ReadingLoss(network(fork=1), job.sizes, dict.fromkeys(PARTS, 1.0))
    parts = loss(collate(batches(job, 1)[0][0]))
    assert parts["copies"].item() > 0
    assert parts["words"].item() > 0


# -------------------------------------------------------------------------------------------------------------- runs


def test_batches_depend_on_the_seed_alone_and_are_taken_up_anywhere(home: Path, tmp_path: Path) -> None:
    def take(count: int, place: DataCursor | None = None, **changes: Any) -> list[Any]:
        job = job_of(home, tmp_path, written=0.5, unanswerable=0.5, **changes)
        found = []
        for rows, after in batches(job, count, place):
            batch = collate(rows)
            fields = [batch.layout.ids.tolist(), batch.layout.label.tolist(), batch.extra["answers"].tolist()]
            found.append((fields, after))
        return found

    first = take(12)
    assert first[-1][1].epoch > 1, "the test has to cross epochs"
    assert take(12) == first
    assert take(12, seed=2) != first
    for cut in (1, 5, 11):
        assert take(12 - cut, first[cut - 1][1]) == first[cut:]


def test_an_epoch_asks_every_question_once_in_batches_of_about_the_size(home: Path, tmp_path: Path) -> None:
    job = job_of(home, tmp_path, batch=4)
    for epoch in range(3):
        cut = job._cut(epoch)
        assert sorted(id(lesson) for step in cut for lesson in step) == sorted(map(id, job.windows))
        for step in cut:
            sizes = [len(lesson.questions) for lesson in step]
            assert sum(sizes[:-1]) < 4, "a batch is full when it has its questions"
    assert job._cut(0) != job._cut(1)
    assert job.steps == 4 * len(job._cut(0))


def losses(folder: Path) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in Store(folder).history() if "loss" in entry}


def test_a_run_that_broke_goes_on_exactly_where_it_was(home: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"written": 0.5, "unanswerable": 0.5, "save_every": 3, "dropout": 0.1, "epochs": 3}
    Run(TrainReader(recipe(home, tmp_path / "whole", **settings))).train()
    broken = Run(TrainReader(recipe(home, tmp_path / "broken", **settings)))
    step = broken._step

    def breaks(rows: list[list[Example]]) -> dict[str, float]:
        if broken.step == 5:
            raise KeyboardInterrupt
        return step(rows)

    broken._step = breaks  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    assert max(losses(tmp_path / "broken")) == 5
    resumed = Run(TrainReader(recipe(home, tmp_path / "broken", **settings)), resume=True)
    assert resumed.step == 3
    resumed.train()
    whole = losses(tmp_path / "whole")
    assert losses(tmp_path / "broken") == whole
    assert len(whole) > 6
    last = [load(tmp_path / out).state_dict() for out in ("whole", "broken")]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


def test_a_small_reader_learns_its_questions_by_heart_both_ways(home: Path, tmp_path: Path) -> None:
    source = str(home / "short.jsonl")
    settings: dict[str, Any] = {"written": 0.5, "epochs": 120, "batch": 12, "rate": 7e-3, "held_out": (source,)}
    Run(TrainReader(recipe(home, tmp_path, train=(source,), **settings))).train()
    before, after = [entry for entry in Store(tmp_path).history() if "f1" in entry]
    assert before["f1"] < 50 < after["f1"] == 100
    assert after["held_out"] < 0.2 * before["held_out"]
    reader, records = Reader.load(tmp_path), read_questions(source)
    for decoder in ("parallel", "autoregressive"):
        pairs = [(record.question, record.passages) for record in records]
        answers = reader.ask_many(pairs, decoder=decoder)
        found = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
        assert squad_scores(found, records).total["f1"] == 100, decoder
    assert reader.settings.parts == {"words": 1.0, "copies": 1.0, "pointers": 1.0}
    assert reader.model.spec.fork == 1


@pytest.mark.parametrize("parts", [{"copies": 1.0}, {"words": 0.5, "pointers": 1.0}])
def test_only_the_heads_that_count_are_trained_and_kept(home: Path, tmp_path: Path, parts: dict[str, float]) -> None:
    run = Run(TrainReader(recipe(home, tmp_path, parts=parts, epochs=1)))
    run.train()
    reader = Reader.load(tmp_path)
    assert set(reader.model.spec.outputs) == {PARTS[part] for part in parts} | {"lm"}
    assert reader.ask("Who?", MAT).text in MAT


# ------------------------------------------------------------------------------------------------------------ errors


def test_questions_without_any_answer_stop_the_run_with_one_sentence(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "none.jsonl", [("", MAT, "Who?", []), ("", DOGS, "Where?", [])])
    with pytest.raises(MasqueradeError, match="no question with an answer in its passage"):
        Run(TrainReader(recipe(home, tmp_path / "run", train=(path,))))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"metric": "taste"}, "There is no metric 'taste'; choose from squad"),
        ({"parts": {"words": 0.0}}, "'parts' have to be weights of words, copies, pointers"),
        ({"parts": {"guesses": 1.0}}, "'parts' have to be weights of words, copies, pointers"),
        ({"start": ""}, "does not say which checkpoint to train on"),
        ({"batch": 0}, "'batch' is 0, but it has to be at least 1"),
        ({"most": 0}, "'most' has to be a whole number of at least 1"),
        ({"window": 3}, "'window' has to be longer than its 'slots'"),
        ({"epochs": 0}, "'epochs' has to be above 0"),
        ({"written": 1.5}, "'written' is a share, from 0 to 1"),
        ({"unanswerable": -0.1}, "'unanswerable' is a share, from 0 to 1"),
        ({"slots": 50}, "has no room for 50 slots"),
        ({"fork": 3}, "cannot run before layer 3 of 2"),
    ],
)
def test_a_bad_recipe_is_one_sentence(home: Path, tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        job_of(home, tmp_path, **changes)


def test_the_old_name_of_a_recipe_key_still_works(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    path.write_text('train = "a.json"\nout = "runs/x"\nstart = "bert"\nstrangers = 0.3\n', encoding="utf-8")
    assert read_recipe(path, Reading).unanswerable == 0.3
    assert read_recipe(path, Reading, ["strangers=0.4"]).unanswerable == 0.4
