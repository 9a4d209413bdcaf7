"""The service: answers, limits, errors, health and headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from reader_cases import reader as tiny_reader
from serve_cases import ASK, CHINESE, PASSAGE, ServiceLimits, TestClient, client, sources

from masquerade.reading.answers import VOTES
from masquerade.serve.models import Sources
from masquerade.serve.requests import Decoder, Method, Vote


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client(sources(tmp_path_factory.mktemp("models"))) as found:
        yield found


def test_an_answer_is_that_of_the_reader_with_its_place(served: TestClient) -> None:
    reply = served.post("/v1/answer", json={**ASK, "n_best": 3, "show_parts": True}).json()
    alone = tiny_reader().ask("who sat ?", [PASSAGE], n_best=3)
    assert (reply["answer"], reply["start"], reply["end"]) == (alone.text, alone.start, alone.end)
    assert reply["score"] == pytest.approx(alone.score, abs=2e-3)  # what is remembered has half precision
    assert [each["answer"] for each in reply["alternatives"]] == [each.text for each in alone.alternatives]
    assert PASSAGE[reply["start"] : reply["end"]] == reply["answer"]
    assert reply["parts"] == [{"passage": 0, "start": 0, "end": len(PASSAGE)}]
    assert reply["tokens"] > 15 and reply["windows"] == 1 and reply["model"] == "tiny"


def test_a_passage_is_read_once(served: TestClient) -> None:
    asked = {"question": "在哪里？", "passages": [CHINESE]}
    first, second = served.post("/v1/answer", json=asked).json(), served.post("/v1/answer", json=asked).json()
    assert (first["remembered"], second["remembered"]) == (0, 1)
    assert first["answer"] == second["answer"] and first["score"] == second["score"]
    assert CHINESE[first["start"] : first["end"]] == first["answer"]
    text = served.get("/metrics").text
    assert 'masquerade_windows_total{cache="hit"} 1.0' in text.splitlines() or "hit" in text
    assert "masquerade_batch_size_bucket" in text and "masquerade_queue_tokens 0.0" in text
    assert '{method="POST",route="/v1/answer",status="200"}' in text


def test_a_batch_gives_the_answers_in_order(served: TestClient) -> None:
    items = [{"question": "who sat ?", "passages": [PASSAGE]}, {"question": "谁在上海？", "passages": [CHINESE]}]
    reply = served.post("/v1/answer/batch", json={"items": items}).json()
    alone = [served.post("/v1/answer", json=item).json() for item in items]
    assert [each["answer"] for each in reply["answers"]] == [each["answer"] for each in alone]


def test_decoders_are_compared(served: TestClient) -> None:
    reply = served.post("/v1/answer/compare", json={"question": "who sat ?", "passage": PASSAGE}).json()
    assert [each["decoder"] for each in reply["answers"]] == ["autoregressive", "blocks", "parallel"]
    by = {each["decoder"]: each for each in reply["answers"]}
    assert {token["step"] for token in by["parallel"]["tokens"]} == {1}
    steps = [token["step"] for token in by["autoregressive"]["tokens"]]
    assert steps == sorted(steps) and len(set(steps)) == len(steps)


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        (b'{"question": ', 400, "malformed_json", "JSON"),
        (b"[]", 422, "invalid_request", "the body"),
        (b'{"question": "who?"}', 422, "invalid_request", "'passages' or 'collection'"),
        (b'{"question": "", "passages": ["a"]}', 422, "invalid_request", "question"),
        (b'{"question": "who?", "passages": []}', 422, "invalid_request", "passages"),
        (b'{"question": "who?", "passages": [" "]}', 422, "invalid_input", "no text"),
        (b'{"question": "who?", "passages": ["a"], "top": 1}', 422, "invalid_request", "top"),
        (b'{"question": "who?", "passages": ["a"], "decoder": "x"}', 422, "invalid_request", "decoder"),
        (b'{"question": "who?", "passages": ["a"], "model": "../x"}', 404, "unknown_name", "tiny"),
        (b'{"question": "who?", "collection": "x"}', 404, "unknown_name", "collection"),
        (b'{"question": "\\ud800", "passages": ["a"]}', 422, "invalid_request", "half"),
    ],
)
def test_errors_have_one_form(served: TestClient, body: bytes, status: int, kind: str, said: str) -> None:
    reply = served.post("/v1/answer", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert set(reply.json()) == {"error", "error_type"}
    assert reply.json()["error_type"] == kind and said in reply.json()["error"]


def test_unknown_paths_and_methods_have_that_form_too(served: TestClient) -> None:
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/answer", 405), ("GET", "/page/x.html", 404)):
        reply = served.request(method, path)
        assert reply.status_code == status and set(reply.json()) == {"error", "error_type"}
    assert served.get("/page/..%2f__init__.py").status_code == 404
    reply = served.delete("/v1/facts/world")
    assert reply.headers["allow"] == "GET, POST" and "takes GET, POST, not DELETE" in reply.json()["error"]


def test_words_and_true_are_no_numbers(served: TestClient) -> None:
    for wrong in ({"n_best": True}, {"n_best": "2"}, {"threshold": "0.5"}, {"show_parts": 1}):
        reply = served.post("/v1/answer", json=ASK | wrong)
        assert reply.status_code == 422 and next(iter(wrong)) in reply.json()["error"]
    assert served.post("/v1/answer", json=ASK | {"n_best": 2.0, "threshold": 0}).status_code == 200


def test_limits_are_named(tmp_path: Path) -> None:
    limits = ServiceLimits(body_bytes=2000, request_tokens=40, question_tokens=8, passages=2, batch=2)
    with client(sources(tmp_path), limits) as found:
        for body, status, name in (
            ({"question": "who ?", "passages": ["x" * 3000]}, 413, "body_bytes"),
            ({"question": "who ?", "passages": ["the cat " * 30]}, 413, "request_tokens"),
            ({"question": "who sat " * 5, "passages": ["cat"]}, 422, "question_tokens"),
            ({"question": "who ?", "passages": ["cat"] * 3}, 422, "passages"),
        ):
            reply = found.post("/v1/answer", json=body)
            assert reply.status_code == status and f"'{name}'" in reply.json()["error"]
        items = [{"question": "who ?", "passages": ["cat"]}] * 3
        assert "'batch'" in found.post("/v1/answer/batch", json={"items": items}).json()["error"]
        chunks = (b"x" * 500 for _ in range(9))  # without a length
        assert found.post("/v1/answer", content=chunks).status_code == 413


def test_a_token_guards_the_models_and_not_the_health(tmp_path: Path) -> None:
    with client(sources(tmp_path), token="secret") as found:
        refused = found.post("/v1/answer", json=ASK)
        assert refused.status_code == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
        assert found.get("/metrics").status_code == 401
        assert found.post("/v1/answer", json=ASK, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert found.post("/v1/answer", json=ASK, headers={"Authorization": "Bearer secret"}).status_code == 200
        assert found.get("/healthz").status_code == 200 and found.get("/").status_code == 200


def test_every_reply_has_security_headers_and_no_cors(served: TestClient) -> None:
    for reply in (served.get("/"), served.get("/v1/models"), served.post("/v1/answer", json=ASK), served.get("/x")):
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert not any(name.lower().startswith("access-control") for name in reply.headers)


def test_other_hosts_are_refused_where_hosts_are_named(tmp_path: Path) -> None:
    with client(sources(tmp_path), hosts=["localhost"]) as found:
        wrong = found.get("/healthz", headers={"Host": "evil.example:80"})
        assert wrong.status_code == 421 and wrong.json()["error_type"] == "wrong_host"
        assert found.get("/healthz", headers={"Host": "127.0.0.1:8000"}).status_code == 200


def test_models_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    with client(Sources(readers={"x": str(tmp_path / "nothing")})) as found:
        assert found.get("/healthz").status_code == 200
        ready = found.get("/readyz")
        assert ready.status_code == 503 and ready.json()["status"] == "failed" and "nothing" in ready.json()["detail"]
        assert found.post("/v1/answer", json=ASK).status_code == 503


def test_the_models_are_listed(served: TestClient) -> None:
    assert served.get("/readyz").json()["status"] == "ready"
    reply = served.get("/v1/models").json()
    assert [(each["name"], each["kind"]) for each in reply["models"]] == [("tiny", "reader")]
    assert set(reply["decoders"]) == set(get_args(Decoder)) and set(reply["methods"]) == set(get_args(Method))
    assert set(VOTES) == set(get_args(Vote))
    assert "prefix" in reply["constructors"] and reply["limits"]["batch"] == 64
