"""Documents from the network, read in a process of their own with limits of memory and time.

Only the bytes and the name are sent to that process; the name decides the format and is shown, and is never opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from masquerade.documents.document import Document
from masquerade.errors import MasqueradeError
from masquerade.serve.failures import ServiceError
from masquerade.serve.limits import ServiceLimits

MODULE = "masquerade.serve.upload_process"


async def read_upload(data: bytes, name: str, limits: ServiceLimits) -> Document:
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
