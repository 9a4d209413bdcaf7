"""The description of the API: every error is in it, and requests made from it never break the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collection_cases import tiny_encoder, write_folder
from entity_cases import knowledge
from serve_cases import Running, ServiceLimits, Sources, client, create_app, facts_model, plain_folder, reader_folder
from serve_cases import Service as Served

from masquerade import KnowledgeBase, load, save
from masquerade.writing.settings import WritingSettings


def test_every_route_names_its_errors_and_has_an_example(tmp_path: Path) -> None:
    described = create_app(Served(Sources(readers={"x": str(tmp_path)}))).openapi()
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            assert route.get("summary") and {"200", "421"} <= set(route["responses"]), path
            if path.startswith("/v1/") and method == "post":
                assert {"401", "413", "422", "500", "503"} <= set(route["responses"]), path
                for status in set(route["responses"]) - {"200"}:
                    example = route["responses"][status]["content"]["application/json"]["example"]
                    assert set(example) == {"error", "error_type"}
                given = route["requestBody"]["content"]
                if "application/json" in given:
                    assert "400" in route["responses"]
                    name = given["application/json"]["schema"]["$ref"].rpartition("/")[2]
                    assert described["components"]["schemas"][name]["examples"], name


def test_the_examples_of_the_description_work(tmp_path: Path) -> None:
    plain = plain_folder(tmp_path / "plain")
    made = Sources(readers={"tiny": reader_folder(tmp_path / "reader")}, fillers={"m": plain}, generators={"m": plain})
    with client(made) as found:
        described = found.get("/openapi.json").json()
        for path in ("/v1/answer", "/v1/answer/batch", "/v1/answer/compare", "/v1/layout", "/v1/fill", "/v1/generate"):
            given = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            for example in described["components"]["schemas"][given.rpartition("/")[2]]["examples"]:
                reply = found.post(path, json=example)
                assert reply.status_code == 200, (path, reply.text)


@pytest.mark.slow
def test_requests_made_from_the_description_are_answered_as_described(tmp_path: Path) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi

    plain = plain_folder(tmp_path / "plain")
    save(WritingSettings(training="masked", target_length=8).put(load(plain)), tmp_path / "writer")
    knowledge(tmp_path / "facts").close()
    save(facts_model(), tmp_path / "facts-model")
    write_folder(tmp_path / "documents")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.update([str(tmp_path / "documents")])
    made = Sources(
        readers={"tiny": reader_folder(tmp_path / "reader")}, fillers={"m": plain}, generators={"m": plain},
        writers={"w": str(tmp_path / "writer")}, encoders={"e": str(tiny_encoder(tmp_path / "encoder"))},
        collections={"notes": str(tmp_path / "kb")},
        facts={"world": (str(tmp_path / "facts-model"), str(tmp_path / "facts" / "kb"))},
    )  # fmt: skip
    with Running(Served(made, ServiceLimits(seconds=20))) as service:
        schema: Any = schemathesis.openapi.from_dict(create_app(service.service).openapi())
        checked = [
            checks.not_a_server_error, openapi.status_code_conformance, openapi.content_type_conformance,
            openapi.response_headers_conformance, openapi.response_schema_conformance,
        ]  # fmt: skip
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=4, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            def one(case: Any) -> None:
                case.call_and_validate(base_url=service.address, checks=checked)

            one()
            tried += 1
        assert tried == 17
