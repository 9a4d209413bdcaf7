"""Documents from the network, read in a process of their own: with limits of memory and time, and no access to files.

Only the bytes and the name are sent to that process; the name decides the format and is shown, and is never opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from dataclasses import asdict
from typing import Any

from masquerade.documents.document import Document
from masquerade.documents.folders import format_of
from masquerade.documents.limits import MAX_CHARACTERS, check_limit
from masquerade.errors import MasqueradeError
from masquerade.serve.failures import ServiceError
from masquerade.serve.limits import Limits

MODULE = "masquerade.serve.uploads"


async def read_upload(data: bytes, name: str, limits: Limits) -> Document:
    """The document of uploaded bytes; an error if it cannot be read within the limits."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULE, str(limits.upload_memory), str(int(limits.seconds) + 1),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(limits.seconds):
            sent = json.dumps(name).encode() + b"\n" + data
            reply, _ = await process.communicate(sent)
    except TimeoutError:
        raise ServiceError(
            413, "too_large", f"The document could not be read within {limits.seconds:g} seconds; send a smaller one."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found: dict[str, Any] = json.loads(reply)
    except ValueError:
        raise ServiceError(
            413, "too_large", "Reading the document took more memory than is allowed (limit 'upload_memory')."
        ) from None
    if "error" in found:
        raise MasqueradeError(found["error"])
    return Document(**{**found, "starts": tuple(found["starts"]), "numbers": tuple(found["numbers"])})


def main() -> None:
    """Read a document from standard input, and print it, or why it cannot be read, as JSON."""
    memory, seconds = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    name, data = json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()
    try:
        document = format_of(name, data)(data, name)
        check_limit(len(document.text), MAX_CHARACTERS, "characters", name)
        if not document.text.strip():
            raise MasqueradeError(f"There are no words in '{name}'; give a text to read.")
        made: dict[str, Any] = asdict(document)
    except MasqueradeError as error:
        made = {"error": str(error)}
    sys.stdout.write(json.dumps(made))


if __name__ == "__main__":
    main()
