"""The command ask, as it is typed."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from pdf_files import write_pdf
from reader_cli_cases import CITY, RIVER, saved_reader
from typed import refused, run
from typer.testing import CliRunner

from masquerade import load, save
from masquerade.cli import main as cli
from masquerade.cli.reading import ask
from masquerade.cli.show.ask import AskOptions, AskSession
from masquerade.documents.document import Citation, Document, language
from masquerade.documents.folders import read_documents
from masquerade.reading.answers import VOTES, Answer
from masquerade.reading.decoders import DECODERS
from masquerade.reading.reader import WINDOWS, Reader, Settings
from masquerade.reading.scores import METRICS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random reader."""
    return saved_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def silent(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same reader, which is never sure enough to answer."""
    model = load(tiny)
    replace(Settings.of(model), threshold=2.0).put(model)
    save(model, folder := tmp_path_factory.mktemp("silent"))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two texts, and of things that are none."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "river.txt").write_bytes(RIVER.encode())
    (folder / "city.md").write_bytes(CITY.encode())
    (folder / "empty.txt").write_text(" \n")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\0\0")
    (folder / ".git").mkdir()
    (folder / ".git" / "notes.txt").write_text("hidden")
    return folder


def plain(answer: Answer, names: list[Path]) -> dict[str, Any]:
    """An answer as JSON has it."""
    there = answer.start >= 0
    return {
        "answer": answer.text,
        "score": pytest.approx(answer.score),
        "file": str(names[answer.passage]) if answer else None,
        "unit": "line" if there else None,
        "number": names[answer.passage].read_text()[: answer.start].count("\n") + 1 if there else None,
        "start": answer.start if there else None,
        "end": answer.end if there else None,
    }


# Asking


def test_an_answer_is_printed_with_its_confidence_and_its_sentence(tiny: Path, home: Path) -> None:
    answer = Reader.load(tiny).ask("where does it flow?", RIVER)
    printed = run("ask", "where does it flow?", "--in", home / "river.txt", "-m", tiny)
    sentence = next(s for s in ("The Danube flows into the Black Sea.", "The Rhine does not.") if answer.text in s)
    where = f"{home / 'river.txt'}:2 (characters {answer.start}–{answer.end})"
    assert printed == f"{answer.text}  {answer.score:.1%}\n  {sentence}\n  {where}\n"


def test_a_terminal_sees_the_answer_marked_in_its_sentence(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    session = AskSession(
        Reader.load(tiny), [Document("a", "The Danube flows into the Black Sea.")], AskOptions(), as_json=False
    )
    session._print(Answer("Black Sea", 0.5, 0, 26, 35))
    first, second, _ = sys.stdout.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "\x1b[1mBlack Sea\x1b[0m" in first and "50.0%" in first
    assert re.fullmatch(r"  The Danube flows into the \x1b\[[\d;]+mBlack Sea\x1b\[0m\.", second)


@pytest.mark.parametrize("question", ["where does it flow?", "谁在哪里？", "２０００ 万 does what?"])
def test_json_has_the_places_of_the_files_as_they_are(question: str, tiny: Path, home: Path) -> None:
    names = [home / "river.txt", home / "city.md"]
    words = ["--in", names[0], "--in", names[1], "-m", tiny, "--n-best", 5]
    found = json.loads(run("ask", question, *words, "--json"))
    answer = Reader.load(tiny).ask(question, [RIVER, CITY], n_best=5)
    others = [plain(each, names) for each in answer.alternatives]
    assert len(others) == 4
    assert found == {"question": question, **plain(answer, names), "alternatives": others}
    for each in (found, *found["alternatives"]):
        text = Path(each["file"]).read_bytes().decode("utf-8")
        assert text[each["start"] : each["end"]] == each["answer"]


def test_where_answers_stand_is_said_if_there_are_several(tiny: Path, home: Path) -> None:
    answer = Reader.load(tiny).ask("谁在哪里？", [CITY, RIVER], n_best=3)
    printed = run("ask", "谁在哪里？", "--in", home / "city.md", "--in", home / "river.txt", "-m", tiny, "--n-best", 3)
    lines = printed.splitlines()
    assert len(lines) == 9
    for number, each in enumerate((answer, *answer.alternatives)):
        text = (CITY, RIVER)[each.passage]
        assert lines[3 * number] == f"{each.text}  {each.score:.1%}"
        place = f"{home / ('city.md', 'river.txt')[each.passage]}:{text[: each.start].count(chr(10)) + 1}"
        assert lines[3 * number + 2] == f"  {place} (characters {each.start}–{each.end})"


def test_one_option_takes_all_the_files_of_a_shell_pattern(tiny: Path, home: Path) -> None:
    files, asked = [home / "city.md", home / "river.txt"], "谁在哪里？"
    expected = run("ask", asked, "--in", files[0], "--in", files[1], "-m", tiny, "--json")
    assert run("ask", asked, "--in", *files, "-m", tiny, "--json") == expected
    assert run("ask", "-m", tiny, "--json", "--in", *files, asked) == expected, "what is no file is the question"
    assert "standard input" in run("ask", asked, "--n-best", 99, "-m", tiny, "--in", files[0], "-", stdin=RIVER)
    globs = [home / "c*.md", home / "r*.txt"]
    assert run("ask", "-m", tiny, "--json", "--in", *globs, asked) == expected, "a glob is a file, too"
    long = "where? " * 200
    assert json.loads(run("ask", "-m", tiny, "--json", "--in", files[0], long))["question"] == long


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("free", [False, True])
def test_options_are_the_settings_of_the_reader(decoder: str, free: bool, tiny: Path, home: Path) -> None:
    names = [home / "river.txt", home / "city.md"]
    options = ["--decoder", decoder, "--vote", "all", "--n-best", 2, *(["--free"] if free else [])]
    printed = run("ask", "谁在哪里？", "--in", names[0], "--in", names[1], "-m", tiny, *options, "--json")
    answer = Reader.load(tiny).ask("谁在哪里？", [RIVER, CITY], n_best=2, vote="all", decoder=decoder, free=free)
    others = [plain(each, names) for each in answer.alternatives]
    assert json.loads(printed) == {"question": "谁在哪里？", **plain(answer, names), "alternatives": others}


def test_words_that_stand_nowhere_are_printed_without_a_sentence(
    tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "ask_many", lambda *_, **options: [Answer("the sea", 0.25, 0)])
    words = ["ask", "where?", "--in", home / "river.txt", "-m", tiny, "--free"]
    assert run(*words) == "the sea  25.0%\n"
    assert run(*words, "--in", home / "city.md") == f"the sea  25.0%\n  {home / 'river.txt'}\n"
    assert json.loads(run(*words, "--json"))["start"] is None


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "utf-8"])
@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_is_printed_in_any_encoding(encoding: str, as_json: bool, tiny: Path, tmp_path: Path) -> None:
    text = "北京是中国的首都，João 有２万人。"
    (tmp_path / "city.txt").write_text(text, encoding="utf-8")
    words = ["ask", "谁？", "--in", "city.txt", "-m", str(tiny), *(["--json"] if as_json else [])]
    done = subprocess.run(
        [sys.executable, "-m", "masquerade", *words], capture_output=True, cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    printed = done.stdout.decode(encoding)
    answer = Reader.load(tiny).ask("谁？", text)
    if as_json:
        assert json.loads(printed)["answer"] == answer.text
        return
    shown = {"ascii": ascii(text)[1:-1], "gbk": text.replace("ã", "\\xe3"), "utf-8": text}[encoding]
    assert printed.splitlines()[1] == f"  {shown}"
    assert (b"set PYTHONIOENCODING=utf-8" in done.stderr) == (encoding != "utf-8")


@pytest.mark.parametrize("words", [["谁在哪里？", "--in", "nowhere.txt"], ["Who?", "--in", "city.md"]])
def test_a_reader_that_is_not_installed_is_missed_at_once(
    words: list[str], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr("masquerade.reading.shipped.__file__", str(home / "a" / "b" / "c" / "shipped.py"))
    monkeypatch.setattr(Reader, "load", lambda source: pytest.fail("loaded"))
    said = refused("ask", *words, monkeypatch=monkeypatch, capsys=capsys)
    assert "The Chinese reader is not part of this installation; get the folder models/reader-zh" in said
    assert "--model" in said


def test_the_command_reads_as_many_windows_as_python_does() -> None:
    asked = inspect.signature(ask).parameters["windows"].default
    assert asked == AskOptions().windows == WINDOWS


def test_asking_imports_only_what_it_needs(tiny: Path, home: Path) -> None:
    script = """
import sys
sys.argv[1:] = ["ask", "where?", "--in", "river.txt", "-m", sys.argv[1]]
from masquerade.cli.main import main
try: main()
except SystemExit: pass
heavy = {"transformers", "datasets", "accelerate", "pandas", "jieba", "PIL", "rich.progress", "huggingface_hub"}
heavy |= {"masquerade.objectives", "masquerade.training.loop", "masquerade.drawing.pictures"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script, tiny], capture_output=True, cwd=home, text=True)
    assert done.returncode == 0 and done.stderr == "[]\n"


def test_no_answer_is_no_mistake(silent: Path, home: Path) -> None:
    words = ["ask", "where does it flow?", "--in", home / "river.txt", "-m", silent]
    assert run(*words) == "No answer in this text.\n"
    lines = run(*words, "--n-best", 2).splitlines()  # what it would have said
    assert lines[0] == "No answer in this text." and len(lines) == 7
    found = json.loads(run(*words, "--json"))
    assert (found["answer"], found["file"], found["start"], found["end"]) == ("", None, None, None)


def test_a_text_comes_in_by_standard_input(tiny: Path, home: Path) -> None:
    expected = run("ask", "谁在哪里？", "--in", home / "city.md", "-m", tiny)
    assert run("ask", "谁在哪里？", "--in", "-", "-m", tiny, stdin=CITY) == expected.replace(
        str(home / "city.md"), "standard input"
    )


def test_files_of_many_formats_are_cited_and_bad_ones_listed(tiny: Path, tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [["the Rhine does"], ["The Danube flows in-", "to the Black Sea."]])
    (tmp_path / "b.txt").write_bytes(CITY.encode("gbk"))
    (tmp_path / "c.bin").write_bytes(b"\0\1")
    words = ["ask", "where?", "--in", str(tmp_path), "-m", str(tiny), "--n-best", "40", "--json"]
    result = CliRunner().invoke(cli.app, words)
    assert "b.txt' is not Unicode; it was read as gb18030" in result.stderr
    assert "Not read:\n  " in result.stderr and "c.bin' is a binary file" in result.stderr
    documents = {each.name: each for each in read_documents([str(tmp_path)])[0]}
    found = json.loads(result.stdout)
    seen = set()
    for each in (found, *found["alternatives"]):
        document = documents[each["file"]]
        assert document.place(each["start"]) == Citation(each["unit"], each["number"])
        assert document.text[each["start"] : each["end"]].replace("in-\nto", "into") == each["answer"]
        seen.add((each["unit"], each["number"]))
    assert {("page", 1), ("page", 2), ("line", 1)} <= seen


def test_a_long_text_is_read_to_its_end(tiny: Path, tmp_path: Path) -> None:
    text = " ".join(f"the Rhine flows {number}" for number in range(1600)) + " into the Black Sea."
    (tmp_path / "long.txt").write_text(text)
    result = CliRunner().invoke(
        cli.app, ["ask", "where?", "--in", str(tmp_path / "long.txt"), "-m", str(tiny), "--json", "--n-best", "9"]
    )
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and result.stderr == ""  # a bar is for a terminal
    for each in (found, *found["alternatives"]):
        assert text[each["start"] : each["end"]] == each["answer"]
    session = AskSession(Reader.load(tiny), read_documents([str(tmp_path / "long.txt")])[0], AskOptions(), as_json=True)
    done = list[int]()
    session.reader.ask_many([("where?", session.texts)], done=done.append)
    assert sum(done) == session.windows == WINDOWS  # the bar gets to its end, and not beyond
    done.clear()
    session.reader.ask_many([("where?", session.texts)], windows=0, done=done.append)
    assert sum(done) > 50  # all of the text


# Many questions


def test_questions_of_a_pipe_are_answered_line_by_line(tiny: Path, home: Path) -> None:
    words = ["ask", "--in", home / "river.txt", "-m", tiny]
    questions = ["where does it flow?", "谁在哪里？"]
    alone = [run("ask", question, *words[1:]) for question in questions]
    said = "".join(f"? {question}\n{answer}\n" for question, answer in zip(questions, alone, strict=True))
    result = CliRunner().invoke(cli.app, list(map(str, words)), input="\n\n".join(questions))
    percent = re.compile(r"[\d.]+%")  # what is remembered is rounded a little
    assert percent.sub("", result.stdout) == percent.sub("", said)  # an empty line is not the end of the questions
    assert result.stderr == f"Read {home / 'river.txt'}, {len(RIVER)} characters.\n"  # a pipe types nothing
    found = [json.loads(line) for line in run(*words, "--json", stdin="\n".join(questions)).splitlines()]
    assert [each["question"] for each in found] == questions


class Typed(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("end", ["", EOFError, KeyboardInterrupt])
def test_questions_are_asked_for_until_there_are_none(
    end: str | type[BaseException], tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    held, asked = list[int](), list[str]()
    lines: Iterator[str | type[BaseException]] = iter(["where?", " 谁？ ", end, "not asked"])

    def say(prompt: str) -> str:
        asked.append(prompt)
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    remember = Reader.remember
    monkeypatch.setattr(
        Reader, "remember", lambda self, *given: (remember(self, *given), held.append(len(self.memory)))
    )
    monkeypatch.setattr("builtins.input", say)
    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "argv", ["masquerade", "ask", "--in", str(home), "-m", str(tiny), "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    shown = capsys.readouterr()
    assert not stop.value.code
    assert [json.loads(line)["question"] for line in shown.out.splitlines()] == ["where?", "谁？"]
    assert f"Read 2 texts, {len(RIVER + CITY)} characters. Type your questions; an empty line ends.\n" in shown.err
    assert len(asked) == 3 and held == [2]


# Which reader


@pytest.mark.parametrize(
    ("question", "text", "name"),
    [
        ("Where?", "Beijing (北京) is the capital of China.", "en"),
        ("What does 北京 mean in English?", "A text.", "en"),
        ("首都是哪里？", "Beijing is the capital.", "zh"),
        ("BERT 是什么？", "BERT 是 Google 在 2018 年发布的语言模型。", "zh"),
        ("Where?", "北京是首都。", "zh"),
        ("1 + 1 ?", "2", "en"),
    ],
)
def test_the_reader_is_that_of_the_language(
    question: str, text: str, name: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, loaded = Reader.load(tiny), list[str]()
    monkeypatch.setattr(Reader, "load", lambda source: (loaded.append(source), reader)[1])
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    run("ask", question, "--in", tmp_path / "text.txt")
    run("ask", question, "--in", tmp_path / "text.txt", "-m", "org/other")
    assert loaded == [name, "org/other"]


# Bad input


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["q", "--in", "nowhere.txt"], "There is no file 'nowhere.txt'"),
        (["q", "--in", "noise.txt"], "'noise.txt' is a binary file"),
        (["q", "--in", "zeros.txt"], "'zeros.txt' is a binary file"),
        (["q", "--in", "empty.txt"], "no words in 'empty.txt'"),
        (["q", "--in", "folder"], "There is no file to read in 'folder'"),
        (["q"], "nothing to read"),
        ([" ", "--in", "good.txt"], "The question is empty"),
        (["a\udcffb", "--in", "good.txt"], "The question is not text in UTF-8"),
        (["--in", "-"], "Standard input is the text"),
        (["q", "--in", "good.txt", "--decoder", "psychic"], "no decoder 'psychic'; choose from parallel, blocks"),
        (["q", "--in", "good.txt", "--vote", "none"], "no vote 'none'; choose from best, all"),
        (["q", "--in", "good.txt", "--n-best", "0"], "has to be a whole number of at least 1, not 0"),
        (["q", "--in", "good.txt", "-m", "./nowhere"], "no checkpoint at './nowhere'"),
    ],
)
def test_bad_input_to_ask_is_one_sentence(
    words: list[str], sentence: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("noise.txt").write_bytes(bytes(range(256)))
    Path("zeros.txt").write_bytes(b"a\0b")
    Path("empty.txt").write_bytes("\ufeff \r\n".encode())
    Path("good.txt").write_text("words")
    Path("folder").mkdir()
    model = [] if "-m" in words else ["-m", tiny]
    assert sentence in refused("ask", *words, *model, monkeypatch=monkeypatch, capsys=capsys)


# Help and the example


def test_help_names_every_decoder_vote_and_metric() -> None:
    for command, names in (("ask", [*DECODERS, *VOTES]), ("evaluate reader", [*DECODERS, *VOTES, *METRICS])):
        said = " ".join(run(*command.split(), "--help").replace("│", " ").split())
        assert all(name in said for name in names), command
        assert f"masquerade {command} " in said.replace("[OPTIONS]", "")


def test_the_examples_ask_every_reader_in_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("ask", ROOT / "examples" / "ask.py")
    assert spec is not None and spec.loader is not None
    module, typed = module_from_spec(spec), list[tuple[str, ...]]()
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "run", lambda *words: typed.append(words))
    module.main()
    assert typed[0][:2] == ("draw", "shared_passage")
    for _, question, option, path in typed[1:]:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert option == "--in" and language(question) == language(text)
    assert {language(words[1]) for words in typed[1:]} == {"en", "zh"}
