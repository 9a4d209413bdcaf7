"""Requests made to keep the service busy: they are refused early, and others are answered meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from reader_cases import reader as tiny_reader
from serve_cases import ASK, CHINESE, PASSAGE, Running, Service, ServiceLimits, TestClient, client, sources, wait_until

from masquerade.serve import counting
from masquerade.serve.counting import CHARACTERS, PIECE, TokenCounter, pieces
from masquerade.serve.replies import DocumentReply


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client(sources(tmp_path_factory.mktemp("models")), ServiceLimits(document_characters=5000)) as found:
        yield found


def post(served: TestClient, path: str, body: Any) -> Any:
    return served.post(path, content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/answer", {"question": "who ?", "passages": [1] * 300_000}),
        ("/v1/answer", dict.fromkeys(map(str, range(100_000)), 1)),
        ("/v1/answer/batch", {"items": [1] * 300_000}),
        ("/v1/embed", {"texts": [""] * 300_000}),
    ],
)
def test_very_many_errors_are_not_all_looked_for(served: TestClient, path: str, body: Any) -> None:
    data = json.dumps(body)
    start = time.process_time()
    reply = post(served, path, data)
    assert reply.status_code == 422 and "more" not in reply.json()["error"] and "Value error" not in reply.text
    assert time.process_time() - start < 1.5  # it was seven seconds, in which nothing else was answered


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"question": "\xff"}', b'{"n_best": ' + b"9" * 10_000 + b"}", b"\x1f\x8b\x08"]
)
def test_what_python_does_not_read_as_json_is_malformed_too(served: TestClient, body: bytes) -> None:
    reply = post(served, "/v1/answer", body)
    assert reply.status_code == 400 and reply.json()["error_type"] == "malformed_json"


def test_a_body_that_is_not_said_to_be_json_is_told_the_header(served: TestClient) -> None:
    reply = served.post("/v1/answer", content=json.dumps(ASK), headers={"Content-Type": "text/plain"})
    assert reply.status_code == 422 and "'Content-Type: application/json'" in reply.json()["error"]


def test_head_is_answered_as_get(served: TestClient) -> None:
    for path, status in (("/", 200), ("/healthz", 200), ("/readyz", 200), ("/v1/answer", 405), ("/nothing", 404)):
        assert served.head(path).status_code == status
    assert 'method="HEAD",route="/healthz"' in served.get("/metrics").text


def test_the_models_are_listed_while_one_of_them_works(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path))) as service:
        blocked = threading.Event()
        service.service.scheduler.thread.submit(blocked.wait, 20)
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=5)
        connection.request("GET", "/v1/models")
        assert json.loads(connection.getresponse().read())["models"][0]["name"] == "tiny"
        blocked.set()
        connection.close()


def test_a_document_has_the_described_form_and_a_limit_of_characters(served: TestClient) -> None:
    reply = served.post("/v1/document", params={"name": "a.html"}, content="<p>一</p><p>two".encode())
    found = DocumentReply.model_validate_json(reply.content)
    assert found.unit == "paragraph" and [each.number for each in found.places] == [1, 2] and "一" in found.text
    reply = served.post("/v1/document", params={"name": "a.txt"}, content=b"ab " * 2000)
    assert reply.status_code == 413 and "'document_characters'" in reply.json()["error"]


def test_a_document_whose_sender_has_gone_is_not_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_upload.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("masquerade.serve.uploads.MODULE", "slow_upload")
    with Running(Service(sources(tmp_path))) as service:
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(b"POST /v1/document?name=a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na")
        wait_until(lambda: service.service.uploads == 1)
        connection.close()
        wait_until(lambda: service.service.uploads == 0, 20)
        assert service.service.metrics.registry.get_sample_value("masquerade_dropped_total") == 1


def test_bodies_are_held_up_to_a_number_of_bytes(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path), ServiceLimits(held_bytes=1000))) as service:
        head = b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
        with socket.create_connection(("127.0.0.1", service.port)) as waiting:
            waiting.sendall(head + b" " * 899)
            wait_until(lambda: service.service.body_bytes == 899)
            status, headers, reply = service.post("/v1/answer", {**ASK, "passages": [PASSAGE * 2]})
            assert status == 429 and reply["error_type"] == "overloaded"
            assert "Retry-After" in {*map(str.title, headers)}
        wait_until(lambda: service.service.body_bytes == 0)
        assert service.post("/v1/answer", ASK)[0] == 200


def test_a_refused_body_is_read_to_its_end_so_that_its_sender_sees_why(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path), ServiceLimits(body_bytes=2000), token="secret")) as service:
        body = {**ASK, "passages": ["the cat " * 2_000_000]}
        for token, status in (("secret", 413), ("wrong", 401)):
            assert service.post("/v1/answer", body, Authorization=f"Bearer {token}")[0] == status
        with socket.create_connection(("127.0.0.1", service.port), timeout=5) as asking:  # and sends when it is told to
            head = b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n"
            asking.sendall(head)
            assert asking.recv(100).startswith(b"HTTP/1.1 401")


def test_texts_that_are_kept_share_what_is_as_long_as_the_vocabulary(served: TestClient) -> None:
    service: Any = served.app.state.service  # type: ignore[attr-defined]
    windows = service.models.readers["tiny"].cut
    first, second = windows((PASSAGE,)), windows((CHINESE,))
    assert first is not second and first.small_letters is second.small_letters


def test_batches_of_ever_new_sizes_do_not_grow_the_process(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux says how large a process is in this way")
    code = (
        "import sys, torch; from masquerade.serve.models import ServedModels, Sources\n"
        "from masquerade.serve.limits import ServiceLimits\n"
        "models = ServedModels(Sources(readers={'tiny': sys.argv[1]}), ServiceLimits())\n"
        "torch.set_num_threads(1); torch.set_float32_matmul_precision('medium'); linear = torch.nn.Linear(384, 1536)\n"
        "size = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "@torch.inference_mode()\n"
        "def run(sizes):\n"
        "    for n in sizes: linear(torch.ones(n, 384))\n"
        "run(range(100, 150)); before = size(); run(range(150, 350)); print(size() - before)"
    )
    words = [sys.executable, "-c", code, sources(tmp_path).readers["tiny"]]
    environment = {**os.environ, "MASQUERADE_KERNEL": "medium"}
    grown = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert int(grown.stdout) < 30  # it was over 100 MB


def test_memory_that_loading_has_freed_is_given_back() -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux says how large a process is in this way")
    code = (
        "import torch; from masquerade import kernels; from masquerade.serve.heap import give_back\n"
        "size = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "kernels.use(); found = [torch.ones(2**22) for _ in range(24)]; del found\n"
        "before = size(); give_back(); print(before - size())"
    )
    environment = {**os.environ, "MASQUERADE_KERNEL": "auto"}
    freed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert int(freed.stdout) > 200  # of 384 MB


def test_the_time_limit_holds_while_tokens_are_counted(tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path), ServiceLimits(seconds=0.5))) as service:
        blocked = threading.Event()
        service.service._counting.submit(blocked.wait, 60)
        status, _, reply = service.post("/v1/answer", ASK)
        blocked.set()
        assert status == 504 and "0.5 seconds" in reply["error"]


def test_a_long_text_is_counted_in_pieces_between_which_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(Service(sources(tmp_path), ServiceLimits(request_tokens=60_000))) as service:
        counted, counter = list[str](), service.service.models.counters["reader", "tiny"]

        def noted(texts: Sequence[str]) -> list[int]:
            counted.extend(text[:12] for text in texts)
            time.sleep(0.02)
            return counter(texts)

        monkeypatch.setitem(service.service.models.counters, ("reader", "tiny"), noted)
        long, replies = "the old cat " * 60_000, list[Any]()
        body = {"question": "who ?", "passages": [long]}
        thread = threading.Thread(target=lambda: replies.append(service.post("/v1/answer", body)))
        thread.start()
        wait_until(lambda: len(counted) > 2)
        assert service.post("/v1/answer", ASK)[0] == 200
        thread.join(60)
        assert replies[0][0] == 413 and "'request_tokens'" in replies[0][2]["error"]
        place = counted.index(PASSAGE[:12])
        assert 2 < place < len(counted) - 1  # the short one was counted in between
        assert len(counted) < len(long) / PIECE / 2  # and the long one no further than needed


def test_pieces_are_the_whole_text_and_give_its_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "PIECE", 50)
    counter = TokenCounter(tiny_reader().tokenizer)
    for text in (f"{PASSAGE} " * 30, CHINESE * 20, "a" * 333, " " * 120, ""):
        parts = list(pieces(text))
        assert "".join(parts) == text and all(len(part) <= 50 for part in parts)
        if text.startswith((PASSAGE, CHINESE)):
            assert sum(counter(parts)) == counter([text])[0]
    assert counter(["a" * 320]) == [320 // CHARACTERS]  # one token, and not for nothing


def test_the_reader_is_chosen_by_the_beginnings_of_texts(tmp_path: Path) -> None:
    folder = sources(tmp_path).readers["tiny"]
    from masquerade.serve.models import ServedModels, Sources

    models = ServedModels(Sources(readers={"en": folder, "zh": folder}), ServiceLimits())
    assert models.reader_for(None, "who ?", "the cat " * 9, CHINESE) == "zh"
    assert models.reader_for(None, "who ?", "the cat " * 10_000 + "北京" * 90_000) == "en"
    models.close()
