"""The files in deploy/: their commands, options and paths exist. No container is run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from masquerade.cli import main as cli
from masquerade.serve.limits import ServiceLimits

ROOT = Path(__file__).parents[1]
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install PyYAML")


def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    return found


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a command of masquerade; an error if there is no such command or option."""
    assert words[0] == "masquerade"
    command: Any = typer.main.get_command(cli.app)
    found: dict[str, Any] = command.commands[words[1]].make_context(words[1], list(words[2:])).params
    return found


def test_the_commands_of_the_compose_file_can_be_parsed_and_fit_together() -> None:
    services = composed()["services"]
    index, serve = parsed(services["index"]["command"]), parsed(services["serve"]["command"])
    host, port = re.fullmatch(r"http://(\w+):(\d+)", index["uri"]).groups()  # type: ignore[union-attr]
    assert host in services and port == "19530"
    assert serve["kb"] == [f"documents={index['out']}"]
    assert Path(serve["token_file"]).name in services["serve"]["secrets"]
    assert services["serve"]["ports"] == [f"127.0.0.1:{serve['port']}:{serve['port']}"]
    assert f":{serve['port']}/readyz" in services["serve"]["healthcheck"]["test"][-1]
    assert int(services["serve"]["stop_grace_period"].removesuffix("s")) > serve["seconds"]


def test_every_path_of_the_compose_file_is_mounted_or_declared() -> None:
    found = composed()
    for name, service in found["services"].items():
        mounts = [each.split(":") for each in service.get("volumes", [])]
        for source, *_ in mounts:
            assert source.startswith("./") or source in found["volumes"], (name, source)
        for word in service.get("command", []):
            path = word.partition("=")[2] or word
            if path.startswith("/") and not path.startswith("/run/secrets/"):
                assert any(path == target or path.startswith(f"{target}/") for _, target, *_ in mounts), (name, path)
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in found["services"][needed]
        if "build" in service:
            context = (ROOT / "deploy" / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()
        for secret in service.get("secrets", []):
            assert secret in found["secrets"]


def test_the_image_copies_files_that_exist_and_installs_extras_that_exist() -> None:
    lines = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    for copied in re.findall(r"^COPY (.+)$", lines, re.MULTILINE):
        for source in copied.split()[:-1]:
            assert (ROOT / source).exists(), source
    extras = re.search(r"\[([\w,]+)\]", lines)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras is not None and set(extras[1].split(",")) <= set(known)
    folders = {each.split(":")[1] for each in composed()["services"]["index"]["volumes"] if not each.endswith(":ro")}
    assert all(f"chown serve:serve {folder}" in lines for folder in folders)  # the service is not root


def test_nginx_sends_requests_to_the_workers_that_its_comment_starts() -> None:
    text = (ROOT / "deploy/nginx.conf").read_text(encoding="utf-8")
    started = re.findall(r"masquerade serve --port (\d+)", text)
    assert started and started == re.findall(r"^ +server 127\.0\.0\.1:(\d+)", text, re.MULTILINE)
    assert text.count("{") == text.count("}")
    limit = re.search(r"client_max_body_size (\d+)m", text)
    assert limit is not None and int(limit[1]) << 20 == ServiceLimits().upload_bytes
    told = re.search(r"return 413 '(.+)';", text)
    assert told is not None and json.loads(told[1].replace("\\'", "'"))["error_type"] == "too_large"
