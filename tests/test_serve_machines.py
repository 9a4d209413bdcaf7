"""The files of deploy/ at work, as processes of this machine: two workers behind nginx, and the commands of the compose
file with Milvus Lite in the place of Milvus. Without nginx or Milvus Lite they are skipped."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from collection_cases import tiny_encoder, write_folder
from serve_cases import ASK, reader_folder, wait_until

ROOT = Path(__file__).parents[1]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin") or ""
SECONDS = 240  # a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on."""
    tried = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in tried]
    for each in tried:
        each.close()
    return ports


def listens(port: int) -> bool:
    """Whether something listens on a port of loopback."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def worker(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A service in a process of its own, when it is ready."""
    words = [sys.executable, "-m", "masquerade", "serve", "--threads", "1", *options]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = [process.stderr.readline(), process.stderr.readline()]
        assert "ready" in said[1], said
        yield process
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()


@contextmanager
def running(*words: str, port: int, **options: Any) -> Iterator[None]:
    """A program that listens on a port."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_until(lambda: listens(port), SECONDS)
        yield
    finally:
        process.terminate()
        process.wait(30)


def ask(port: int, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and reply of a request: POST with a body, else GET. A reply is JSON, or text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(
            "GET" if data is None else "POST", path, data, {"Content-Type": "application/json", **headers}
        )
        reply = connection.getresponse()
        said = reply.read().decode()
        return reply.status, json.loads(said) if "json" in (reply.getheader("content-type") or "") else said
    finally:
        connection.close()


def answered(port: int) -> int:
    """How many questions a worker has answered."""
    found = re.search(r'requests_total\{.*route="/v1/answer",status="200"\} (\d+)', ask(port, "/metrics")[1])
    return int(found[1]) if found else 0


@pytest.mark.skipif(not NGINX, reason="there is no nginx here: apt-get install nginx-light")
def test_two_workers_behind_nginx_share_requests_and_weights_and_one_may_stop(tmp_path: Path) -> None:
    front, *ports = free_ports(3)
    conf = (ROOT / "deploy/nginx.conf").read_text(encoding="utf-8")
    for usual, port in zip(("8770", "8771", "8772"), (front, *ports), strict=True):
        conf = conf.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{port}")
    (tmp_path / "nginx.conf").write_text(conf, encoding="utf-8")
    options = ["--reader", f"tiny={reader_folder(tmp_path / 'reader')}", "--share-weights", str(tmp_path / "weights")]
    # its worker process would be another user, who may not enter the folder of a test
    root = ["-g", "user root;"] if os.getuid() == 0 else []
    with (
        worker("--port", str(ports[0]), *options) as one,
        worker("--port", str(ports[1]), *options) as other,
        running(NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), *root, port=front),
        ThreadPoolExecutor(4) as pool,
    ):
        mapped = [
            re.findall(rf"{tmp_path}/weights/\S+", Path(f"/proc/{each.pid}/maps").read_text()) for each in (one, other)
        ]
        assert mapped[0] and set(mapped[0]) == set(mapped[1])  # the same file in both
        assert {ask(front, "/v1/answer", ASK)[0] for _ in range(12)} == {200}
        before = [answered(port) for port in ports]
        assert sum(before) == 12 and all(before)
        passage = {**ASK, "passages": ["the dog sat on a blue mat ."]}
        known = [ask(front, "/v1/answer", passage, **{"X-Passage": "blue"})[1]["remembered"] for _ in range(6)]
        assert known == [0, 1, 1, 1, 1, 1]
        assert sorted(answered(port) - old for port, old in zip(ports, before, strict=True)) == [0, 6]
        status, said = ask(front, "/v1/document?name=x.txt", b"x" * (33 << 20))
        assert status == 413 and said["error_type"] == "too_large" and "upload_bytes" in said["error"]
        status, said = ask(front, "/v1/answer", b"x" * (5 << 20))
        assert status == 413 and "body_bytes" in said["error"]

        def steady(number: int) -> int:
            if number == 6:
                one.send_signal(signal.SIGTERM)
            return ask(front, "/v1/answer", ASK)[0]

        assert list(pool.map(steady, range(24))) == [200] * 24
        assert one.wait(60) == 0 and other.poll() is None


def composed(name: str, changed: dict[str, str]) -> tuple[list[str], list[str]]:
    """The command of a service of the compose file, and how its health is checked, with other addresses and paths."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install PyYAML")
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))["services"][name]
    found, check = service["command"], service.get("healthcheck", {}).get("test", [])
    for old, new in changed.items():
        found, check = ([word.replace(old, new) for word in words] for words in (found, check))
    return found, check


def test_the_commands_of_the_compose_file_index_and_answer_with_milvus_lite(tmp_path: Path) -> None:
    pytest.importorskip("pymilvus", reason="the extra 'milvus' is not installed")
    pytest.importorskip("milvus_lite", reason="the extra 'milvus' is not installed")
    write_folder(tmp_path / "documents")
    tiny_encoder(tmp_path / "models/encoder")
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    milvus, port = free_ports(2)
    changed = {
        "127.0.0.1:8765": f"127.0.0.1:{port}", "http://milvus:19530": f"http://127.0.0.1:{milvus}",
        "0.0.0.0": "127.0.0.1", "/documents": str(tmp_path / "documents"), "/data/kb": str(tmp_path / "kb"),
        "/models": str(tmp_path / "models"), "/run/secrets": str(tmp_path),
    }  # fmt: skip
    lite = ["server", "--data-dir", str(tmp_path / "milvus"), "--host", "127.0.0.1", "--port", str(milvus)]
    with running(sys.executable, "-m", "milvus_lite", *lite, port=milvus):
        program, *index = composed("index", changed)[0]
        for _ in range(2):  # it also brings the collection up to date
            subprocess.run([sys.executable, "-m", program, *index], check=True, capture_output=True, timeout=SECONDS)
        (program, command, *options), check = composed("serve", changed)
        assert (program, command) == ("masquerade", "serve")
        with worker(*options, "--port", str(port), "--reader", f"tiny={reader_folder(tmp_path / 'reader')}"):
            assert check[:2] == ["CMD", "python"]
            subprocess.run([sys.executable, *check[2:]], check=True, timeout=SECONDS)
            question = {"question": "Who opened the harbour of Arvik?", "collection": "documents"}
            assert ask(port, "/v1/answer", question)[0] == 401
            status, said = ask(port, "/v1/answer", question, Authorization="Bearer secret")
            assert status == 200 and any("Queen Ingrid" in each["text"] for each in said["passages"])
            assert ask(port, "/v1/models", Authorization="Bearer secret", Host="serve")[0] == 200
            assert ask(port, "/v1/models", Authorization="Bearer secret", Host="elsewhere")[0] == 421
