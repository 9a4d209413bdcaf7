"""The commands, as they are typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import masquerade
from masquerade import Spec, build, load, save
from masquerade.cli import main as cli
from masquerade.cli.recipes import recipe_file
from masquerade.drawing.gallery import EXAMPLES
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer, word_pieces
from masquerade.writing.fill import fill

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[1]
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


@pytest.mark.parametrize(
    ("module", "install"),
    [
        ("datasets", "'masquerade[train]'"),
        ("jieba.posseg", "'masquerade[train]'"),
        ("docx", "'masquerade[documents]'"),
        ("tantivy", "'masquerade[retrieval]'"),
        ("left_pad", "left_pad"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str, install: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)

    monkeypatch.setattr(cli, "app", command)
    with pytest.raises(SystemExit):
        cli.main()
    package = module.partition(".")[0]
    expected = f"masquerade: This needs the package '{package}'; install it with pip install {install}.\n"
    assert capsys.readouterr().err == expected


def test_every_extra_of_a_module_installs_it() -> None:
    packages = {"docx": "python-docx", "faiss": "faiss-cpu", "Stemmer": "PyStemmer"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for module, extra in cli.EXTRAS.items():
        wanted = packages.get(module, module.replace("_", "-"))
        assert any(re.match(rf"{wanted}\b", package) for package in extras[extra]), module


def test_the_version_is_printed_without_torch() -> None:
    script = "import sys; sys.argv[1:] = ['--version']\nfrom masquerade.cli.main import main\ntry: main()\n"
    script += "finally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == f"masquerade {masquerade.__version__}\n" and not done.stderr


@pytest.mark.parametrize("words", [["version"], ["--version", "--verbose"]])
def test_the_version_describes_the_machine(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("masquerade.kernels._chosen", None)
    monkeypatch.setenv("MASQUERADE_KERNEL", "plain")
    assert run(*words, monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["masquerade", "PyTorch", "CPU", "flags", "float32 kernel", "attention", "bfloat16"]
    assert [re.split(r":| \d", line)[0] for line in lines] == names
    assert "plain (set by MASQUERADE_KERNEL)" in lines[4]


def test_verbose_prints_log_messages() -> None:
    words = ["--verbose", "fill", "[MASK]a", "--model", str(BERT)]
    done = subprocess.run([sys.executable, "-m", "masquerade", *words], capture_output=True, text=True)
    assert "masquerade.kernels: float32 kernel: plain" in done.stderr
    assert not subprocess.run([sys.executable, "-m", "masquerade", *words[1:]], capture_output=True, text=True).stderr


def test_shipped_recipes_have_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recipes", monkeypatch=monkeypatch) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "recipes").glob("*.toml")) and "mlm" in listed
    assert recipe_file("mlm") == ROOT / "recipes" / "mlm.toml"
    for path in (ROOT / "recipes").glob("*.toml"):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        assert first.endswith((".", ":", ")")), f"{path.name}: the list shows its first line alone"
    assert recipe_file("mine/mlm.toml") == Path("mine/mlm.toml")
    assert run("recipes", "mlm", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == (ROOT / "recipes" / "mlm.toml").read_text(encoding="utf-8")
    assert run("pretrain", "mlmm", monkeypatch=monkeypatch) == 1
    assert "There is no recipe 'mlmm'; give the path of a TOML file, or one of " in capsys.readouterr().err


def test_public_names_are_listed_and_there() -> None:
    wanted = "load save build Spec Layout masks Cache Model Reader Answer Classifier Tagger generate Encoder"
    wanted += " KnowledgeBase MasqueradeError"
    assert {*wanted.split(), "__version__"} <= set(dir(masquerade))
    assert all(hasattr(masquerade, name) for name in dir(masquerade))
    with pytest.raises(AttributeError, match="no attribute 'Desk'"):
        _ = masquerade.Desk


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
        "recipes",
        "version",
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
        (["draw", "prefix", "--text", "a | b | c"], "needs a text of 2 parts, with | between them"),
        (["draw", "pack", "--text", "one part"], "needs a text of 2 parts or more, with | between them"),
        (["draw", "causal", "--text", ""], "needs a text of 1 part"),
        (["draw", "causal", "--text", "a | b"], "needs a text of 1 part"),
        (["draw", "causal", "--all"], "--all draws every mask over its own example"),
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
