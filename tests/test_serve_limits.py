"""Limits and safety over HTTP: statuses as documented; names never reach the disk; no text of a user is logged."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pdf_files import write_pdf
from serve_cases import ASK, Running, Service, ServiceLimits, TestClient, client, plain_folder, sources, wait_until
from typer.testing import CliRunner

from masquerade.cli import main as cli
from masquerade.documents.limits import MAX_PAGES
from masquerade.serve.answering import ReaderGroup

MARK = "masquerade-secret"
DISK = ("open", "os.", "shutil.", "sqlite3.", "import", "tempfile.")
watched: list[str] | None = None


def _watch(event: str, given: tuple[Any, ...]) -> None:
    """Note what reaches the disk with MARK in its name, while a test watches."""
    if watched is not None and event.startswith(DISK) and MARK in repr(given):
        watched.append(event)


sys.addaudithook(_watch)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("models")
    plain = plain_folder(folder / "plain")
    with client(sources(folder, fillers={"m": plain}, generators={"m": plain})) as found:
        yield found


def test_by_default_it_listens_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[tuple[Service, str]]()

    class Noted:
        def __init__(self, service: Service, host: str, port: int) -> None:
            made.append((service, host))

        def serve_until_stopped(self) -> int:
            return 0

    monkeypatch.setattr("masquerade.serve.server.Server", Noted)
    assert CliRunner().invoke(cli.app, ["serve"]).exit_code == 0
    assert CliRunner().invoke(cli.app, ["serve", "--host", "0.0.0.0"]).exit_code == 0
    assert made[0][1] == "127.0.0.1" and made[0][0].hosts == ("localhost",)
    assert made[1][1] == "0.0.0.0"


def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    from masquerade.cli.show.serving import _token
    from masquerade.errors import MasqueradeError

    (tmp_path / "token").write_text("secret\n")
    assert _token(tmp_path / "token") == "secret"
    (tmp_path / "token").write_text("\n")
    for wrong in (tmp_path / "token", tmp_path / "nothing"):
        with pytest.raises(MasqueradeError):
            _token(wrong)


def test_a_full_queue_is_429_with_the_seconds_to_wait(tmp_path: Path) -> None:
    limits = ServiceLimits(queue_tokens=30)
    with Running(Service(sources(tmp_path), limits)) as service, ThreadPoolExecutor(1) as pool:
        blocked = threading.Event()
        service.service.scheduler.thread.submit(blocked.wait, 60)
        running = pool.submit(service.post, "/v1/answer", ASK)
        wait_until(lambda: service.service.scheduler.tokens > 0)
        status, headers, reply = service.post("/v1/answer", ASK)
        blocked.set()
        assert status == 429 and reply["error_type"] == "overloaded"
        assert int({name.title(): value for name, value in headers.items()}["Retry-After"]) >= 1
        assert running.result(60)[0] == 200


def test_the_time_limit_holds_for_a_request_and_for_its_body(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path), ServiceLimits(seconds=0.5))) as service:
        blocked = threading.Event()
        service.service.scheduler.thread.submit(blocked.wait, 60)
        status, _, reply = service.post("/v1/answer", ASK)
        blocked.set()
        assert status == 504 and "0.5 seconds" in reply["error"]
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
            connection.sendall(b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_what_is_kept_between_requests_is_bounded_by_size(served: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    service: Any = served.app.state.service  # type: ignore[attr-defined]
    counter, windows = service.models.counters["reader", "tiny"], service.models.readers["tiny"].cut
    monkeypatch.setattr("masquerade.serve.counting.KEPT", 5000)
    monkeypatch.setattr(windows, "_most", 1000)
    for number in range(20):
        text = f"{number} the cat sat on a mat " * 30
        assert served.post("/v1/answer", json={"question": "who ?", "passages": [text]}).status_code == 200
        assert counter.held == sum(map(len, counter._known)) <= 5000
        assert windows._held <= 1000
    assert counter([text]) == counter([text]) and counter.held > 0


def test_documents_are_read_a_few_at_a_time(served: TestClient) -> None:
    service: Any = served.app.state.service  # type: ignore[attr-defined]
    service.uploads += service.limits.uploads
    try:
        reply = served.post("/v1/document", params={"name": "a.txt"}, content=b"text")
        assert reply.status_code == 429 and reply.headers["Retry-After"]
    finally:
        service.uploads -= service.limits.uploads


def test_a_pdf_of_too_many_pages_is_refused(served: TestClient, tmp_path: Path) -> None:
    file = write_pdf(tmp_path / "huge.pdf", [[]] * (MAX_PAGES + 1))
    reply = served.post("/v1/document", params={"name": "huge.pdf"}, content=file.read_bytes())
    assert reply.status_code == 422 and "too large" in reply.json()["error"]


@pytest.mark.parametrize("name", [f"/{MARK}/x", f"../../{MARK}", f"{MARK}.safetensors"])
def test_no_name_from_the_network_reaches_the_disk(served: TestClient, name: str) -> None:
    global watched
    text, passage = {"text": "the [MASK] sat"}, "the cat sat"
    asked: list[tuple[str, Any]] = [
        ("/v1/answer", {**ASK, "model": name}), ("/v1/answer", {"question": "who ?", "collection": name}),
        ("/v1/answer/batch", {"items": [ASK], "model": name}),
        ("/v1/answer/compare", {"question": "who ?", "passage": passage, "model": name}),
        ("/v1/search", {"collection": name, "query": "cat"}), ("/v1/fill", {**text, "model": name}),
        ("/v1/write", {**text, "model": name}), ("/v1/embed", {"texts": ["cat"], "model": name}),
        ("/v1/generate", {"prompt": "the cat", "model": name}), ("/v1/layout", {"constructor": name}),
        (f"/v1/facts/{quote(name, safe='')}", {"subject": "a", "relation": "b", "objects": ["c"]}),
        (f"/v1/facts/{quote(name, safe='')}/fill", text),
    ]  # fmt: skip
    watched = []
    try:
        with pytest.raises(FileNotFoundError):
            Path(f"/{MARK}").read_text()
        assert watched  # it would be noticed
        watched.clear()
        for path, body in asked:
            assert served.post(path, json=body).status_code in (404, 422), path
        assert served.get(f"/page/{quote(name, safe='')}").status_code == 404
        assert not watched
    finally:
        watched = None


def test_no_text_of_a_user_is_logged_even_if_the_service_fails(
    served: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(self: ReaderGroup, payloads: Any) -> list[Any]:
        raise ValueError(f"{payloads[0].passages}")

    body = {"question": f"who {MARK} ?", "passages": [f"the cat sat on {MARK}"]}
    with caplog.at_level(logging.DEBUG):
        assert served.post("/v1/answer", json=body).status_code == 200
        assert served.post("/v1/answer", json={**body, "n_best": MARK}).status_code == 422
        monkeypatch.setattr(ReaderGroup, "run", fails)
        failed = served.post("/v1/answer", json=body)
    assert failed.status_code == 500 and failed.json()["error_type"] == "internal"
    assert "ValueError" in caplog.text and MARK not in caplog.text and MARK not in failed.text
