"""The service: filled, written and generated texts, vectors, masks, documents, collections and facts."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from collection_cases import tiny_encoder, write_folder
from entity_cases import knowledge
from pdf_files import write_pdf
from serve_cases import ServiceLimits, TestClient, client, facts_model, plain_folder, sources

from masquerade import KnowledgeBase, load, save
from masquerade.layout import visible
from masquerade.masks import prefix
from masquerade.serve.layouts import EXAMPLES
from masquerade.writing.fill import fill
from masquerade.writing.generate import generate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[TestClient]:
    with KnowledgeBase.open(folder / "kb", create=True) as base:
        base.update([str(write_folder(folder / "documents"))])
    memory = knowledge(folder / "facts")
    memory.close()
    save(facts_model(), folder / "facts-model")
    plain = plain_folder(folder / "plain")
    made = sources(
        folder, fillers={"bert": plain}, generators={"bert": plain}, collections={"town": str(folder / "kb")},
        encoders={"tiny": str(tiny_encoder(folder / "encoder"))},
        facts={"world": (str(folder / "facts-model"), str(folder / "facts" / "kb"))},
    )  # fmt: skip
    with client(made, ServiceLimits(layout_tokens=40)) as found:
        yield found


def test_what_a_first_question_needs_is_prepared_before_the_service_is_ready(served: TestClient) -> None:
    service: Any = served.app.state.service  # type: ignore[attr-defined]
    tokenizer = service.models.readers["tiny"].tokenizer
    assert "small_letters" in vars(tokenizer)


def test_masks_are_filled(served: TestClient, folder: Path) -> None:
    reply = served.post("/v1/fill", json={"text": "北京是中国的[MASK]都 .", "top": 3}).json()
    alone = fill(load(folder / "plain"), "北京是中国的[MASK]都 .", 3)
    assert reply["text"] == alone.text and len(reply["masks"]) == 1
    assert [each["word"] for each in reply["masks"][0]] == [each.word for each in alone.guesses[0]]
    refused = served.post("/v1/fill", json={"text": "the cat"})
    assert refused.status_code == 422 and refused.json()["error_type"] == "invalid_input"
    assert served.post("/v1/fill", json={"text": "[MASK] cat " * 80}).status_code == 413


def test_vectors_are_those_of_the_encoder(served: TestClient, folder: Path) -> None:
    from masquerade import Encoder

    texts = ["red granite", "赵州桥"]
    reply = served.post("/v1/embed", json={"texts": texts}).json()
    assert torch.allclose(torch.tensor(reply["vectors"]), Encoder.load(folder / "encoder").encode(texts), atol=1e-5)


def test_a_text_is_generated_in_pieces(served: TestClient, folder: Path) -> None:
    body = {"prompt": "the cat", "max_new": 6, "method": "greedy"}
    with served.stream("POST", "/v1/generate", json=body) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        events = [part.split("\n") for part in reply.read().decode().strip().split("\n\n")]
    names = [event.removeprefix("event: ") for event, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert names[-1] == "done" and set(names[:-1]) <= {"piece"}
    alone = generate(load(folder / "plain"), ["the cat"], max_new=6)[0].text
    assert data[-1]["text"] == "".join(each["text"] for each in data[:-1]) == alone
    wrong = served.post("/v1/generate", json={**body, "temperature": 0.5})
    assert wrong.status_code == 422 and "temperature" in wrong.json()["error"]
    assert "new_tokens" in served.post("/v1/generate", json={**body, "max_new": 9999}).json()["error"]


def test_every_mask_is_drawn_and_limited(served: TestClient) -> None:
    for name in EXAMPLES:
        reply = served.post("/v1/layout", json={"constructor": name}).json()
        assert len(reply["seen"]) == len(reply["tokens"]) == len(reply["kinds"]) and f"def {name}" in reply["code"]
    body = {"constructor": "prefix", "text": "北京 <b>是 | 首都", "prefix": 3}
    reply = served.post("/v1/layout", json=body).json()
    assert reply["tokens"] == ["北", "京", "<", "b", ">", "是", "首", "都"]
    expected = visible(prefix([1] * 3, [1] * 5)).int().tolist()
    assert reply["seen"] == ["".join(map(str, row)) for row in expected]
    assert "<b>" not in reply["svg"] and reply["svg"].startswith("<svg")
    sizes = [len(served.post("/v1/layout", json={"constructor": "shared_passage", "questions": n}).json()["tokens"])
             for n in (1, 3)]  # fmt: skip
    assert sizes[1] > sizes[0]
    assert "layout_tokens" in served.post("/v1/layout", json={**body, "text": "a " * 50}).json()["error"]
    assert served.post("/v1/layout", json={"constructor": "__doc__"}).status_code == 422


def test_a_collection_is_searched_and_asked(served: TestClient, folder: Path) -> None:
    found = served.post("/v1/search", json={"collection": "town", "query": "red granite lighthouse"}).json()["passages"]
    assert "granite" in found[0]["text"] and found[0]["file"] == "harbour.md"
    assert str(folder) not in json.dumps(found)
    reply = served.post("/v1/answer", json={"collection": "town", "question": "谁设计了赵州桥？", "n_best": 2}).json()
    assert reply["passages"][0]["file"] == "桥.txt"
    if reply["answer"]:
        passage = reply["passages"][reply["passage"]]["text"]
        assert passage[reply["start"] : reply["end"]] == reply["answer"]
    refused = served.post("/v1/answer", json={"collection": "town", "question": "who ?", "decoder": "blocks"})
    assert refused.status_code == 422


def test_the_answer_follows_a_changed_fact_and_the_knowledge_base_stays(served: TestClient) -> None:
    asked = {"text": "Paris is the capital of [MASK]."}
    before = served.post("/v1/facts/world/fill", json=asked).json()["blanks"][0]
    subject, relation, _ = before["facts"][0]["word"].split(" — ")
    change = {"subject": subject, "relation": relation, "objects": ["Berlin"]}
    assert served.post("/v1/facts/world", json=change).json()["objects"] == ["Berlin"]
    after = served.post("/v1/facts/world/fill", json=asked).json()["blanks"][0]
    assert before["answers"][0]["word"] != "Berlin" and after["answers"][0]["word"] == "Berlin"
    listed = served.get("/v1/facts/world", params={"entity": subject}).json()
    assert ["Berlin"] in [each["objects"] for each in listed["facts"]] and listed["kept"] is False
    assert served.get("/v1/facts/nothing").status_code == 404
    unknown = served.post("/v1/facts/world", json={**change, "objects": ["nobody"]})
    assert unknown.status_code == 422


def upload(served: TestClient, name: str, data: bytes) -> Any:
    return served.post("/v1/document", params={"name": name}, content=data)


def test_documents_are_read_and_their_names_are_only_names(served: TestClient, folder: Path) -> None:
    (folder / "secret.txt").write_text("secret")
    hostile = "../<img src=x onerror=alert(1)>.txt"
    reply = upload(served, hostile, "北京是首都。\nsecond".encode()).json()
    assert reply["text"] == "北京是首都。\nsecond" and reply["language"] == "zh" and reply["name"] == hostile
    assert upload(served, str(folder / "secret.txt"), b"given").json()["text"] == "given"
    page = upload(served, "a.html", b"<title>T</title><p>one<script>alert(1)</script></p><p>two").json()
    assert page["text"].split() == ["one", "two"] and page["unit"] == "paragraph"
    pages = write_pdf(folder / "two.pdf", [["first page"], ["second page"]])
    two = upload(served, "two.pdf", pages.read_bytes()).json()
    assert two["unit"] == "page" and [each["number"] for each in two["places"]] == [1, 2]
    for name, data in (("x.pdf", b"%PDF-1.7 broken"), ("x.docx", b"PK\x03\x04no"), ("x.txt", bytes(range(256)))):
        assert upload(served, name, data).status_code == 422


def test_a_file_that_unpacks_to_very_much_is_refused(served: TestClient) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
        archive.writestr("word/document.xml", "<x/>")
    data, place = packed.getvalue(), packed.getvalue().rindex(b"PK\x01\x02")
    bomb = data[: place + 24] + struct.pack("<I", 2**30) + data[place + 28 :]  # the size that the directory names
    reply = upload(served, "bomb.docx", bomb)
    assert reply.status_code == 422 and "too large" in reply.json()["error"]
    with client(sources_of_nothing(), ServiceLimits(upload_bytes=4 << 20, upload_memory=1 << 20)) as small:
        assert "upload_bytes" in upload(small, "a.txt", bytes(5 << 20)).json()["error"]
        reply = upload(small, "a.txt", b"x " * (3 << 19))
        assert reply.status_code == 413 and "upload_memory" in reply.json()["error"]


def sources_of_nothing() -> Any:
    from masquerade.serve.models import Sources

    return Sources(readers={"x": "nothing-here"})


def test_a_writer_writes(tmp_path: Path) -> None:
    from masquerade.serve.models import Sources
    from masquerade.writing.settings import WritingSettings
    from masquerade.writing.writer import Writer

    model = load(plain_folder(tmp_path / "plain"))
    save(WritingSettings(training="masked", target_length=8).put(model), tmp_path / "writer")
    with client(Sources(readers={}, writers={"titles": str(tmp_path / "writer")})) as found:
        reply = found.post("/v1/write", json={"text": "the cat sat on a mat .", "n_best": 2}).json()
        alone = Writer.load(tmp_path / "writer").write("the cat sat on a mat .", n_best=2)
        assert [each["text"] for each in reply["texts"]] == [alone.text, *(each.text for each in alone.alternatives)]
