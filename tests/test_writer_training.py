"""Writers that learn: every kind of model by one command, two trainings of a single BERT, tasks, and bad input."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from writer_cases import PAIRS, bert, recipe, saved, tokenizer, written

from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, batch, visible
from masquerade.training.loop import Run
from masquerade.writing.examples import TargetLayouts
from masquerade.writing.settings import WritingSettings
from masquerade.writing.training import TrainWriter, Writing
from masquerade.writing.writer import Writer

SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]


def train(given: Writing) -> Writer:
    Run(TrainWriter(given)).train()
    return Writer.load(given.out)


@pytest.mark.parametrize("training", ["shifted", "masked"])
def test_a_single_bert_learns_pairs_by_heart(tmp_path: Path, training: str) -> None:
    epochs = 40 if training == "shifted" else 70
    writer = train(recipe(tmp_path, training=training, epochs=epochs, held_out=[written(tmp_path / "dev.jsonl")]))
    assert [each.text for each in writer.write_many(SOURCES)] == TARGETS
    assert all(each.ended for each in writer.write_many(SOURCES))
    assert "".join(writer.stream(SOURCES[3])) == TARGETS[3]
    log = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8")
    assert "rouge_l" in log


SMALL = {"width": 32, "layers": 1, "heads": 2, "feedforward": 48, "longest": 48}


def fresh(folder: Path, family: str, **changes: Any) -> Writing:
    """A recipe for fresh weights of a family."""
    tokenizer().save(folder / "vocab")
    plain = {"family": family, "tokenizer": str(folder / "vocab"), "model": SMALL, "keep_tokens": False}
    return recipe(folder, **plain | changes)


def known(writer: Writer) -> int:
    """The number of pairs that a writer knows by heart."""
    return sum(found.text == target for found, target in zip(writer.write_many(SOURCES), TARGETS, strict=True))


@pytest.mark.parametrize("family", ["glm", "gpt2"])
def test_other_families_learn_pairs_by_heart(tmp_path: Path, family: str) -> None:
    assert known(train(fresh(tmp_path, family, epochs=60))) >= 4


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus", "mass", "palm", "lstm"])
def test_every_family_trains_and_writes_by_the_same_command(tmp_path: Path, family: str) -> None:
    model = {"width": 32, "layers": 1} if family in ("lstm", "gru") else SMALL
    writer = train(fresh(tmp_path, family, model=model, epochs=12, log_every=1))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert losses[-1] < 0.95 * losses[0]
    assert len(writer.write_many(SOURCES)) == len(SOURCES)


@pytest.mark.parametrize(("family", "init"), [("t5", 0.1), ("pegasus", 0.2)])
def test_fresh_encoder_decoders_learn_to_copy_and_to_stop(tmp_path: Path, family: str, init: float) -> None:
    rng, words = random.Random(0), ["cat", "sat", "warm", "red", "mat", "two", "old", "dogs", "walk", "sea"]
    texts = list(dict.fromkeys(" ".join(rng.sample(words, rng.randint(2, 4))) for _ in range(600)))[:420]
    pairs = [(f"{text} .", text) for text in texts]
    model = {"width": 64, "layers": 1, "heads": 4, "feedforward": 128, "longest": 16, "init_std": init}
    learnt, steps = written(tmp_path / "copy.jsonl", pairs[:400]), 250
    writer = train(
        fresh(tmp_path, family, model=model, train=[learnt], batch=32, epochs=steps / 13, rate=5e-3, warmup=0.1)
    )
    found = writer.write_many([source for source, _ in pairs[400:]], method="greedy")  # texts it has not seen
    assert sum(each.text == target for each, (_, target) in zip(found, pairs[400:], strict=True)) >= 18
    assert all(each.ended for each in found)


def test_a_recurrent_decoder_can_be_put_behind_any_encoder(tmp_path: Path) -> None:
    writer = train(recipe(tmp_path, decoder="gru", decoder_layers=1, epochs=50))
    assert writer.model.spec.decoder is not None and writer.model.spec.decoder.recurrent == "gru"
    assert known(writer) >= 4


def test_texts_can_be_learnt_as_continuations(tmp_path: Path) -> None:
    (tmp_path / "wiki.txt").write_text(
        "The cat sat on a warm red mat. " * 3 + "\n北京是中国的首都。\n", encoding="utf-8"
    )
    job = TrainWriter(recipe(tmp_path, train=[str(tmp_path / "wiki.txt")], continuation=10))
    pairs = job.tasks[0].train
    assert pairs and all(len(pair.target) <= 10 for pair in pairs)
    assert pairs[0].source + pairs[0].target == ("The cat sat on a warm red mat. " * 3)[: len(pairs[0].source) + 10]


def test_masked_targets_show_what_unilm_shows() -> None:
    settings = WritingSettings(training="masked", length=20, target_length=8)
    layouts = TargetLayouts.of(bert(outputs=("lm",)), settings)
    ids = tokenizer().encode("red cat")
    masks, ends = 0, 0
    for seed in range(40):
        layout = layouts.example(tokenizer().encode("the cat sat"), ids, rng_for(seed)).layout
        asked = layout.label != IGNORE
        assert 1 <= int(asked.sum()) <= 3
        assert not bool(asked[:5].any())  # the source predicts nothing
        seen = visible(layout.batched(), layout.batched())[0]
        assert not bool(seen[:5, 5:].any())  # and sees no target
        assert torch.equal(seen[5:, 5:], torch.ones(3, 3).tril().bool())
        masks += int((layout.ids[5:] == 4).sum())
        ends += int(layout.label[-1] == 3)
    assert masks > 40 and ends > 10


def test_the_shifted_loss_is_that_of_a_hand_written_layout() -> None:
    layouts = TargetLayouts.of(bert(outputs=("lm",)), WritingSettings(training="shifted", length=20, target_length=8))
    source, target = tokenizer().encode("the cat"), tokenizer().encode("red mat")
    layout = layouts.example(source, target, rng_for(0)).layout
    assert layout.ids.tolist() == [2, *source, 3, *target]  # the end is predicted, and predicts nothing
    assert layout.label.tolist() == [IGNORE, IGNORE, IGNORE, *target, 3]
    assert layout.segment.tolist() == [0, 0, 0, 0, 1, 1]


def test_tasks_have_prefixes_and_weights(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.jsonl", PAIRS[:2]), written(tmp_path / "b.jsonl", [PAIRS[3]])
    tasks: dict[str, Any] = {
        "title": {"train": [first], "prefix": "title: ", "weight": 3.0},
        "sum": {"train": [second], "prefix": "sum: "},
    }
    job = TrainWriter(recipe(tmp_path, train=[], tasks=tasks, batch=1, epochs=1))
    model = job.begin()[""]
    assert Writer(model).prefix("title") == "title: "
    with pytest.raises(MasqueradeError, match="no task 'poem'; its tasks are title, sum"):
        Writer(model).prefix("poem")
    job.read(model, tmp_path)
    assert job.steps == 7
    drawn = [number for step in job._cut(0) for number in step]
    assert sorted(drawn) == [0, 0, 0, 1, 1, 1, 2]
    assert model.tokenizer.decode(job.sources[0].tolist()).startswith("title: the")


def test_the_vocabulary_is_cut_to_the_training_text(tmp_path: Path) -> None:
    pairs = [("The cat sat.", "Cat")]
    job = TrainWriter(recipe(tmp_path, train=[written(tmp_path / "few.jsonl", pairs)]))
    model = job.begin()[""]
    assert model.spec.vocab == 5 + len({"the", "cat", "sat", "."})
    whole = TrainWriter(recipe(tmp_path, keep_tokens=False)).begin()[""]
    assert whole.spec.vocab == len(tokenizer())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"training": "sideways"}, "no training 'sideways'; choose from shifted, masked, both"),
        ({"family": "bert", "start": "x"}, "a checkpoint to start from, or a 'family'"),
        ({"target_length": 1}, "has to be at least 2"),
        ({"train": []}, "either 'train' or a table of 'tasks'"),
        ({"train": [], "tasks": {"a": {"train": ["x"], "weight": 0}}}, "has to be above 0"),
        ({"train": [], "tasks": {"a": {"files": ["x"]}}}, "has no key 'files'"),
        ({"casing": "loud"}, "no casing 'loud'"),
    ],
)
def test_recipes_that_cannot_be_are_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        recipe(tmp_path, **changes)


def test_models_that_cannot_be_trained_so_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="leaves no room for a source in this model's 48 positions"):
        TrainWriter(recipe(tmp_path, target_length=47)).begin()
    start = saved(tmp_path / "gpt", bert(mask="causal", outputs=("lm",), family="masquerade"))
    with pytest.raises(MasqueradeError, match="is one of a single BERT, and this model is none"):
        TrainWriter(recipe(tmp_path, start=start, training="masked")).begin()


def test_targets_that_are_too_long_are_cut_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = TrainWriter(recipe(tmp_path, target_length=3))
    job.read(job.begin()[""], tmp_path)
    assert "3 of 5 targets are longer than 2 tokens and are cut; raise 'target_length'" in caplog.text
    example = job._example(3, 0)
    assert int((example.layout.label != IGNORE).sum()) == 3
    assert batch([example.layout]).rows == 1
