"""Documents from the network, read in a process of their own with limits of memory and time.

Only the bytes and the name are sent to that process; the name decides the format and is shown, and is never opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from masquerade.errors import MasqueradeError
from masquerade.serve.failures import ServiceError, too_large
from masquerade.serve.limits import ServiceLimits

MODULE = "masquerade.serve.upload_process"


async def read_upload(data: bytes, name: str, limits: ServiceLimits) -> bytes:
    """The document of uploaded bytes as JSON, as that process wrote it (a large one is not parsed here, where all
    requests would wait for it); an error if it cannot be read within the limits."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", MODULE),
        *(str(limits.upload_memory), str(int(limits.seconds) + 1), str(limits.document_characters)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        reply, _ = await process.communicate(json.dumps(name).encode() + b"\n" + data)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    kind, _, rest = reply.partition(b"\n")
    if kind == b"large":
        raise too_large("characters", int(rest), limits.document_characters, "document_characters")
    if kind == b"refused":
        raise MasqueradeError(rest.decode())
    if kind != b"read" or process.returncode:
        raise ServiceError(
            413, "too_large", "Reading the document took more memory than is allowed (limit 'upload_memory')."
        )
    return rest
