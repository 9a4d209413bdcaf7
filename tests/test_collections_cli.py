"""The commands for collections, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

from collection_cases import write_folder
from typed import run


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
