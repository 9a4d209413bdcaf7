"""A trainer that can be trusted: the same losses after a crash, with more processes, and in smaller batches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training_cases import losses, make_home, recipe

from masquerade import load
from masquerade.data.corpus import Pieces, prepare
from masquerade.data.examples import Example, Extra, PerExample, PerToken, TokenIndex
from masquerade.data.packing import DataCursor, PackedRows, collate, first_fit
from masquerade.data.rng import dynamic_masks, rng_for, spread, static_masks
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, visible
from masquerade.masks import bidirectional
from masquerade.nn.model import Model
from masquerade.objectives.base import Objective
from masquerade.objectives.registry import OBJECTIVES, make_objective
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import Vocabulary
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run, factor
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining, Recipe, read_recipe


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("training"))


OPTIONS = {
    "t5": {"sentinels": [5, 6, 7]},
    "entity": {"names": ["warm mat", "北京"]},
    "mixture": {"mlm": 0.5, "sop": {"share": 0.25, "rate": 0.2}, "span": 0.25},
}


def pieces_of(home: Path, objective: str = "mlm", length: int = 20) -> tuple[Objective, Pieces]:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    made = make_objective(objective, tokenizer, OPTIONS.get(objective, {}))
    return made, made.cut(prepare([str(home / "text.txt")], tokenizer, home / "tokens"), length)


def rows_of(home: Path, objective: str = "mlm", seed: int = 1, copies: int = 0) -> PackedRows:
    made, pieces = pieces_of(home, objective)
    rng = static_masks(seed, copies) if copies else dynamic_masks(seed)

    def example(epoch: int, number: int, place: int) -> Example:
        return made.example(pieces, number, rng(epoch, number), spread(place, epoch))

    return PackedRows(len(pieces), example, row=40, seed=seed)


def take(rows: PackedRows, count: int, cursor: DataCursor | None = None) -> list[tuple[list[int], DataCursor]]:
    stream = rows(cursor or DataCursor())
    drawn = (next(stream) for _ in range(count))
    return [(collate([row]).layout.ids.flatten().tolist(), after) for row, after in drawn]


def test_text_json_and_parquet_give_the_same_tokens(home: Path, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    records = [json.loads(line) for line in (home / "text.jsonl").read_text(encoding="utf-8").splitlines()]
    parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "text.parquet")
    sources = [home / "text.txt", home / "text.jsonl", tmp_path / "text.parquet"]
    made = [prepare([str(path)], tokenizer, tmp_path / path.suffix[1:]) for path in sources]
    assert len(made[0]) == 60
    for other in made[1:]:
        assert made[0].ends.tolist() == other.ends.tolist()
        assert made[0].ids.tolist() == other.ids.tolist()


def test_a_prepared_corpus_is_found_again_until_its_text_changes(home: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    (tmp_path / "a.txt").write_text("the cat")
    prepare([str(tmp_path / "a.txt")], tokenizer, tmp_path / "tokens")
    first = (tmp_path / "tokens" / "ids.bin").stat().st_mtime_ns
    prepare([str(tmp_path / "a.txt")], tokenizer, tmp_path / "tokens")
    assert (tmp_path / "tokens" / "ids.bin").stat().st_mtime_ns == first
    (tmp_path / "a.txt").write_text("the cat sat")
    assert prepare([str(tmp_path / "a.txt")], tokenizer, tmp_path / "tokens").ends.tolist() == [3]


def test_pieces_cover_every_token_once_and_are_never_too_long(home: Path) -> None:
    _, pieces = pieces_of(home)
    assert sum(end - start for start, end in pieces.spans.tolist()) == len(pieces.tokens.ids)
    assert max(end - start for start, end in pieces.spans.tolist()) <= 18


def test_the_stream_of_rows_depends_on_the_seed_alone_and_is_taken_up_anywhere(home: Path) -> None:
    first = take(rows_of(home), 70)
    assert take(rows_of(home), 70) == first
    assert take(rows_of(home, seed=2), 70) != first
    assert first[-1][1].epoch > 0, "the test has to cross an epoch"
    assert take(rows_of(home), 10, cursor=first[59][1]) == first[60:]


@pytest.mark.slow
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_every_objective_trains_and_its_loss_falls(home: Path, tmp_path: Path, objective: str) -> None:
    changes = [f"objective={objective}", "steps=40", "row=80", "save_every=40", "evaluate_every=40"]
    if objective == "t5":
        changes.append("options.sentinels=[5, 6, 7]")
    if objective == "mixture":
        changes += ["options.mlm=0.5", "options.sop=0.5"]
    if objective == "entity":
        changes.append('options.names=["warm mat", "北京"]')
    run = Run(recipe(home, tmp_path, *changes))
    before = run.evaluate()["held_out"]
    run.train()
    assert run.evaluate()["held_out"] < before


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_rows_are_packed_tight_and_nobody_sees_another_document(home: Path, objective: str) -> None:
    stream = rows_of(home, objective)(DataCursor())
    for _ in range(5):
        row, _after = next(stream)
        layout = collate([row]).layout
        assert layout.real.all()
        assert len(layout) <= max(40, len(row[0].layout))
        seen, document = visible(layout)[0], layout.document[0]
        assert not (seen & (document[:, None] != document[None])).any()


def test_extra_fields_are_packed_by_their_kind() -> None:
    def example(ids: list[int], **extra: Extra) -> Example:
        return Example(bidirectional(ids), extra=extra)

    first = example([7, 8, 9], label=PerExample(1), at=TokenIndex([0, 2]), weight=PerToken([0.5, 1.5, 2.5], fill=9.0))
    second = example([4, 5], label=PerExample(0), at=TokenIndex(1))
    third = example([6, 3, 2, 1], spans=PerExample([(1, 2), (3, 4)]), weight=PerToken([1.0, 2.0, 3.0, 4.0], fill=9.0))
    batch = collate([[first, second], [third]])
    assert batch.extra["label"].tolist() == [1, 0]
    assert batch.extra["spans"].tolist() == [[1, 2], [3, 4]]
    assert batch.layout.ids.flatten()[batch.extra["at"]].tolist() == [7, 9, 5]
    assert batch.extra["weight"].tolist() == [[0.5, 1.5, 2.5, 9, 9], [1, 2, 3, 4, 9]]
    shifted = collate([[third], [second, first]])
    assert shifted.layout.ids.flatten()[shifted.extra["at"]].tolist() == [5, 7, 9]


def test_rows_are_filled_longest_first() -> None:
    assert first_fit([3, 7, 4, 6], 10) == [[1, 0], [3, 2]]
    assert first_fit([2, 12, 8], 10) == [[1], [2, 0]]


class Indexed(Pretrain):
    """A job that keeps the sum of the weights of every fourth step, and steps that it saw since."""

    every = 4

    def refresh(self, model: Model, step: int) -> None:
        assert not model.training
        assert not torch.is_grad_enabled()
        index = torch.stack([weight.sum() for weight in model.parameters()])
        self.kept = {"index": index, "steps": [*self.kept.get("steps", []), step]}


def test_a_jobs_hook_runs_every_n_steps_and_what_it_keeps_is_restored(home: Path, tmp_path: Path) -> None:
    def run(out: str, resume: bool = False, *changes: str) -> Indexed:
        made = read_recipe(home / "recipe.toml", Pretraining, [f'out="{tmp_path / out}"', *changes])
        job = Indexed(made)
        Run(job, resume).train()
        return job

    whole = run("whole")
    assert whole.kept["steps"] == [0, 4, 8]
    run("broken", False, "steps=6")
    (tmp_path / "broken" / "recipe.json").unlink()
    again = Indexed(read_recipe(home / "recipe.toml", Pretraining, [f'out="{tmp_path / "broken"}"']))
    resumed = Run(again, resume=True)
    assert again.kept["steps"] == [0, 4], "restored before the first step"
    resumed.train()
    assert again.kept["steps"] == [0, 4, 8]
    assert load(tmp_path / "broken" / "step-12").spec == load(tmp_path / "whole" / "step-12").spec


def test_fixed_masks_come_again_and_dynamic_ones_do_not(home: Path) -> None:
    def labels(copies: int) -> list[list[int]]:
        rows, (_, pieces) = rows_of(home, copies=copies), pieces_of(home)
        longest = int((pieces.spans[:, 1] - pieces.spans[:, 0]).argmax())
        return [rows.example(epoch, longest, 0).layout.label.tolist() for epoch in range(6)]

    assert labels(0)[0] not in labels(0)[1:]
    static = labels(2)
    assert static[:2] * 3 == static
    assert static[0] != static[1]
    assert labels(6) == labels(0), "with as many copies as epochs there is no difference"


def test_only_documents_end(home: Path) -> None:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    for name, end, place in (("next", 3, -1), ("backward", 2, 0), ("diffusion", 3, -1)):
        made, pieces = pieces_of(home, name, length=10)
        ends = [made.enclosed(pieces, number)[place] == end for number in range(len(pieces))]
        whole = [pieces.closes(number) if place else pieces.opens(number) for number in range(len(pieces))]
        assert ends == whole
        assert sum(ends) == len(pieces.tokens) < len(pieces)


def test_a_checkpoint_goes_on_with_a_head_that_it_lacked(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path / "electra", "objective=electra", "steps=3")).train()
    run = Run(recipe(home, tmp_path / "mlm", f'start="{tmp_path / "electra"}"', "steps=1"))
    begun, before = run.bare.model, load(tmp_path / "electra")
    assert begun.spec.outputs == ("lm",)
    for name, weight in before.stack.state_dict().items():
        assert torch.equal(begun.stack.state_dict()[name], weight)
    run.train()


def test_gpt_and_t5_vocabularies_do_without_the_tokens_they_lack(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    def vocabulary(*tokens: str) -> Tokenizer:
        backend = Backend(WordLevel({token: number for number, token in enumerate(tokens)}, unk_token=tokens[0]))
        backend.pre_tokenizer = Whitespace()
        return Tokenizer(backend)

    gpt = vocabulary("<|endoftext|>", "a", "b", "c")
    ids = Vocabulary.of(gpt).enclosed([1, 2])
    assert ids == [0, 1, 2, 0]
    assert make_objective("next", gpt, {})(ids, rng_for(0)).layout.label.tolist() == [1, 2, 0, IGNORE]  # type: ignore[call-arg, arg-type]
    with pytest.raises(MasqueradeError, match="'mlm' needs a mask token"):
        make_objective("mlm", gpt, {})
    t5 = vocabulary("<unk>", "</s>", "<extra_id_2>", "<extra_id_1>", "<extra_id_0>", "a", "b", "c")
    assert Vocabulary.of(t5).enclosed([5, 6]) == [5, 6, 1]
    example = make_objective("t5", t5, {})([5, 6, 7, 1], rng_for(0))  # type: ignore[call-arg, arg-type]
    assert example.source is not None
    assert 4 in example.source.ids.tolist(), "the first sentinel comes first"


def test_a_run_learns_and_leaves_a_model_a_log_and_a_curve(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, "objective=next", "steps=60", "save_every=30", "evaluate_every=30")).train()
    curve = losses(tmp_path)
    assert sum(curve[step] for step in range(51, 61)) < 0.9 * sum(curve[step] for step in range(1, 11))
    held_out = [entry["held_out"] for entry in Store(tmp_path).history() if "held_out" in entry]
    assert held_out[1] < held_out[0]
    assert load(tmp_path / "step-60").has_tokenizer
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "recipe.json").read_text())["steps"] == 60


def test_smaller_micro_batches_give_the_same_losses(home: Path, tmp_path: Path) -> None:
    still = ("model.dropout=0.0", "model.attention_dropout=0.0")
    Run(recipe(home, tmp_path / "whole", *still)).train()
    Run(recipe(home, tmp_path / "parts", "micro=1", *still)).train()
    whole, parts = losses(tmp_path / "whole"), losses(tmp_path / "parts")
    assert list(whole) == list(range(1, 13))
    assert parts == pytest.approx(whole, abs=2e-4)


def test_recomputing_layers_changes_no_loss(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path / "plain")).train()
    Run(recipe(home, tmp_path / "again", "recompute=true")).train()
    assert losses(tmp_path / "again") == pytest.approx(losses(tmp_path / "plain"), abs=1e-5)


SCRIPT = """
import sys
from pathlib import Path
from masquerade.training.loop import Run
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining, read_recipe
Run(Pretrain(read_recipe(Path(sys.argv[1]), Pretraining, sys.argv[3:])), resume=sys.argv[2] == "resume").train()
"""


@pytest.mark.parametrize("objective", ["mlm", "electra"])
def test_a_run_that_is_killed_and_resumed_has_the_losses_of_an_unbroken_one_to_the_last_bit(
    home: Path, tmp_path: Path, objective: str
) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)

    def start(out: str, mode: str) -> subprocess.Popen[bytes]:
        changes = [f'out="{tmp_path / out}"', f"objective={objective}", "steps=40"]
        words = [sys.executable, tmp_path / "run.py", home / "recipe.toml", mode, *changes]
        return subprocess.Popen(words, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})

    assert start("whole", "new").wait() == 0
    broken = start("broken", "new")
    while not (tmp_path / "broken" / "step-6").is_dir() and broken.poll() is None:
        time.sleep(0.01)
    broken.send_signal(signal.SIGKILL)
    broken.wait()
    assert max(losses(tmp_path / "broken"), default=0) < 40, "it was killed too late to show anything"
    assert start("broken", "resume").wait() == 0
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    last = [load(tmp_path / out / "step-40").state_dict() for out in ("whole", "broken")]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mlm", "mixture"])
def test_two_processes_have_the_losses_of_one_with_the_same_batch(home: Path, tmp_path: Path, objective: str) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    still = ["model.dropout=0.0", "model.attention_dropout=0.0", "steps=6", f"objective={objective}"]
    still += ["options.mlm=0.8", "options.nsp=0.2", "rows=2"] if objective == "mixture" else []
    Run(recipe(home, tmp_path / "one", *still)).train()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    words = [*launcher, tmp_path / "run.py", home / "recipe.toml", "new", f'out="{tmp_path / "two"}"', *still]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # as a user starts it: nothing says that there is no GPU
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    logged = [entry["step"] for entry in Store(tmp_path / "two").history() if "loss" in entry]
    assert logged == sorted(set(logged)), "one process writes the log, for both"
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=2e-4)


def test_schedules_rise_and_fall_as_they_say() -> None:
    for schedule, end in (("linear", 0.0), ("cosine", 0.0), ("constant", 1.0)):
        recipe = Recipe(train=("x",), out="y", warmup=10, schedule=schedule)
        values = [factor(recipe, step, 100) for step in range(100)]
        assert values == [factor(replace(recipe, warmup=0.1), step, 100) for step in range(100)]
        assert values[0] == 0.1
        assert values[9] == values[10] == 1.0
        assert values[-1] == pytest.approx(end, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["objective=dreams"], "There is no objective 'dreams'"),
        (["objective=mlm", "options.colour=1"], "does not take these options"),
        (["objective=mlm", "options.rate=fast"], "option 'rate' is 'fast', but it has to be a number"),
        (["steps=0"], "'steps' is 0, but it has to be at least 1"),
        (["steps=1.5"], "'steps' is 1.5, but it has to be a whole number"),
        (["steps=true"], "'steps' is True, but it has to be a whole number"),
        (["rate=fast"], "'rate' is 'fast', but it has to be a number"),
        (["rate=nan"], "'rate' is nan, but it has to be a number"),
        (["clip=None"], "'clip' is 'None', but it has to be a number"),
        (["clip=-1"], "'clip' is -1, but it has to be at least 0"),
        (["recompute=1"], "'recompute' is 1, but it has to be true or false"),
        (["train=[1, 2]"], r"'train' is \(1, 2\), but it has to be a list of text"),
        (["train=7"], "'train' is 7, but it has to be a list of text"),
        (["model=big"], "'model' is 'big', but it has to be a table"),
        (["model.layers=two"], "model field 'layers' is 'two', but it has to be a whole number"),
        (["steps.x=2"], "which is not a table"),
        (["schedule=wavy"], "no schedule 'wavy'"),
        (["row=10"], "do not fit into rows of 10"),
        (["colour=red"], "A recipe has no key 'colour'"),
        (["steps"], "not of the form key=value"),
        (["train=./nowhere.txt"], "There is no corpus at './nowhere.txt'"),
        (["tokenizer=''"], "Fresh weights need a tokenizer"),
        (["text_field=body", "train=TEXT"], "have no 'body'"),
    ],
)
def test_a_bad_recipe_is_one_sentence(home: Path, tmp_path: Path, changes: list[str], sentence: str) -> None:
    filled = [change.replace("TEXT", str(home / "text.jsonl")) for change in changes]
    with pytest.raises(MasqueradeError, match=sentence):
        Run(recipe(home, tmp_path, *filled))


def test_an_empty_corpus_is_one_sentence(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(MasqueradeError, match="There is no text in"):
        Run(recipe(home, tmp_path / "out", f'train="{tmp_path / "empty.txt"}"'))


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_checkpoint(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path))
    step = run._step

    def poisoned(rows: list[list[object]]) -> dict[str, float]:
        return step(rows) | ({"loss": float("nan")} if run.step == 7 else {})  # type: ignore[arg-type]

    run._step = poisoned  # type: ignore[method-assign, assignment]
    with pytest.raises(MasqueradeError, match=r"The loss of step 8 is nan; .* continue from .*step-6"):
        run.train()


def test_a_full_disk_keeps_the_last_good_checkpoint(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(recipe(home, tmp_path))
    saved = torch.save

    def full(value: object, path: Path) -> None:
        if "step-6" in str(path):
            raise OSError(28, "No space left on device")
        saved(value, path)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(MasqueradeError, match=r"step 6 cannot be written \(No space left on device\); .*step-3"):
        run.train()
    assert [path.name for path in tmp_path.glob("*step-*")] == ["step-3"]
    assert load(tmp_path / "step-3").spec.layers == 2


def test_a_folder_that_holds_a_run_is_not_overwritten(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, "steps=3")).train()
    with pytest.raises(MasqueradeError, match="already holds a run; continue it with --resume"):
        Run(recipe(home, tmp_path, "steps=3"))


@pytest.mark.parametrize(("inside", "reason"), [("file", "Not a directory"), ("/proc", "No such file")])
def test_a_folder_that_cannot_be_made_is_one_sentence(home: Path, tmp_path: Path, inside: str, reason: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MasqueradeError, match=rf"folder '.*/run' cannot be made \({reason}.*choose another 'out'"):
        Run(recipe(home, tmp_path / inside / "run"))


def test_a_mixture_has_its_shares_and_the_terms_of_all_its_parts(home: Path) -> None:
    made, pieces = pieces_of(home, "mixture")
    assert set(made.terms()) == {"tokens", "pairs", "boundaries"}
    examples = [made.example(pieces, n % len(pieces), rng_for(1, n), spread(n)) for n in range(80)]
    assert 18 <= sum(example.count("sentence_label") for example in examples) <= 22
    spans = sum("boundary_label" in example.extra for example in examples)
    assert 17 <= spans <= 23
    for options, sentence in (
        ({}, "needs objectives and their shares"),
        ({"mlm": -1}, "share of 'mlm' is -1"),
        ({"mlm": 1, "electra": 1}, "cannot be mixed"),
        ({"mlm": 1, "diffusion": 1}, "is not that of the others"),
        ({"mlm": 1, "bart": 1}, "one has a decoder"),
        ({"mlm": 1, "span": {"share": 1, "colour": 2}}, "does not take these options"),
        ({"glm": 1, "xlnet": 1}, "needs 'positions' of the network"),
        ({"mlm": 1, "dreams": 1}, "no objective 'dreams'"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            make_objective("mixture", Tokenizer.load(home), options)  # type: ignore[arg-type]


def test_a_mixture_is_trained_saved_and_resumed_exactly(home: Path, tmp_path: Path) -> None:
    changes = ["objective=mixture", "options.mlm=0.5", "options.nsp=0.5"]
    Run(recipe(home, tmp_path / "whole", *changes)).train()
    Run(recipe(home, tmp_path / "broken", *changes, "steps=6", "warmup=3", "schedule=constant")).train()
    Run(recipe(home, tmp_path / "again", *changes, "schedule=constant")).train()
    Run(recipe(home, tmp_path / "broken", *changes, "schedule=constant"), resume=True).train()
    assert losses(tmp_path / "broken") == losses(tmp_path / "again")
    model = load(tmp_path / "whole")
    assert (model.spec.family, model.spec.outputs) == ("bert", ("lm", "pair"))
    logged = Store(tmp_path / "whole").history()[-1]
    assert {"tokens", "pairs"} <= set(logged)


@pytest.mark.parametrize(
    ("options", "noisy"),
    [
        ({"noises": ["mask"], "rates": {"mask": 0.5}}, [4] * 9),
        ({"noises": ["delete"], "rates": {"delete": 0.5}}, []),
        ({"noises": ["rotate"]}, []),
    ],
)
def test_barts_noises_are_reached_from_a_recipe(home: Path, options: dict[str, object], noisy: list[int]) -> None:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    example = make_objective("bart", tokenizer, options)([2, *range(5, 23), 3], rng_for(1))
    assert example.source is not None
    ids = example.source.ids.tolist()
    assert [number for number in ids if number == 4] == noisy
    assert len(ids) == (11 if options["noises"] == ["delete"] else 20)
    with pytest.raises(MasqueradeError, match="no noise 'fog'"):
        make_objective("bart", tokenizer, {"noises": ["fog"]})


def test_names_come_from_a_list_a_file_or_the_titles_of_a_corpus(home: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    (tmp_path / "names.txt").write_text("warm mat\n\n北京\n", encoding="utf-8")
    titles = [{"title": "warm mat", "text": "x"}, {"title": "北京"}, {"text": "y"}]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(title) + "\n" for title in titles))
    ids = [2, *tokenizer.encode("the warm mat and 北京"), 3]
    made = [
        make_objective("entity", tokenizer, {"names": names, "rate": 0.4})(ids, rng_for(4)).layout.label.tolist()
        for names in (["warm mat", "北京"], str(tmp_path / "names.txt"), str(tmp_path / "c.jsonl"))
    ]
    assert made[0] == made[1] == made[2]
    (tmp_path / "empty.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(MasqueradeError, match="There are no names"):
        make_objective("entity", tokenizer, {"names": str(tmp_path / "empty.jsonl")})


def test_a_run_saved_under_older_names_is_resumed(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, "steps=3")).train()
    state = json.loads((tmp_path / "step-3" / "state.json").read_text())
    old = {"step": state["step"], "place": state["cursor"]}
    (tmp_path / "step-3" / "state.json").write_text(json.dumps(old))
    run = Run(recipe(home, tmp_path, "steps=4", "precision=no"), resume=True)
    assert run.step == 3
    assert run.cursor == DataCursor(**state["cursor"]) != DataCursor()
    run.train()
