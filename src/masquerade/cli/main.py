"""The entry point: every group of commands, and errors in one sentence."""

from __future__ import annotations

import atexit
import gc
import sys

from masquerade.cli import (  # noqa: F401  (their commands register themselves)
    collections,
    entities,
    labelling,
    models,
    reading,
    serve,
    working,
    writers,
    writing,
)
from masquerade.cli.app import Panel, app
from masquerade.cli.show.output import escape_what_cannot_be_shown, note_on_escapes
from masquerade.errors import MasqueradeError

EXTRAS = {  # which extra of the package installs a module
    "accelerate": "train",
    "datasets": "train",
    "jieba": "train",
    "matplotlib": "train",
    "tensorboard": "train",
    "ahocorasick_rs": "entities",
    "charset_normalizer": "documents",
    "docx": "documents",
    "pypdfium2": "documents",
    "selectolax": "documents",
    "faiss": "retrieval",
    "Stemmer": "retrieval",
    "tantivy": "retrieval",
    "sacrebleu": "write",
    "fastapi": "serve",
    "prometheus_client": "serve",
    "uvicorn": "serve",
    "transformers": "dev",
}

app.registered_commands.sort(key=lambda command: [*Panel].index(Panel(str(command.rich_help_panel))))


def main() -> None:
    """Run a command. Errors that the user can act on are printed in one sentence."""
    gc.set_threshold(1_000_000)  # importing torch makes a million objects, none of which is garbage,
    atexit.register(gc.freeze)  # and searching them once more when the process ends takes as long again
    escape_what_cannot_be_shown()
    try:
        app()
    except MasqueradeError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in ("", "masquerade"):
            raise
        _stop(f"This needs the package '{module}'; install it with pip install {_package(module)}.")
    finally:
        _leave_processes()
        if note := note_on_escapes():
            print(f"masquerade: {note}", file=sys.stderr)


def _leave_processes() -> None:
    """Leave the group of processes that Accelerate or torchrun has started, if this is one of them: its threads abort
    a process that ends while they run."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _stop(sentence: str) -> None:
    print(f"masquerade: {sentence}", file=sys.stderr)
    sys.exit(1)


def _package(module: str) -> str:
    """What to install for a module that is missing."""
    return f"'masquerade[{EXTRAS[module]}]'" if module in EXTRAS else module
