"""What a request, and the queue, may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of the service. Sizes are bytes or tokens, as their names say."""

    body_bytes: int = 4 << 20  # of a JSON request
    upload_bytes: int = 32 << 20  # of a document
    held_bytes: int = 256 << 20  # of the bodies of all requests under way
    document_characters: int = 2_000_000  # of a document's text; more could not be asked in one request
    upload_memory: int = 2 << 30  # bytes of memory that reading a document may take
    request_tokens: int = 200_000  # of a question with its passages; of a text
    question_tokens: int = 256
    passages: int = 256  # of one question
    batch: int = 64  # questions or texts of one request
    new_tokens: int = 512  # that one request may generate
    layout_tokens: int = 256  # of a drawn mask, with the tokens that the mask adds
    queue_tokens: int = 400_000  # that wait or are being read
    batch_tokens: int = 2_048  # that are read together; more would leave a processor's cache
    wait_seconds: float = 0.004  # that a request waits for others, if nothing is read and several were read together
    seconds: float = 60.0  # for one request
    streams: int = 8  # texts that are generated at the same time
    uploads: int = 2  # documents that are read at the same time
    memory_bytes: int = 512 << 20  # of encoded passages, for each reader
