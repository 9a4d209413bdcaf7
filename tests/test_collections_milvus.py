"""Vectors in Milvus: the same passages with the same scores as in FAISS."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from collection_cases import tiny_encoder, write_folder

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval import milvus_index
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.memory.retrieval.search import Filters

pytest.importorskip("pymilvus", reason="the extra 'milvus' is not installed")
pytest.importorskip("milvus_lite", reason="the extra 'milvus' is not installed")


@pytest.mark.parametrize("part", [0, 8])
def test_milvus_finds_what_faiss_finds_before_and_after_changes(tmp_path: Path, part: int) -> None:
    texts, encoder = write_folder(tmp_path / "texts"), str(tiny_encoder(tmp_path / "e", pooling=Pooling(part=part)))
    local = KnowledgeBase.open(tmp_path / "local", encoder, create=True)
    remote = KnowledgeBase.open(tmp_path / "remote", encoder, create=True, uri=str(tmp_path / "vectors.db"))

    def same() -> list[str]:
        filters = (None, Filters(language="en"), Filters(path="*.none"))
        for dense, chosen in ((dense, each) for dense in (1.0, 0.4) for each in filters):
            ours, theirs = (kb.search("the harbour", 10, chosen, dense) for kb in (local, remote))
            assert [each.text for each in ours] == [each.text for each in theirs]
            for left, right in zip(ours, theirs, strict=True):
                assert left.score.dense == pytest.approx(right.score.dense, abs=1e-5)
        return [each.text for each in local.search("the harbour")]

    for kb in (local, remote):
        kb.update([str(texts)])
    assert len(same()) == 4
    (texts / "harbour.md").write_text("The harbour is closed.")
    (texts / "town" / "bakery.txt").unlink()
    for kb in (local, remote):
        kb.update()
    assert len(same()) == 2 and remote.info()["vectors"].startswith("Milvus")
    remote.close()
    remote = KnowledgeBase.open(tmp_path / "remote")  # the address is a part of the collection
    assert len(same()) == 2
    other = str(tiny_encoder(tmp_path / "other", seed=1, width=8))
    for kb in (local, remote):
        kb.close()
    local = KnowledgeBase.open(tmp_path / "local", other, rebuild=True)
    remote = KnowledgeBase.open(tmp_path / "remote", other, rebuild=True, uri=str(tmp_path / "vectors.db"))
    for kb in (local, remote):
        kb.update()
    assert len(same()) == 2
    with pytest.raises(MasqueradeError, match="are kept in Milvus at"):
        KnowledgeBase.open(tmp_path / "remote", uri="http://localhost:1")


def test_a_server_that_does_not_answer_is_named_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_index, "PAUSES", (0.0, 0.0))
    encoder = str(tiny_encoder(tmp_path / "e"))
    kb = KnowledgeBase.open(tmp_path / "kb", encoder, create=True, uri="http://localhost:1")
    with pytest.raises(MasqueradeError, match="Milvus at 'http://localhost:1' cannot be used"):
        kb.update([str(write_folder(tmp_path / "texts"))])
    assert kb.search("harbour", dense=0.0) == []
    with pytest.raises(MasqueradeError, match="give an encoder"):
        KnowledgeBase.open(tmp_path / "words", create=True, uri="vectors.db")


class Server:
    """A server of Milvus Lite in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.uri = folder, f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self, ready: bool = True) -> None:
        """Start it, and wait until it answers."""
        words = ["server", "--data-dir", self.folder, "--host", "127.0.0.1", "--port", self.port]
        command = [sys.executable, "-m", "milvus_lite", *map(str, words)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600 if ready else 0):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "server")
    yield started
    started.kill()


def test_a_server_that_is_killed_and_restarted_has_lost_nothing(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, encoder = write_folder(tmp_path / "texts"), str(tiny_encoder(tmp_path / "e"))
    local = KnowledgeBase.open(tmp_path / "local", encoder, create=True)
    remote = KnowledgeBase.open(tmp_path / "remote", encoder, create=True, uri=server.uri)

    def found(kb: KnowledgeBase) -> list[tuple[str, float]]:
        return [(each.text, round(each.score.dense or 0, 4)) for each in kb.search("the harbour", 10, dense=1.0)]

    for kb in (local, remote):
        kb.update([str(texts)])
    assert found(remote) == found(local) and len(found(local)) == 4
    server.kill()
    (texts / "ferry.txt").write_text("A ferry sails from the harbour at dawn.")
    with monkeypatch.context() as hurried:
        hurried.setattr(milvus_index, "PAUSES", (0.0, 0.0))
        with pytest.raises(MasqueradeError, match=f"Milvus at '{server.uri}' cannot be used"):
            remote.search("the harbour", dense=1.0)
        with pytest.raises(MasqueradeError, match="cannot be used"):
            remote.update([str(texts)])
    assert [each.text for each in remote.search("lighthouse", dense=0.0)] == [
        each.text for each in local.search("lighthouse", dense=0.0)
    ]
    server.start(ready=False)  # a call waits for it
    monkeypatch.setattr(milvus_index, "PAUSES", (0.5,) * 60)
    local.update([str(texts)])
    remote.update([str(texts)])
    assert found(remote) == found(local) and len(found(local)) == 5
    remote.close()
    server.kill()
    server.start()
    assert found(KnowledgeBase.open(tmp_path / "remote")) == found(local)
