"""The command that starts the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import Panel, app

Paths = list[str] | None


@app.command(rich_help_panel=Panel.ASK)
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on. 127.0.0.1: this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 8765,
    reader: Annotated[
        Paths, typer.Option(metavar="NAME=PATH", help="A reader; by default those that are shipped.")
    ] = None,
    kb: Annotated[Paths, typer.Option(metavar="NAME=PATH", help="A collection made by 'index'.")] = None,
    fill: Annotated[Paths, typer.Option(metavar="NAME=PATH", help="A model that fills [MASK]s.")] = None,
    generate: Annotated[Paths, typer.Option(metavar="NAME=PATH", help="A model that continues texts.")] = None,
    writer: Annotated[Paths, typer.Option(metavar="NAME=PATH", help="A model of 'train writer'.")] = None,
    encoder: Annotated[Paths, typer.Option(metavar="NAME=PATH", help="A model for vectors of texts.")] = None,
    facts: Annotated[
        Paths,
        typer.Option(metavar="NAME=MODEL:KB", help="A model of 'train entities' and its knowledge base."),
    ] = None,
    keep_facts: Annotated[
        bool, typer.Option("--keep-facts", help="Write changed facts to the knowledge base; otherwise to a copy.")
    ] = False,
    share_weights: Annotated[
        Path | None, typer.Option(help="A folder for weights that several processes of this machine map.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token that requests need. Also: MASQUERADE_TOKEN.")
    ] = None,
    allowed_host: Annotated[
        Paths, typer.Option(help="A host name that requests may be sent to, beside localhost.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="The time limit of a request.")] = 60.0,
    queue_tokens: Annotated[int, typer.Option(min=1, help="Tokens that may wait; further requests get 429.")] = 400_000,
    request_tokens: Annotated[int, typer.Option(min=1, help="Tokens that one request may have.")] = 200_000,
    wait: Annotated[float, typer.Option(min=0, help="Milliseconds that a request waits for others to join it.")] = 4.0,
    memory: Annotated[int, typer.Option(min=0, help="Megabytes of encoded passages that a reader keeps.")] = 512,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Processor threads; by default as PyTorch chooses.")
    ] = None,
    batching: Annotated[bool, typer.Option(help="Run requests together.")] = True,
) -> None:
    """Serve the models over HTTP, with a page for people: ask documents, search collections, look at masks.

    Models are given as NAME=PATH, or as a PATH whose last part is the name; each option may be given several times.
    The page is at http://127.0.0.1:8765/, the description of the API at /openapi.json. Users' texts are never logged.

    [dim]masquerade serve[/dim]
    [dim]masquerade serve --kb notes=kb --encoder minilm --port 9000[/dim]
    [dim]curl --json '{"question": "Who sat?", "passages": ["Ann sat."]}' http://127.0.0.1:8765/v1/answer[/dim]
    """
    from masquerade.cli.show.serving import ServeOptions, run_service

    run_service(
        ServeOptions(
            host, port, reader or [], kb or [], fill or [], generate or [], writer or [], encoder or [], facts or [],
            keep_facts, share_weights, token_file, allowed_host or [], seconds, queue_tokens, request_tokens, wait,
            memory, threads, batching,
        )
    )  # fmt: skip
