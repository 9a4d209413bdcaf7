"""The stop and the start: requests under way finish, new ones are refused, and what cannot be loaded is told."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serve_cases import ASK, Running, Service, Sources, reader_folder, sources, wait_until

from masquerade.serve.server import Server


def test_a_stop_lets_requests_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path))) as service, ThreadPoolExecutor(1) as pool:
        blocked = threading.Event()
        service.service.scheduler.thread.submit(blocked.wait, 20)
        running = pool.submit(service.post, "/v1/answer", ASK)
        wait_until(lambda: service.service.scheduler.tokens > 0)
        service.server.handle_exit(signal.SIGTERM, None)
        status, headers, reply = service.post("/v1/answer", ASK)
        assert status == 503 and reply["error_type"] == "stopping" and "Retry-After" in {*map(str.title, headers)}
        health = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        health.request("GET", "/readyz")
        told = health.getresponse()
        assert told.status == 503 and json.loads(told.read())["status"] == "stopping"
        health.close()
        blocked.set()
        assert running.result(20)[0] == 200
        service.thread.join(20)
        assert not service.thread.is_alive()


def test_a_request_that_is_being_counted_when_the_stop_comes_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(Service(sources(tmp_path))) as service, ThreadPoolExecutor(1) as pool:
        counting, stopped = threading.Event(), threading.Event()
        counter = service.service.models.counters["reader", "tiny"]

        def slow(texts: Sequence[str]) -> list[int]:
            counting.set()
            stopped.wait(20)
            return counter(texts)

        monkeypatch.setitem(service.service.models.counters, ("reader", "tiny"), slow)
        running = pool.submit(service.post, "/v1/answer", ASK)
        assert counting.wait(20)
        service.server.handle_exit(signal.SIGTERM, None)
        stopped.set()
        assert running.result(20)[0] == 200


def test_a_second_signal_does_not_wait_for_requests(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path))) as service:
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")  # and no body
        wait_until(lambda: service.service.requests == 1)
        service.server.handle_exit(signal.SIGTERM, None)
        service.thread.join(0.5)
        assert service.thread.is_alive()
        service.server.handle_exit(signal.SIGTERM, None)
        service.thread.join(20)
        assert not service.thread.is_alive()
        connection.close()


def started(*options: str) -> subprocess.Popen[str]:
    """The command, as a process of its own."""
    words = [sys.executable, "-m", "masquerade", "serve", "--port", "0", *options]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "MASQUERADE_TOKEN": ""})


@pytest.mark.slow
def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    with started("--reader", f"tiny={reader_folder(tmp_path / 'reader')}") as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        assert "ready" in process.stderr.readline()
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
        connection.request("POST", "/v1/answer", json.dumps(ASK), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 200 and json.loads(reply.read())["model"] == "tiny"
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "who sat" not in process.stderr.read()


def test_models_that_cannot_be_loaded_end_the_process_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade.serve.server.TOLD", 0.01)
    server = Server(Service(Sources(readers={"x": str(tmp_path / "nothing")})))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(server.serve_until_stopped).result(30) == 1
