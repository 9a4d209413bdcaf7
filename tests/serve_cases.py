"""Tiny models and a client that the tests of the service share."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from entity_cases import encoder
from reader_cases import network
from reader_cases import reader as tiny_reader

from masquerade import Model, save
from masquerade.memory.entity.facts import FactsAsExperts
from masquerade.memory.entity.networks import parts, with_memory
from masquerade.memory.entity.training import EntityTraining, TrainEntities
from masquerade.training.loop import Run

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("prometheus_client", reason="the extra 'serve' is not installed")

from fastapi.testclient import TestClient

from masquerade.serve.app import create_app
from masquerade.serve.limits import ServiceLimits
from masquerade.serve.models import Sources
from masquerade.serve.server import Server
from masquerade.serve.service import Service

PASSAGE = "the cat sat on a warm red mat . two old dogs walk in by the sea ."
CHINESE = "北京是中国的首都。上海在哪里？"
ASK: dict[str, Any] = {"question": "who sat ?", "passages": [PASSAGE]}


def reader_folder(folder: Path) -> str:
    """The folder of a tiny reader."""
    save(tiny_reader().model, folder)
    return str(folder)


def plain_folder(folder: Path) -> str:
    """The folder of a tiny model that fills and continues texts."""
    save(network(None, longest=64, family="bert", segments=2, outputs=("lm",)), folder)
    return str(folder)


def facts_model() -> Model:
    """A network that always reads the one fact that fits best."""
    model = with_memory(encoder(), {
        1: ("entities", {"width": 16, "top": 3}), 2: ("facts", {"width": 16, "relation": 16, "top": 1}),
    })  # fmt: skip
    part = next(part for part in parts(model) if isinstance(part, FactsAsExperts))
    torch.nn.init.constant_(part.query.bias, 3.0)
    torch.nn.init.constant_(part.null_key, -9.0)
    return model.eval()


def trained_facts(folder: Path) -> str:
    """The folder of a network that was trained to read the facts of the knowledge base in ``folder / "kb"``."""
    save(encoder(), folder / "start")
    capitals = [("Paris", "Q90", "Q142"), ("Berlin", "Q64", "Q183"), ("北京", "Q956", "Q148")]
    records = [
        {"predicate": "P1376", "sub_uri": key, "sub_label": name, "obj_uri": thing, "obj_label": "…", "evidences": [
            {"masked_sentence": f"{name} is the capital of [MASK].", "sub_surface": name, "obj_surface": "…"}]}
        for name, key, thing in capitals
    ]  # fmt: skip
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    recipe = EntityTraining(
        train=(str(folder / "train.jsonl"),), out=str(folder / "run"), start=str(folder / "start"),
        memory=str(folder / "kb"), kind="facts", length=32, row=32, batch=4, epochs=80, rate=1e-2, save_every=80,
        precision="float32", forgotten=0.0,
    )  # fmt: skip
    Run(TrainEntities(recipe)).train()
    return str(folder / "run")


def sources(folder: Path, **more: Any) -> Sources:
    """A tiny reader, under the name 'tiny'."""
    return Sources(readers={"tiny": reader_folder(folder / "reader")}, **more)


@contextmanager
def client(made: Sources, limits: ServiceLimits | None = None, **options: Any) -> Iterator[TestClient]:
    """A client of a service whose models are loaded."""
    service = Service(made, limits, **options)
    with TestClient(create_app(service)) as found:
        wait_until(lambda: service.status != "loading")
        yield found


def wait_until(ready: Any, seconds: float = 30.0) -> None:
    """Wait until a function returns something true."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


class Running:
    """A service on a free port of loopback, in a thread."""

    def __init__(self, service: Service) -> None:
        self.service, self.server = service, Server(service)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        wait_until(lambda: self.server.started and self.service.status != "loading", 120)
        self.address = self.server.address
        self.port = int(self.address.rpartition(":")[2])
        return self

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self.thread.join(30)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of a reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = json.dumps(body)
            connection.request("POST", path, data, {"Content-Type": "application/json", **headers})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), json.loads(reply.read())
        finally:
            connection.close()
