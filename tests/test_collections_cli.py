"""The commands for collections, as they are typed."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from collection_cases import tiny_encoder, write_folder
from typed import refused, run
from typer.testing import CliRunner

from masquerade.cli import main as cli


def test_a_folder_is_indexed_searched_and_asked(tmp_path: Path) -> None:
    folder, kb = write_folder(tmp_path / "texts"), tmp_path / "kb"
    said = run("index", folder, "--out", kb)
    assert "3 files added" in said and "by words alone" in said
    found = [json.loads(line) for line in run("search", "lighthouse", "--kb", kb, "--json").splitlines()]
    assert (
        found[0]["file"].endswith("harbour.md") and found[0]["heading"] == "The lighthouse" and found[0]["number"] == 5
    )
    answer = json.loads(run("ask", "Who opened the harbour of Arvik?", "--kb", kb, "--json"))
    assert "Ingrid" in answer["answer"] and answer["file"].endswith("harbour.md") and answer["number"] == 3
    text = (folder / "harbour.md").read_text(encoding="utf-8")
    assert text[answer["start"] : answer["end"]] == answer["answer"]


def test_a_run_says_what_it_did_and_lists_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kb = write_folder(tmp_path / "texts"), tmp_path / "kb"
    report = json.loads(run("index", folder, "--out", kb, "--encoder", tiny_encoder(tmp_path / "e"), "--json"))
    assert report["added"] == 3 and report["passages"] == 4 and "picture.png" in report["skipped"][0]["name"]
    assert report["collection"]["vectors"] == "flat" and report["collection"]["languages"] == {"en": 2, "zh": 1}
    (folder / "town" / "bakery.txt").unlink()
    monkeypatch.chdir(tmp_path)
    assert "0 files added, 0 changed, 1 removed, 2 as before; 3 passages" in run("index", "--out", kb)
    other = tiny_encoder(tmp_path / "other", seed=1)
    refuse = partial(refused, monkeypatch=monkeypatch, capsys=capsys)
    assert "--rebuild" in refuse("index", folder, "--out", kb, "--encoder", other)
    assert "no file to index" in refuse("index", tmp_path / "*.none", "--out", kb, "--encoder", other, "--rebuild")
    assert "3 passages" in run("index", "--out", kb)  # nothing was removed
    assert "2 files added" in run("index", "--out", kb, "--encoder", other, "--rebuild")
    assert "There is nothing to index" in refuse("index", "--out", tmp_path / "new")


def test_parts_and_prefixes_are_a_part_of_the_collection(tmp_path: Path) -> None:
    folder, kb, encoder = write_folder(tmp_path / "texts"), tmp_path / "kb", tiny_encoder(tmp_path / "e")
    chosen = ("--encoder", encoder, "--part", 6, "--query-prefix", "q: ")
    assert json.loads(run("index", folder, "--out", kb, *chosen, "--json"))["collection"]["part"] == 6
    (folder / "new.txt").write_text("The ferry sails at dawn. It returns at noon.")
    assert "1 files added" in run("index", folder, "--out", kb)
    found = run("search", "ferry", "--kb", kb, "--dense", 1, "--json")
    assert found and found == run("search", "ferry", "--kb", kb, "--dense", 1, "--encoder", encoder, "--json")


def test_search_shows_passages_filters_and_stages(tmp_path: Path) -> None:
    folder, kb = write_folder(tmp_path / "texts"), tmp_path / "kb"
    run("index", folder, "--out", kb, "--encoder", tiny_encoder(tmp_path / "e"))
    shown = CliRunner().invoke(cli.app, ["search", "lighthouse", "--kb", str(kb), "--trace"])
    assert "The harbour of Arvik › The lighthouse" in shown.stdout and "harbour.md:5 (characters" in shown.stdout
    for stage in ("words", "vector of the query", "vectors", "passages"):
        assert stage in shown.stderr
    found = [
        json.loads(line) for line in run("search", "桥", "--kb", kb, "--where", "language=zh", "--json").splitlines()
    ]
    assert len(found) == 1 and found[0]["words"] is not None and found[0]["dense"] is not None
    assert "Nothing in the collection matches" in run("search", "bread", "--kb", kb, "--where", "author=none")


def test_kb_info_remove_and_eval(tmp_path: Path) -> None:
    folder, kb = write_folder(tmp_path / "texts"), tmp_path / "kb"
    run("index", folder, "--out", kb)
    assert "bakery.txt" in run("kb", "info", kb, "--files")
    rows = [{"question": "Who opened the harbour of Arvik?", "answers": ["Queen Ingrid"]},
            {"question": "What does the bakery sell?", "answers": ["rye bread"]},
            {"question": "Where is the moon?", "answers": ["far away"]}]  # fmt: skip
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    scores = json.loads(run("kb", "eval", tmp_path / "questions.jsonl", "--kb", kb, "--no-read", "--json"))
    assert scores["questions"] == 3 and scores["answer@1"] == scores["answer@20"] == pytest.approx(200 / 3)
    assert "f1" not in scores and "passage@1" not in scores
    assert "bakery.txt" in run("kb", "remove", kb, "*bakery*")
    scores = json.loads(run("kb", "eval", tmp_path / "questions.jsonl", "--kb", kb, "--limit", "2", "--json"))
    assert scores["answer@5"] == 50 and 40 < scores["f1"] <= 60


def test_bad_input_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kb = tmp_path / "kb"
    run("index", write_folder(tmp_path / "texts"), "--out", kb)
    refuse = partial(refused, monkeypatch=monkeypatch, capsys=capsys)
    assert "no collection in" in refuse("ask", "Who?", "--kb", tmp_path / "none")
    assert "cannot be given together" in refuse("ask", "Who?", "--kb", kb, "--in", tmp_path / "texts" / "harbour.md")
    assert "not of the form key=value" in refuse("search", "x", "--kb", kb, "--where", "language")
    assert "belong to an encoder" in refuse("index", tmp_path / "texts", "--out", kb, "--query-prefix", "query: ")
    assert "parallel decoder" in refuse("ask", "Who?", "--kb", kb, "--free")
    assert "no file 'none.txt' in the collection" in refuse("kb", "remove", kb, "none.txt")
    monkeypatch.setitem(sys.modules, "tantivy", None)
    assert "pip install 'masquerade[retrieval]'" in refuse("search", "bread", "--kb", kb)
