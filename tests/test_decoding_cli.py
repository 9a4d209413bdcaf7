"""The commands generate and keep, as they are typed."""

from __future__ import annotations

import json
import re
import sys
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from typed import refused, run

from masquerade import Spec, build, load, save
from masquerade.cli import main as cli
from masquerade.cli.show.texts import _flag
from masquerade.decoding.loop import Commit
from masquerade.drawing.steps import steps
from masquerade.drawing.traces import AGAIN, NEW, OLD, UNKNOWN, curtain, grid, lay_traces
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.training import train_tokenizer
from masquerade.writing.fill import infill
from masquerade.writing.generate import DECODING_METHODS, GeneratedText, generate

TEXTS = [
    "北京是中国的首都，也是一座历史名城。",
    "语言模型会读也会写。",
    "the old city of many temples reads and writes",
]
TOKENIZER = train_tokenizer(TEXTS * 3, "wordpiece", size=150)


SMALL: dict[str, Any] = {
    "vocab": len(TOKENIZER), "width": 16, "layers": 2, "heads": 2, "feedforward": 64, "longest": 48, "init_std": 0.6,
    "outputs": ("lm",),
}  # fmt: skip
SPECS = {
    "gpt": Spec(
        family="gpt2", segments=0, mask="causal", norm_first=True, activation="gelu_new", lm_dense=False,
        lm_bias=False, epsilon=1e-5, **SMALL,
    ),
    "bert": Spec(family="bert", **SMALL),
}  # fmt: skip


def saved(kind: str, folder: Path) -> Path:
    """The folder of a tiny random model with a Chinese and English vocabulary."""
    torch.manual_seed(3)
    model = build(SPECS[kind])
    model.tokenizer = TOKENIZER
    save(model, folder)
    return folder


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("gpt", tmp_path_factory.mktemp("gpt"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("bert", tmp_path_factory.mktemp("bert"))


def test_greedy_text_is_printed_for_each_prompt(gpt: Path) -> None:
    printed = run("generate", "北京", "the city", "--model", gpt, "--max-new", 6)
    expected = generate(load(gpt), ["北京", "the city"], max_new=6)
    assert printed == "".join(text.text.strip() + "\n" for text in expected)
    lines = run("generate", "北京", "the city", "--model", gpt, "--max-new", 6, "--json").splitlines()
    assert [json.loads(line)["ids"] for line in lines] == [text.ids for text in expected]


@pytest.mark.parametrize(
    ("method", "words", "settings"),
    [
        ("sample", ["--temperature", 0.8, "--top-k", 9, "--top-p", 0.9, "--seed", 4, "--copies", 2],
         {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "seed": 4, "copies": 2}),
        ("beam", ["--beams", 3, "--length-penalty", 0.5, "--copies", 3],
         {"beams": 3, "length_penalty": 0.5, "copies": 3}),
        ("greedy", ["--repetition", 1.3, "--no-repeat", 2, "--min-new", 3],
         {"repetition": 1.3, "no_repeat": 2, "min_new": 3}),
        ("parallel", ["--length", 3, "--length", 5], {"lengths": [3, 5]}),
        ("mask-predict", ["--rounds", 3], {"rounds": 3}),
        ("diffusion", ["--rounds", 3, "--schedule", "cosine"], {"rounds": 3, "schedule": "cosine"}),
        ("blocks", ["--block-size", 2, "--each", 1], {"size": 2, "each": 1}),
        ("mixture", ["--gamma", 0.3, "--beams", 2], {"gamma": 0.3, "beams": 2}),
        ("rerank", ["--drafts", 5, "--copies", 2], {"drafts": 5, "copies": 2}),
    ],
)  # fmt: skip
def test_options_are_the_settings_of_the_method(
    method: str, words: list[object], settings: dict[str, Any], bert: Path
) -> None:
    lines = run(
        "generate", "北京", "写 the", "-m", bert, "--method", method, "--max-new", 7, *words, "--json"
    ).splitlines()
    expected = generate(load(bert), ["北京", "写 the"], method, max_new=7, **settings)
    for line, text in zip(map(json.loads, lines), expected, strict=True):
        assert line["ids"] == text.ids
        assert line["score"] == pytest.approx(text.score)
        assert [each["ids"] for each in line["alternatives"]] == [each.ids for each in text.alternatives]
        assert "trace" not in line


def test_masks_are_filled_together_by_a_method(bert: Path) -> None:
    text = "北[MASK]是[MASK]都"
    expected = infill(load(bert), text, "mask-predict")
    assert run("fill", text, "-m", bert, "--method", "mask-predict") == expected.text + "\n"
    assert json.loads(run("fill", text, "-m", bert, "--method", "mask-predict", "--json"))["ids"] == expected.ids


def test_help_names_every_method_and_every_setting_has_its_option() -> None:
    said = " ".join(run("generate", "--help").replace("│", " ").split())
    assert all(method in said for method in DECODING_METHODS)
    in_python_alone = {"both_ways", "early_stopping"}
    for make in DECODING_METHODS.values():
        for name in set(signature(make).parameters) - in_python_alone:
            assert f"{_flag(name)} " in said, name


def test_several_texts_are_a_table_the_best_first(gpt: Path) -> None:
    printed = run("generate", "北京", "-m", gpt, "--method", "beam", "--beams", 3, "--copies", 3, "--max-new", 4)
    texts = generate(load(gpt), "北京", "beam", beams=3, copies=3, max_new=4)[0]
    rows = [line for line in printed.splitlines() if line.startswith("│")]
    assert len(rows) == 3
    for row, text in zip(rows, [texts, *texts.alternatives], strict=True):
        assert f"{text.score:.3f}" in row and text.text.strip() in row


def test_prompts_come_from_a_file_or_from_standard_input(gpt: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("北京\n\nthe city\n", encoding="utf-8")
    expected = run("generate", "北京", "the city", "-m", gpt, "--max-new", 5)
    assert run("generate", "-m", gpt, "--max-new", 5, "--in", tmp_path / "prompts.txt") == expected
    assert run("generate", "-m", gpt, "--max-new", 5, "--in", "-", stdin="北京\nthe city\n") == expected


def test_a_prompt_that_does_not_fit_is_named_by_its_number_among_all(
    gpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("masquerade.cli.show.texts.TOGETHER", 2)
    (tmp_path / "prompts.txt").write_text("北京\n的\n首都\n" + "北京" * 30, encoding="utf-8")
    words = ["generate", "-m", gpt, "--max-new", 5, "--in", tmp_path / "prompts.txt"]
    monkeypatch.setattr(sys, "argv", ["masquerade", *map(str, words)])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr()
    assert "Prompt 4 does not fit" in said.err
    assert len(said.out.splitlines()) == 2, "what was written before is shown"


def test_a_terminal_sees_the_prompt_and_the_text_as_it_comes(gpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(StringIO):
        """A terminal that remembers what was on it at each flush."""

        seen: tuple[str, ...] = ()

        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            self.seen = (*self.seen, self.getvalue())

    expected = generate(load(gpt), "the city", max_new=8)[0].text
    for method, more in (("greedy", []), ("sample", ["--top-k", "1"])):
        screen = Watched()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", screen)
            patched.setattr(sys, "argv", ["masquerade", "generate", "the city", "-m", str(gpt), "--max-new", "8",
                                          "--method", method, *more])  # fmt: skip
            patched.setenv("NO_COLOR", "1")
            patched.setenv("TERM", "xterm")
            with pytest.raises(SystemExit):
                cli.main()
        plain = screen.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
        assert plain == f"the city{expected}\n"
        assert len(set(screen.seen)) > 4


def test_what_is_written_keeps_to_the_file(gpt: Path, tmp_path: Path) -> None:
    passage, strings = tmp_path / "passage.txt", tmp_path / "strings.txt"
    passage.write_text("语言模型会读也会写", encoding="utf-8")
    strings.write_text("历史\n名城\n\n", encoding="utf-8")
    span = run("generate", "北京", "-m", gpt, "--max-new", 5, "--span-of", passage).strip()
    assert span and span in "语言模型会读也会写"
    assert run("generate", "北京", "-m", gpt, "--max-new", 5, "--one-of", strings).strip() in ("历史", "名城")
    of = run("generate", "北京", "-m", gpt, "--max-new", 9, "--tokens-of", strings).strip()
    assert of and set(of) <= set("历史名城")


# Traces


def written(ids: list[int], order: list[int]) -> GeneratedText:
    """A text whose tokens were written at these steps."""
    return GeneratedText(
        "", ids, 0.0, True, [Commit(0, step, index, ids[index]) for index, step in enumerate(order)], []
    )


@pytest.mark.parametrize("method", ["greedy", "beam", "blocks", "parallel", "mask-predict"])
def test_a_trace_shows_the_text_after_each_step(method: str, bert: Path) -> None:
    prompt = ["generate", "北京", "-m", bert, "--method", method, "--max-new", 8, "--min-new", 4]
    lines = [line for line in run(*prompt, "--trace").splitlines() if "│" in line]
    text = generate(load(bert), "北京", method, max_new=8, min_new=4)[0]
    assert len(lines) == len({commit.step for commit in text.trace})
    assert len({cell_len(line.rstrip()) for line in lines if "░" in line}) <= 1, "every token keeps its columns"
    assert "░" not in lines[-1]
    as_json = json.loads(run(*prompt, "--trace", "--json"))
    assert [entry["id"] for entry in as_json["trace"]] == [commit.id for commit in text.trace]


PIECES = {kind: train_tokenizer(TEXTS * 3, kind, size=300) for kind in ("wordpiece", "bpe", "unigram")}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(PIECES)),
    st.sampled_from([*TEXTS, "北京 unseen 城 \n x"]),
    st.randoms(use_true_random=False),
    st.integers(20, 90),
)
def test_a_curtain_lifts_to_the_text_and_never_moves_a_token(kind: str, text: str, chance: Any, width: int) -> None:
    tokenizer: Tokenizer = PIECES[kind]
    ids = [number for number in tokenizer.encode(text) if tokenizer.decode([number])]  # special ones are spelled out
    one = written(ids, [chance.randrange(4) for _ in ids])
    blocks = curtain(tokenizer, one, width).plain.split("\n")[:-1]
    assert all(cell_len(line) <= max(width, 40) for line in blocks)
    found = steps(one.trace)
    a_step = len(blocks) // len(found)
    assert len(blocks) == a_step * len(found)
    rows = [
        "".join(line.split("│ ", 1)[1] for line in blocks[at : at + a_step]) for at in range(0, len(blocks), a_step)
    ]
    assert len({cell_len(row) for row in rows}) == 1
    assert "░" not in rows[-1]
    assert "".join(rows[-1].replace("·", "").replace("⏎", "").split()) == "".join(tokenizer.decode(ids).split())


def test_a_grid_tells_new_from_old_and_again() -> None:
    trace = [Commit(0, 0, 1, 7), Commit(0, 1, 0, 5), Commit(0, 2, 1, 8)]
    assert grid(steps(trace)) == [
        [(UNKNOWN, None), (NEW, 7)],
        [(NEW, 5), (OLD, 7)],
        [(OLD, 5), (AGAIN, 8)],
    ]


def test_the_picture_of_one_token_a_step_is_a_staircase_and_of_all_at_once_a_row() -> None:
    ids = TOKENIZER.encode("北京是中国的首都")
    stairs, row = written(ids, list(range(8))), written(ids, [0] * 8)
    canvas = lay_traces(TOKENIZER, [("greedy", stairs), ("parallel", row)], "北京")
    new = [box for box in canvas.boxes if box.role == NEW]
    assert len({box.y for box in new[:8]}) == 8 and len({box.y for box in new[8:]}) == 1
    assert [box.x for box in new[:8]] == [box.x for box in new[8:]] == sorted({box.x for box in new})
    assert len([box for box in canvas.boxes if box.role == UNKNOWN]) == 28
    words = [label.text for label in canvas.labels]
    assert words.count("北") == 9 and words.count("都") == 2
    assert {"8 tokens in 8 steps", "8 tokens in 1 step"} <= set(words)
    assert all(box.x + box.width <= canvas.width and box.y + box.height <= canvas.height for box in canvas.boxes)


def test_a_picture_of_many_steps_is_no_larger_than_can_be_shown() -> None:
    ids = TOKENIZER.encode("北京是中国的首都") * 50
    canvas = lay_traces(TOKENIZER, [("greedy", written(ids, list(range(400))))], "北京")
    assert canvas.width < 1800 and canvas.height < 2100
    assert not any(label.text == "北" for label in canvas.labels)


def test_the_steps_are_drawn_to_a_file(gpt: Path, tmp_path: Path) -> None:
    for name in ("steps.svg", "steps.png"):
        run("generate", "北京", "the city", "-m", gpt, "--max-new", 4, "--trace-out", tmp_path / name)
    text = (tmp_path / "steps.svg").read_text(encoding="utf-8")
    assert ">北京</text>" in text and 'class="written in this step"' in text
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")


# Keeping tokens


def test_a_vocabulary_is_cut_to_the_texts(gpt: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("北京 北京", encoding="utf-8")
    (tmp_path / "two.txt").write_text("首都", encoding="utf-8")
    out = tmp_path / "cut"
    texts = ["--texts", tmp_path / "one.txt", "--texts", tmp_path / "two.txt"]
    printed = run("keep", "--model", gpt, *texts, "--out", out)
    smaller = load(out)
    assert smaller.has_tokenizer
    assert len(smaller.tokenizer) == smaller.spec.vocab == 5 + 4
    assert smaller.tokenizer.decode(smaller.tokenizer.encode("北京首都")) == "北京首都"
    counts = [f"{sum(weight.numel() for weight in load(each).parameters()):,}" for each in (gpt, out)]
    assert all(number in printed for number in (f"{len(TOKENIZER):,}", "9", *counts, str(out)))
    run("keep", "--model", gpt, *texts, "--least", 2, "--out", out)
    assert load(out).spec.vocab == 5 + 2


# What cannot be done


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["x", "--method", "best"], "There is no method 'best'; choose from greedy, sample, beam"),
        (["x", "--seed", "1"], "--seed is no option of the method 'greedy'; its options are none of its own"),
        (
            ["x", "--method", "beam", "--top-k", "3"],
            "--top-k is no option of the method 'beam'; its options are --beams",
        ),
        (["x", "--method", "beam", "--block-size", "3"], "--block-size is no option of the method 'beam'"),
        (["x", "--method", "beam", "--beams", "0"], "A search with 0 beams finds nothing"),
        (["x", "--frame", "decode"], "cannot write in the frame 'decode'"),
        (["x", "--max-new", "99"], "leave room for"),
        ([], "There is nothing to generate from; give a text, or a file with one on each line by --in"),
        (["--in", "nowhere.txt"], "'nowhere.txt' cannot be read"),
        (["x", "--one-of", "nowhere.txt"], "'nowhere.txt' cannot be read"),
        (["x", "--one-of", "a", "--span-of", "b"], "--span-of and --one-of exclude each other"),
        (["x", "--max-new", "2", "--trace-out", "steps.gif"], "saved as .png or .svg"),
        (["x"] * 9 + ["--trace-out", "steps.svg"], "room for the steps of 8 texts, not of 9"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, gpt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused("generate", "--model", gpt, *words, monkeypatch=monkeypatch, capsys=capsys)
    assert sentence in said


def test_several_tokens_a_step_need_a_model_that_can(
    gpt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused("generate", "x", "--model", gpt, "--method", "parallel", monkeypatch=monkeypatch, capsys=capsys)
    assert "cannot write several tokens at once" in said


def test_settings_are_checked_before_the_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused("generate", "x", "-m", "./nowhere", "--seed", 1, monkeypatch=monkeypatch, capsys=capsys)
    assert "--seed" in said


def test_the_examples_of_the_page_run(bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canvas = Path(__file__).parents[1] / "docs" / "decoding.md"
    examples = re.findall(r"```python\n(.*?)```", canvas.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 4
    exec(compile("\n".join(examples).replace("path/to/model", str(bert)), canvas.name, "exec"), {})
    assert f"{len(TOKENIZER)} → " in capsys.readouterr().out
