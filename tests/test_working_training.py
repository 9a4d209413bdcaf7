"""Training of judges and task models over long documents, with labels and by intervention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import reader
from working_cases import encoder

from masquerade import Layout, load, save
from masquerade.data.examples import Example
from masquerade.data.packing import DataCursor
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier
from masquerade.masks import bidirectional
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.long_documents import (
    LongDocument,
    random_blocks,
    reasoner_blocks,
    relevant_blocks,
    without,
)
from masquerade.memory.working.reasoners import MemoryClassifier, MemoryReader
from masquerade.memory.working.selection import WorkingMemory
from masquerade.memory.working.tag_task import TagTask
from masquerade.memory.working.training import MemoryTraining, TrainMemory
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run

FILLER = ["the play is long .", "a film is old .", "the river is near the city .", "it is one year .", "上海是城市。"]


def long_text(key: str, seed: int) -> str:
    """A text of many sentences of which one tells the class."""
    rng = np.random.default_rng(seed)
    lines = [FILLER[int(n)] for n in rng.integers(len(FILLER), size=12)]
    lines.insert(int(rng.integers(13)), f"{key} {key} market {key} {key} .")
    return " ".join(lines)


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records), encoding="utf-8")
    return str(path)


def recipe(home: Path, **changes: Any) -> MemoryTraining:
    if not (home / "bert").is_dir():
        save(encoder(), home / "bert")
    records = [
        {"text": long_text(key, 2 * seed + n), "label": label}
        for seed in range(16)
        for n, (key, label) in enumerate((("good", "good"), ("bad", "bad")))
    ]
    train = write(home / "train.jsonl", records)
    values = {"start": str(home / "bert"), "train": train, "out": str(home / "run"), "window": 32, "block": 8}
    return MemoryTraining(**{**values, "row": 64, "length": 32, "batch": 8, "epochs": 1, "rate": 3e-3, **changes})


def document(levels: list[int], lengths: list[int]) -> LongDocument:
    blocks = [(*range(5, 4 + n), 3) for n in lengths]
    return LongDocument((2, 3), blocks, levels, [0.1 * n for n in range(len(blocks))])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=20), st.integers(12, 40))
def test_samples_fit_keep_their_order_and_hold_what_is_relevant(made: list[tuple[int, int]], window: int) -> None:
    given = document([level for level, _ in made], [length for _, length in made])
    rng = rng_for(1, len(made))
    for sample in (
        random_blocks(given, window, rng),
        relevant_blocks(given, window, rng),
        reasoner_blocks(given, window),
    ):
        assert sample == sorted(set(sample)) and sample
        assert 2 + sum(given.lengths[number] for number in sample) <= window
    if 2 + sum(given.lengths[number] for number in given.relevant()) <= window:
        assert set(given.relevant()) <= set(relevant_blocks(given, window, rng))
        assert set(given.relevant()) <= set(reasoner_blocks(given, window))


def test_relevance_stays_between_its_levels() -> None:
    given = document([0, 1, 2], [3, 3, 3])
    for number, by in ((0, -1), (1, 1), (1, 1), (2, -1)):
        given.change(number, by)
    assert given.relevance == [0, 2, 1]


def test_a_hidden_block_is_masked_and_not_deleted() -> None:
    model = encoder(outputs=("classify",))
    ids = [2, 5, 6, 7, 8, 9, 3]
    example = Example(bidirectional(ids))
    hidden = without(example, 2, 4)
    assert hidden.layout.position.tolist() == list(range(7))
    mask = torch.tensor([[1, 1, 0, 0, 1, 1, 1]])
    with torch.inference_mode():
        ours = model.hidden(hidden.layout)[0, [0, 1, 4, 5, 6]]
        theirs = model.hidden(Layout.padded(torch.tensor([ids]), mask))[0, [0, 1, 4, 5, 6]]
        other = model.hidden(bidirectional([2, 5, 8, 9, 3]))[0]
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert not torch.allclose(ours, other, atol=1e-3)  # deletion would move the tokens behind it


def test_labels_follow_the_change_of_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = TrainMemory(recipe(tmp_path))
    job.kept = {}
    job.loss(job.begin())
    given = job.documents[0]
    given.relevance = [1] * len(given.blocks)
    chosen = reasoner_blocks(given, 32)
    deltas = [0.3, 0.1, -0.1][: len(chosen)]
    monkeypatch.setattr(job.task, "losses", lambda model, examples: [1.0, *(1.0 + by for by in deltas)])
    assert job.intervene(0, given) == 2
    assert [given.relevance[number] for number in chosen[:3]] == [2, 1, 0]


def test_training_begins_with_the_blocks_that_share_words_with_the_label(tmp_path: Path) -> None:
    job = TrainMemory(recipe(tmp_path, train=write(tmp_path / "x.jsonl", [
        {"text": long_text("good", 3), "label": "market-king"}, {"text": long_text("bad", 4), "label": "queen"},
    ])))  # fmt: skip
    job.kept = {}
    job.loss(job.begin())
    texts = ["".join(job.judge.tokenizer.tokens(job.documents[0].blocks[n])) for n in job.documents[0].relevant()]
    assert any("market" in text for text in texts)
    assert job.documents[1].relevance[0] == 1  # no block has the label's word


def test_judge_and_classifier_learn_by_intervention(tmp_path: Path) -> None:
    given = recipe(tmp_path, epochs=5, rate=4e-3, save_every=1000)
    given = MemoryTraining(**{**vars(given), "held_out": given.train, "held_out_documents": 16, "evaluate_every": 100})
    Run(TrainMemory(given)).train()
    store = Store(tmp_path / "run")
    _, _, state = store.load(store.latest() or tmp_path)
    assert len(state.kept["changed"]) == 3 and sum(state.kept["changed"]) > 0
    final = store.history()[-1]
    assert final["accuracy"] > 0.9, final
    classifier = MemoryClassifier(
        Classifier(load(tmp_path / "run"), 32), WorkingMemory(Judge.load(tmp_path / "run"), 8)
    )
    found = classifier([long_text("good", 100), long_text("bad", 101)])
    assert [each.label for each, _ in found] == ["good", "bad"]


def test_a_run_that_was_killed_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    given = recipe(tmp_path, epochs=2, changes_from=2, save_every=3)
    Run(TrainMemory(given)).train()
    again = MemoryTraining(**{**vars(given), "out": str(tmp_path / "other")})
    with monkeypatched_steps(10):
        Run(TrainMemory(again)).train()
    Run(TrainMemory(again), resume=True).train()
    ours, theirs = (load(tmp_path / name).state_dict() for name in ("run", "other"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class monkeypatched_steps:  # noqa: N801
    """Runs stop after this many steps, as if they were killed after a checkpoint."""

    def __init__(self, steps: int) -> None:
        self.steps, self.kept = steps, Run._step

    def __enter__(self) -> None:
        taken, kept, steps = [0], self.kept, self.steps

        def step(run: Run, rows: Any) -> dict[str, float]:
            taken[0] += 1
            if taken[0] > steps:
                raise KeyboardInterrupt
            return kept(run, rows)

        Run._step = step  # type: ignore[method-assign]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        Run._step = self.kept  # type: ignore[method-assign]
        return kind is KeyboardInterrupt


def test_passes_alternate_between_judge_and_classifier(tmp_path: Path) -> None:
    job = TrainMemory(recipe(tmp_path, epochs=2))
    job.kept = {}
    job.loss(job.begin())
    assert job.steps == 2 * 2 * job.every
    stream, kinds = job.batches(DataCursor()), []
    for _ in range(job.steps):
        rows, _ = next(stream)
        kinds.append("relevance" in rows[0][0].extra)
    assert kinds == ([True] * job.every + [False] * job.every) * 2


def tagged(seed: int) -> dict[str, Any]:
    text = long_text("rome", seed)
    start = text.index("rome rome market")
    return {"text": text, "entities": [{"kind": "city", "start": start, "end": start + 9}]}


def test_only_the_tokens_of_a_part_are_tagged_and_others_can_be_hidden(tmp_path: Path) -> None:
    train = write(tmp_path / "tags.jsonl", [tagged(seed) for seed in range(3)])
    job = TrainMemory(recipe(tmp_path, task="tag", train=train))
    job.kept = {}
    networks = job.begin()
    job.loss(networks)
    model, labels = networks[""], networks[""].spec.labels
    assert len(job.documents) > 6 and isinstance(job.task, TagTask)
    known = 0
    for number, document in enumerate(job.documents):
        chosen = reasoner_blocks(document, 32)
        reasoned = job.task.example(model, number, chosen)
        layout, part = reasoned.example.layout, job.task.parts[number]
        ids, label = layout.ids.tolist(), layout.label.tolist()
        assert sum(each >= 0 for each in label) == sum(len(block.ids) for block in part.query)
        for each, (start, end) in zip(chosen, reasoned.places, strict=True):
            assert tuple(ids[start:end]) == part.others[each].ids and all(at < 0 for at in label[start:end])
        words = [model.tokenizer.tokens([ids[at]])[0] for at, each in enumerate(label) if each > 0]
        known += words == ["rome", "rome"] and [labels[each] for each in label if each > 0] == ["B-city", "I-city"]
    assert known == 3
    with torch.no_grad():
        job.intervene(0, job.documents[0])


def test_judge_and_task_model_need_one_vocabulary(tmp_path: Path) -> None:
    job = TrainMemory(recipe(tmp_path))
    job.kept, networks = {}, job.begin()
    networks[""].tokenizer = networks[""].tokenizer.lowercased()
    networks[""].tokenizer.backend.add_tokens(["more"])
    with pytest.raises(MasqueradeError, match="different vocabularies"):
        job.loss(networks)


def test_a_judge_may_have_fewer_layers_than_its_encoder(tmp_path: Path) -> None:
    made = TrainMemory(recipe(tmp_path, layers=1)).begin()
    judge, model = made["judge"], load(tmp_path / "bert")
    assert (judge.spec.layers, made[""].spec.layers) == (1, 2)
    name = "stack.layers.0.attention.query.weight"
    assert torch.equal(judge.state_dict()[name], model.state_dict()[name])
    with pytest.raises(MasqueradeError, match="has 1 to 2 layers"):
        TrainMemory(recipe(tmp_path, layers=3)).begin()


def test_a_judge_alone_may_have_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    asked = reader()
    save(asked.settings.put(asked.model), tmp_path / "reader")
    text = long_text("good", 3)
    answer = {"text": ["market"], "answer_start": [text.index("market")]}
    train = write(tmp_path / "asked.jsonl", [{"id": "1", "question": "who ?", "context": text, "answers": answer}])
    given = recipe(tmp_path, train=train, task="read", relevance="given", fixed=True, reasoner=str(tmp_path / "reader"))
    Run(TrainMemory(given)).train()
    judge = Judge.load(tmp_path / "run")
    assert len(judge.tokenizer) != len(asked.tokenizer)
    answered, short = MemoryReader(asked, WorkingMemory(judge, 8)).ask("who ?", text)
    assert len(short.blocks) < short.total and (not answered or answered.text in text)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": "sing"}, "no task 'sing'"),
        ({"relevance": "given"}, "do not say what is relevant"),
        ({"fixed": True}, "have to be given"),
        ({"block": 30}, "do not fit into a window of 32"),
        ({"up": -1.0}, "'down' has to be below"),
        ({"relevance": "x"}, "no relevance 'x'"),
    ],
)
def test_bad_recipes_are_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        recipe(tmp_path, **changes)
