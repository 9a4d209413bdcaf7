"""Starts the HTTP service and stops it gracefully."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.errors import MasqueradeError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServeOptions:
    """The options of ``masquerade serve``."""

    host: str
    port: int
    reader: Sequence[str]
    kb: Sequence[str]
    fill: Sequence[str]
    generate: Sequence[str]
    writer: Sequence[str]
    encoder: Sequence[str]
    facts: Sequence[str]
    keep_facts: bool
    share_weights: Path | None
    token_file: Path | None
    allowed_host: Sequence[str]
    seconds: float
    queue_tokens: int
    request_tokens: int
    wait: float
    memory: int
    threads: int | None
    batching: bool


def run_service(options: ServeOptions) -> None:
    """Run the service until it is stopped by a signal. Exits with 1 if its models cannot be loaded."""
    import fastapi  # noqa: F401  (named with its extra, if it is missing)
    import prometheus_client  # noqa: F401
    import uvicorn  # noqa: F401

    from masquerade.serve.limits import ServiceLimits
    from masquerade.serve.models import Sources
    from masquerade.serve.server import Server
    from masquerade.serve.service import Service

    sources = Sources(
        readers=_named(options.reader), fillers=_named(options.fill), generators=_named(options.generate),
        writers=_named(options.writer), encoders=_named(options.encoder), collections=_named(options.kb),
        facts={name: _pair(path) for name, path in _named(options.facts).items()}, keep_facts=options.keep_facts,
        shared_weights=str(options.share_weights or ""),
    )  # fmt: skip
    limits = ServiceLimits(
        seconds=options.seconds, queue_tokens=options.queue_tokens, request_tokens=options.request_tokens,
        wait_seconds=options.wait / 1000, memory_bytes=options.memory << 20,
    )  # fmt: skip
    local = options.host in LOOPBACK
    hosts = [host.lower() for host in options.allowed_host] or (["localhost"] if local else [])
    token = _token(options.token_file)
    if not local and token is None:
        print(
            f"masquerade: the service is open to everybody who reaches {options.host}; "
            "give a token by --token-file or MASQUERADE_TOKEN.",
            file=sys.stderr,
        )
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    service = Service(sources, limits, token, hosts, options.batching)
    if code := Server(service, options.host, options.port).serve_until_stopped():
        sys.exit(code)


def _named(given: Sequence[str]) -> dict[str, str]:
    """Names and paths from NAME=PATH; without a name, the last part of the path is one."""
    found = dict[str, str]()
    for each in given:
        name, separator, path = each.partition("=")
        if not separator:
            name, path = Path(each.rstrip("/")).name, each
        if not name or not path:
            raise MasqueradeError(f"'{each}' has no name or no path; give NAME=PATH.")
        if name in found:
            raise MasqueradeError(f"The name '{name}' is given twice; choose another one.")
        found[name] = path
    return found


def _pair(path: str) -> tuple[str, str]:
    """A model and the folder of its knowledge base."""
    model, separator, base = path.rpartition(":")
    if not separator or not model or not base:
        raise MasqueradeError(f"'{path}' names no knowledge base; give NAME=MODEL:KB.")
    return model, base


def _token(file: Path | None) -> str | None:
    """The bearer token, from a file or from the environment."""
    if file is None:
        return os.environ.get("MASQUERADE_TOKEN") or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MasqueradeError(f"The token file '{file}' cannot be read: {error}.") from error
    if not token:
        raise MasqueradeError(f"The token file '{file}' is empty; write a token into it.")
    return token
