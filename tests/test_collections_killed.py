"""What a killed writer of a collection leaves behind is what was committed, and the next one goes on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from masquerade.documents.folders import read_documents
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.passages import cut_passages

WRITER = """
import sys
import numpy as np
from masquerade.memory.retrieval import indexing
from masquerade.memory.retrieval.knowledge import KnowledgeBase

class Vectors:
    def __init__(self, texts): self.texts = texts
    def numpy(self): return np.array([[len(text), text.count("a"), 1.0] for text in self.texts], dtype=np.float32)

class Lengths:
    width, source = 3, "lengths"
    class pooling: query, passage, part = "", "", 0
    def fingerprint(self): return "lengths"
    def encode_parts(self, texts): return [Vectors([text]) for text in texts]

indexing.BATCH, indexing.SAVE = 4, 10
kb = KnowledgeBase.open(sys.argv[1], create=True, encoder=Lengths())
print("open", flush=True)
kb.update([sys.argv[2]])
"""


def _write(kb: Path, texts: Path, after: float | None) -> None:
    """Run a writer in a process of its own, and kill it some seconds after it has opened the collection."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(kb), str(texts)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    code = process.wait()
    process.stdout.close()
    assert after is not None or code == 0


def test_files_that_a_killed_writer_left_do_not_keep_the_next_one_from_writing(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(3):
        (texts / f"{number}.txt").write_text(f"The word{number}x stands here. " * 30)
    _write(tmp_path / "kb", texts, None)
    words = next(path for path in (tmp_path / "kb").rglob("meta.json")).parent
    segments = {path.stem for path in words.glob("*.store")}
    for segment in segments:
        for stamp in range(100):  # deletions are written to a file named after the segment and a running number
            (words / f"{segment}.{stamp}.del").write_bytes(b"half written")
    (texts / "1.txt").write_text("The word9x has come. " * 30)
    _write(tmp_path / "kb", texts, None)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert len(kb.search("word9x", dense=0.0)) == 1
        assert not kb.search("word1x", dense=0.0)


@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_writer_loses_no_committed_state(tmp_path: Path, kills: int) -> None:
    texts, rng = tmp_path / "texts", random.Random(kills)
    texts.mkdir()
    for number in range(kills + 24):
        (texts / f"{number}.txt").write_text(f"The word{number}x stands here. " * (30 + number % 40))
    for kill in range(kills):
        if kill % 4 == 3:  # changed and deleted files are a part of it
            (texts / f"{kill}.txt").unlink(missing_ok=True)
            (texts / f"{kill + 1}.txt").write_text(f"The word{kill + 1}x has changed. " * 50)
        _write(tmp_path / "kb", texts, rng.uniform(0.0, 0.5))
        kb = KnowledgeBase.open(tmp_path / "kb")
        held = kb.store.ids()
        assert kb.words.current and sorted(kb.vectors._held().tolist()) == held.tolist()
        assert kb.store.count("vectors") == len(held)
        for file in list(kb.store.files().values())[:: max(1, kills // 3)]:
            word = f"word{Path(file.path).stem}x"
            assert {found.stored.path for found in kb.search(word, dense=0.0)} == {file.path}
        kb.close()
    _write(tmp_path / "kb", texts, None)
    kb = KnowledgeBase.open(tmp_path / "kb")
    documents, _ = read_documents([str(texts)])
    expected = sorted(passage.text for document in documents for passage in cut_passages(document))
    assert sorted(each.passage.text for each in kb.store.passages(kb.store.ids().tolist()).values()) == expected
