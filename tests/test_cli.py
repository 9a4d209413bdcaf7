"""The commands, as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from masquerade import Spec, build, load, save
from masquerade.cli import main as cli
from masquerade.drawing.gallery import EXAMPLES
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer, word_pieces
from masquerade.writing.fill import fill

FIXTURES = Path(__file__).parent / "fixtures"
BERT = FIXTURES / "tensorflow" / "bert" / "bert_model.ckpt"


def run(*words: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """Type a command; its exit code."""
    monkeypatch.setattr(sys, "argv", ["masquerade", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


def test_help_does_not_wait_for_torch() -> None:
    script = "import sys, masquerade.cli.main; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_package_that_is_not_installed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert run("vocab", text, "--out", tmp_path / "vocab", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "'datasets'" in said and "masquerade[train]" in said


@pytest.mark.parametrize(
    "command",
    [
        "",
        "draw",
        "fill",
        "models",
        "objectives",
        "pretrain",
        "vocab",
        "convert",
        "classify",
        "tag",
        "perplexity",
        "ngram",
        "generate",
        "keep",
        "train",
        "train classifier",
        "train tagger",
        "evaluate classifier",
    ],
)
def test_every_command_explains_itself(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command.split(), "--help", monkeypatch=monkeypatch) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_mask_is_drawn_in_the_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("draw", name, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(name)
    assert "██" in shown


def test_a_mask_is_drawn_over_chinese_text_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for out in ("mask.svg", "mask.png"):
        assert run("draw", "prefix", "--text", "北京是|首都", "--out", tmp_path / out, monkeypatch=monkeypatch) == 0
    text = (tmp_path / "mask.svg").read_text(encoding="utf-8")
    assert all(f">{character}</text>" in text for character in "北京是首都")
    assert (tmp_path / "mask.png").read_bytes().startswith(b"\x89PNG")


def test_the_gallery_has_every_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("draw", "--all", "--out", tmp_path / "masks", monkeypatch=monkeypatch) == 0
    made = {path.name for path in (tmp_path / "masks").iterdir()}
    assert made == {f"{name}.{kind}" for name in EXAMPLES for kind in ("svg", "png")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["draw"], "Name a mask to draw"),
        (["draw", "diagonal"], "There is no mask 'diagonal'"),
        (["draw", "prefix", "--text", "one part"], "needs a text of 2 parts, with | between them"),
        (["draw", "causal", "--text", ""], "needs a text of 1 part"),
        (["draw", "causal", "--out", "mask.gif"], "saved as .png or .svg"),
        (["draw", "--all", "--out", "mask.png"], "--out has to be a folder"),
        (["fill", "no gap", "--model", str(BERT)], "has no [MASK] to fill"),
        (["fill", "[MASK]", "--model", str(BERT), "--top", "0"], "The best 0 words cannot be listed"),
        (["fill", "[MASK]", "--model", "./nowhere"], "no checkpoint at './nowhere'"),
        (["convert", str(BERT.parent), str(BERT.parent)], "cannot be converted onto itself"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, monkeypatch=monkeypatch) == 1
    error = capsys.readouterr().err
    assert error.startswith("masquerade: ")
    assert sentence in error
    assert error.count("\n") == 1


def test_masks_are_filled_with_words_and_probabilities(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fill", "[MASK]ab[MASK]", "--model", BERT, "--top", 3, monkeypatch=monkeypatch) == 0
    assert "[MASK] 2 of 2" in capsys.readouterr().out
    assert run("fill", "[MASK]ab[MASK]", "--model", BERT, "--top", 3, "--json", monkeypatch=monkeypatch) == 0
    filled = json.loads(capsys.readouterr().out)
    assert [len(row) for row in filled["guesses"]] == [3, 3]
    expected = fill(load(BERT), "[MASK]ab[MASK]", top=62).guesses[0]
    assert filled["guesses"][0][0]["id"] == expected[0].id
    assert sum(guess.probability for guess in expected) == pytest.approx(1.0, abs=1e-5)
    assert [guess.probability for guess in expected] == sorted((g.probability for g in expected), reverse=True)


def test_a_tensorflow_checkpoint_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("convert", BERT, tmp_path / "bert", monkeypatch=monkeypatch) == 0
    assert "bert, 2 layers of 16" in capsys.readouterr().out
    text = "a[MASK]b"
    assert fill(load(tmp_path / "bert"), text) == fill(load(BERT), text)


def test_a_model_that_cannot_fill_says_so(tmp_path: Path) -> None:
    model = build(Spec(vocab=20, width=8, layers=1, heads=1, feedforward=8))
    with pytest.raises(MasqueradeError, match="has no tokenizer"):
        fill(model, "[MASK]")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    model.tokenizer = Tokenizer(word_pieces(tmp_path / "vocab.txt"))
    with pytest.raises(MasqueradeError, match="no 'lm' head"):
        fill(model, "[MASK]")
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").has_tokenizer
