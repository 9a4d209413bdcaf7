"""Segment recurrence: memory from batch to batch, perplexity with a memory, and what has to stay exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from training_cases import losses, make_home, recipe

from masquerade import load
from masquerade.cli.show.perplexity import show_perplexity
from masquerade.data.corpus import Tokens
from masquerade.data.examples import Example
from masquerade.data.packing import DataCursor, Row, collate
from masquerade.data.rng import Rng
from masquerade.data.streams import Segment, Streams
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, visible
from masquerade.masks import causal
from masquerade.nn.model import Model, build
from masquerade.nn.segments import StreamMemory
from masquerade.nn.spec import Spec
from masquerade.objectives.loss import TokenTerm
from masquerade.objectives.recurrence import RecurrentLoss
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run
from masquerade.writing.perplexity import memory_perplexity
from masquerade.writing.segments import clamped, segment_losses, window_losses

CLS, SEP = 1, 2
XL = ("objective=transformer-xl", "memory=8", "length=6", "row=6", "rows=3", "micro=2")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("recurrence"))


def next_token(segment: Segment, rng: Rng) -> Example:
    last = IGNORE if segment.following is None else segment.following
    return Example(causal(segment.ids).replace(label=[*segment.ids[1:], last]))


def streams_of(sizes: list[int], rows: int, length: int, seed: int = 1) -> Streams:
    ends = np.cumsum(sizes)
    tokens = Tokens(np.arange(10, 10 + ends[-1], dtype=np.uint32), ends.astype(np.int64))
    return Streams(tokens, ([CLS], [SEP]), next_token, rows, length, seed)


def network(positions: str = "transformer-xl", seed: int = 0) -> Model:
    torch.manual_seed(seed)
    size = {"vocab": 60, "width": 16, "layers": 3, "heads": 2, "feedforward": 24, "init_std": 0.3}
    spec = Spec(
        **size,
        positions=(positions,),
        max_distance=20,
        mask="causal",
        outputs=("lm",),
        dropout=0.0,
        attention_dropout=0.0,
    )  # type: ignore[arg-type]
    return build(spec).eval()


def test_every_row_goes_on_where_it_ended_and_no_token_is_lost() -> None:
    streams = streams_of([7, 30, 3, 12, 1], rows=2, length=5)
    assert (streams.part, streams.steps) == (31, 6)
    text: list[list[int]] = [[], []]
    batches = streams(DataCursor())
    for _ in range(6):
        rows, cursor = next(batches)
        for number, row in enumerate(rows):
            ids = [int(token) for example in row for token in example.layout.ids]
            assert len(ids) == 5, "rows are full"
            labels = [int(token) for example in row for token in example.layout.label]
            for index, (token, label) in enumerate(zip(ids, labels, strict=True)):
                assert (label == IGNORE) == (token == SEP)
                assert index == 4 or label in (IGNORE, ids[index + 1])
            assert row[0].extra["continued"].tensor.item() == (bool(text[number]) and ids[0] != CLS)
            text[number] += ids
    assert cursor == DataCursor(1)
    assert len({token for part in text for token in part if token > SEP}) >= 60 - 2 * 10 - 3
    for part in text:
        places = [index for index, token in enumerate(part) if token == SEP]
        assert all(part[index + 1] == CLS for index in places if index + 1 < len(part))
    again = streams(DataCursor(0, 4))
    first, _ = next(again)
    assert [int(token) for token in first[0][0].layout.ids][:1] == text[0][20:21]


def test_a_text_that_is_too_short_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="9 tokens, too few for 4 rows of 5"):
        streams_of([7], rows=4, length=5)


def in_segments(model: Model, batches: list[list[Row]], memory: int, rows: int) -> tuple[RecurrentLoss, list[float]]:
    """The summed losses of batches that are read one after another with a memory."""
    loss = RecurrentLoss(model, {"tokens": TokenTerm()}, rows, memory).train()
    return loss, [float(loss(collate(batch))["tokens"].detach()) for batch in batches]


@pytest.mark.parametrize("positions", ["transformer-xl", "buckets", "alibi", "nezha", "rotary"])
def test_with_a_long_memory_segments_give_the_loss_of_whole_documents(positions: str) -> None:
    model, sizes = network(positions).train(), [7, 13, 3, 12]
    streams = streams_of(sizes, rows=1, length=5)
    batches = [rows for (rows, _), _ in zip(streams(DataCursor()), range(streams.steps), strict=False)]
    _, found = in_segments(model, batches, memory=40, rows=1)
    ids = [int(token) for rows in batches for example in rows[0] for token in example.layout.ids]
    starts = [index for index, token in enumerate(ids) if token == CLS]
    expected = 0.0
    for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True):
        part = ids[start:stop]
        if len(part) > 1:
            scores = model.scores(causal(part)).detach().log_softmax(-1)[0]
            expected -= float(scores[torch.arange(len(part) - 1), part[1:]].sum())
    cut = batches[-1][0][-1].layout  # the last label of the epoch lies behind its last token
    last = int(cut.label[-1])
    if last != IGNORE:
        expected -= float(model.scores(causal(ids[starts[-1] :])).detach().log_softmax(-1)[0, -1, last])
    assert sum(found) == pytest.approx(expected, rel=1e-5)


def test_memory_holds_only_the_last_document_and_gets_no_gradient() -> None:
    model = network().train()
    streams = streams_of([3, 20, 20], rows=2, length=6)
    batches = [rows for (rows, _), _ in zip(streams(DataCursor()), range(3), strict=False)]
    loss, _ = in_segments(model, batches[:2], memory=4, rows=2)
    memory = loss.memories[True]
    assert memory.valid.all(-1).any()
    assert not memory.states.requires_grad
    before = memory.states.clone()
    batch = collate(batches[2])
    pass_memory = memory.before(batch.extra["stream"], batch.extra["continued"])
    whole = pass_memory.extended(batch.layout)
    seen = visible(whole)[:, 4:, :4]
    for row in range(2):
        continued = bool(batch.extra["continued"][row])
        first = batch.layout.document[row] == 0
        assert bool(seen[row][first].any()) == (continued and bool(memory.valid[row].any()))
        assert not seen[row][~first].any(), "a new document does not see the memory of the one before"
    model.zero_grad()
    loss(batch)["tokens"].backward()
    assert torch.equal(before, memory.states) is False, "the memory has moved on"
    key = model.stack.layers[1].attention.key.weight.grad  # type: ignore[union-attr]
    assert key is not None
    assert bool(key.abs().sum() > 0)


def test_keys_of_the_memory_are_computed_with_the_weights_of_the_step() -> None:
    """The gradient of a key projection is that of numbers that are moved, with the remembered states held fixed."""
    model = network().train()
    streams = streams_of([40], rows=1, length=6)
    batches = [rows for (rows, _), _ in zip(streams(DataCursor()), range(3), strict=False)]
    loss, _ = in_segments(model, batches[:2], memory=6, rows=1)
    kept = loss.memories[True].valid.clone(), loss.memories[True].states.clone()
    weight = model.stack.layers[0].attention.key.weight  # type: ignore[union-attr]
    assert isinstance(weight, torch.Tensor)

    def value() -> torch.Tensor:
        loss.memories[True].valid, loss.memories[True].states = kept[0].clone(), kept[1].clone()
        return loss(collate(batches[2]))["tokens"]

    model.zero_grad()
    value().backward()
    assert weight.grad is not None
    slope = weight.grad[3, 5].item()
    with torch.no_grad():
        weight[3, 5] += 1e-2
        high = value().item()
        weight[3, 5] -= 2e-2
        low = value().item()
    assert slope == pytest.approx((high - low) / 2e-2, rel=0.05)


def test_queries_of_xlnet_are_not_remembered(home: Path, tmp_path: Path) -> None:
    changes = ["objective=xlnet", "memory=8", "length=6", "row=6", "rows=3", "steps=8", "model.dropout=0.0"]
    run = Run(recipe(home, tmp_path, *changes))
    assert run.bare.model.spec.family == "xlnet"
    stream = run.job.batches(DataCursor())
    loss = run.bare
    assert isinstance(loss, RecurrentLoss)
    loss.train()
    with torch.no_grad():
        batch = collate(next(stream)[0])
        loss(batch)
        states = loss.model.embed(batch.layout)
    kept, valid = loss.memories[True].states[0], loss.memories[True].valid
    for row in range(3):
        last = batch.layout.document[row].max()
        content = (batch.layout.document[row] == last) & (batch.layout.kind[row] == 0)
        assert int(valid[row].sum()) == min(8, int(content.sum()))
        assert torch.allclose(kept[row][valid[row]], states[row][content][-8:], atol=1e-6)
    run.train()
    assert load(tmp_path).spec.family == "xlnet"


def test_same_length_lets_every_token_see_as_many(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, *XL, "same_length=true"))
    rows, _ = next(run.job.batches(DataCursor()))
    assert all(int(example.layout.reach.max()) == 7 for row in rows for example in row)


def test_a_memory_is_resumed_exactly(home: Path, tmp_path: Path) -> None:
    steady = (*XL, "schedule=constant")
    Run(recipe(home, tmp_path / "whole", *steady)).train()
    Run(recipe(home, tmp_path / "broken", *steady, "steps=6")).train()
    Run(recipe(home, tmp_path / "broken", *steady), resume=True).train()
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    ends = [load(tmp_path / out / "step-12").state_dict() for out in ("whole", "broken")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    _, _, state = Store(tmp_path / "whole").load(tmp_path / "whole" / "step-12")
    assert state.kept["valid"].any()
    with pytest.raises(MasqueradeError, match="remembers 8 tokens in 3 rows"):
        Run(recipe(home, tmp_path / "broken", *steady, "memory=4", "steps=13"), resume=True)


def test_what_a_run_measured_holds_after_a_resume(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run(recipe(home, tmp_path, "steps=3")).train()
    assert Store(tmp_path).precision(tmp_path / "step-3") == "no"
    monkeypatch.setattr("masquerade.kernels.mixed_precision", lambda *_: "bf16")
    again = Run(recipe(home, tmp_path, "steps=6"), resume=True)
    assert str(again.accelerator.mixed_precision) == "no"


def test_a_memory_helps_where_the_past_matters(tmp_path: Path) -> None:
    """Documents repeat a random line of six words: with segments of four, only the memory tells what comes."""
    home = make_home(tmp_path)
    words = (home / "vocab.txt").read_text(encoding="utf-8").split()[5:]
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(words, 6).tolist() * 8) for _ in range(400)]
    (home / "text.txt").write_text("\n\n".join(lines), encoding="utf-8")
    changes = ["objective=transformer-xl", "length=4", "row=4", "rows=16", "micro=16", "steps=160", "rate=0.01"]
    changes += ["model.layers=2", "model.dropout=0.0", "model.attention_dropout=0.0", "model.norm_first=true"]
    changes += ["memory=12", "held_out=[]", "save_every=160", "log_every=160"]
    Run(recipe(home, tmp_path / "out", *changes)).train()
    model = load(tmp_path / "out")
    with_memory, without = (memory_perplexity(model, lines[:20], length=4, memory=n).perplexity for n in (12, 0))
    assert with_memory < 0.75 * without


def test_networks_without_distances_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="A memory needs relative positions"):
        Run(recipe(home, tmp_path, "objective=next", "memory=8", "length=6"))
    with pytest.raises(MasqueradeError, match="does not read segments with a memory"):
        Run(recipe(home, tmp_path / "b", "memory=8", "length=6", 'held_out=["x.txt"]', 'model.positions=["rotary"]'))


@pytest.mark.slow
@pytest.mark.skipif("CI" in os.environ, reason="one of the processes failed once on a busy machine; the cause is open")
def test_two_processes_remember_as_one_does(home: Path, tmp_path: Path) -> None:
    from test_training import SCRIPT

    (tmp_path / "run.py").write_text(SCRIPT)
    still = [*XL, "model.dropout=0.0", "model.attention_dropout=0.0", "steps=6", "schedule=constant"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for out, processes, mode, steps in (("one", 1, "new", 6), ("two", 2, "new", 3), ("two", 2, "resume", 6)):
        changes = [f'out="{tmp_path / out}"', *still, f"steps={steps}"]
        words = [*launcher, f"--nproc_per_node={processes}", tmp_path / "run.py", home / "recipe.toml", mode, *changes]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-3)
    kept = [Store(tmp_path).load(tmp_path / out / "step-6")[2].kept for out in ("one", "two")]
    assert torch.equal(kept[0]["valid"], kept[1]["valid"])
    assert torch.allclose(kept[0]["states"], kept[1]["states"], atol=1e-2)


def test_clearing_forgets() -> None:
    memory = StreamMemory(2, 3, 1, 4)
    memory.valid[0] = True
    memory.clear()
    assert not memory.valid.any()


ORACLE = Path(__file__).resolve().parents[2] / "shared" / "oracles" / "transfo-xl-eval"


@pytest.mark.data
@pytest.mark.skipif(not ORACLE.is_dir(), reason="the reference perplexities are not here")
def test_perplexity_with_a_memory_is_the_references() -> None:
    model = load(ORACLE).eval()
    text = np.load(ORACLE / "text.npz")
    ids = text["ids"].tolist()
    for run in json.loads((ORACLE / "perplexity.json").read_text())["runs"]:
        with clamped(model, run["clamp"]):
            if "window" in run:
                found = window_losses(model, ids, run["window"])
            else:
                settings = {"same_length": run["same_length"], "blank": run["start"] == "zeros"}
                [found] = segment_losses(model, [ids], run["segment"], run["memory"], **settings)
        expected = torch.from_numpy(text[f"nll.{run['key']}"]).float()
        assert torch.allclose(found, expected, atol=1e-4), run
        assert found.mean().item() == pytest.approx(run["nats"], abs=1e-5)
    assert model.stack.layers[0].attention.relation.limit == 40  # type: ignore[union-attr]


def test_segments_with_the_same_length_do_not_depend_on_their_size_nor_texts_on_each_other() -> None:
    model, rng = network(), np.random.default_rng(1)
    texts = [rng.integers(5, 60, size).tolist() for size in (23, 9, 31, 1)]
    apart = [segment_losses(model, [text], 4, 7, same_length=True)[0] for text in texts]
    for segment in (1, 10, 40):
        together = segment_losses(model, texts, segment, 7, same_length=True)
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(apart, together, strict=True))
    assert [len(each) for each in apart] == [22, 8, 30, 0]
    whole = model.scores(causal(texts[0][:-1])).detach()[0].log_softmax(-1)
    expected = -whole[torch.arange(22), texts[0][1:]]
    assert torch.allclose(segment_losses(model, texts, 5, 50)[0], expected, atol=1e-5)
    assert torch.allclose(window_losses(model, texts[0], 30), expected, atol=1e-5)
    assert len(window_losses(model, texts[0], 3, first=20)) == 3


def test_perplexity_reads_a_trained_model_with_memories(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, *XL, "steps=40", "save_every=40", "evaluate_every=40")).train()
    model, texts = load(tmp_path), (home / "text.txt").read_text(encoding="utf-8").split("\n\n")[:5]
    results = {n: memory_perplexity(model, texts, length=6, memory=n) for n in (0, 8)}
    assert results[0].tokens == results[8].tokens == sum(len(text.split()) + 1 for text in texts)
    assert results[0].perplexity != results[8].perplexity
    with pytest.raises(MasqueradeError, match="relative positions"):
        segment_losses(network("learned"), [[1, 2]], 1, 1)
    with pytest.raises(MasqueradeError, match="cannot be read"):
        segment_losses(network(), [[1, 2]], 0, 1)
    with pytest.raises(MasqueradeError, match="can be clamped"), clamped(network("buckets"), 3):
        pass


def test_the_command_line_reads_with_memories(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run(recipe(home, tmp_path, *XL, "steps=3")).train()
    show_perplexity([str(home / "text.txt")], str(tmp_path), 6, None, [2, 8], True, 4, True)
    assert len(json.loads(capsys.readouterr().out)) == 2
    for stride, memories, same in ((None, [], True), (3, [4], False)):
        with pytest.raises(MasqueradeError, match=r"--memory|--stride"):
            show_perplexity([str(home / "text.txt")], str(tmp_path), 6, stride, memories, same, None, True)
