"""Commands for collections of documents: index, search, and what a collection holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import Changes, InFile, Json, Panel, RecipeName, Resume, app, train

kb = typer.Typer(help="What a collection holds, remove files from it, or measure it.", no_args_is_help=True)
app.add_typer(kb, name="kb", rich_help_panel=Panel.ASK)

Folder = Annotated[Path, typer.Argument(help="The folder of a collection.")]
Collection = Annotated[Path, typer.Option("--kb", help="The folder of a collection.")]
EncoderName = Annotated[
    str | None, typer.Option("--encoder", help="An encoder's folder, hub id or name (minilm, e5-small, bge-small-zh).")
]
Dense = Annotated[
    float | None, typer.Option(help="Weight of vectors against words, 0 (words alone) to 1 (vectors alone).")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="Filter: path, title, language, after, before (dates), or a record's field."
    ),
]


@app.command(rich_help_panel=Panel.ASK)
def index(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, globs; .jsonl is a document a line.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder of the collection.")] = Path("kb"),
    encoder: EncoderName = None,
    query_prefix: Annotated[str | None, typer.Option(help='Put before queries, such as "query: " for E5.')] = None,
    passage_prefix: Annotated[str | None, typer.Option(help='Put before passages, such as "passage: ".')] = None,
    part: Annotated[
        int | None,
        typer.Option(help="Tokens of a part of a passage (4, for example): each part gets its own vector."),
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="Keep the vectors in Milvus: http://host:19530, or a .db file of Milvus Lite.")
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the collection anew, with another encoder.")] = False,
    as_json: Json = False,
) -> None:
    """Make a collection of your documents, or bring it up to date: only what has changed is read.

    Without an encoder passages are found by their words alone. Without files, those of the last time are looked at.

    [dim]masquerade index contracts reports --out kb --encoder minilm[/dim]
    [dim]masquerade index --out kb[/dim]
    """
    from masquerade.cli.show.collections import index_files

    index_files(sources or [], out, encoder, query_prefix, passage_prefix, part, uri, rebuild, as_json)


@app.command(rich_help_panel=Panel.ASK)
def search(
    query: Annotated[str, typer.Argument(help="Words, or a question.")],
    folder: Collection,
    k: Annotated[int, typer.Option("--k", "-k", help="How many passages.")] = 5,
    where: Where = None,
    dense: Dense = None,
    encoder: EncoderName = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every stage with its time and scores.")] = False,
    as_json: Json = False,
) -> None:
    """Find passages of a collection by words and meaning.

    [dim]masquerade search "notice period" --kb kb --where path=contracts/2024[/dim]
    """
    from masquerade.cli.show.collections import show_found

    show_found(query, folder, k, where or [], dense, encoder, trace, as_json)


@app.command(rich_help_panel=Panel.LABEL)
def embed(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to encode.")] = None,
    encoder: Annotated[str, typer.Option("--encoder", "-e", help="An encoder's folder, hub id or name.")] = "minilm",
    source: InFile = None,
    out: Annotated[Path | None, typer.Option(help="A .npy file for the vectors, instead of JSON lines.")] = None,
    prefix: Annotated[str, typer.Option(help='Put before each text, such as "query: ".')] = "",
) -> None:
    """Print the vector of each text, as JSON lines, or save them all.

    [dim]masquerade embed "the notice period" --encoder minilm[/dim]
    [dim]masquerade embed --in sentences.txt --out vectors.npy --encoder models/my-encoder[/dim]
    """
    from masquerade.cli.show.collections import embed_texts

    embed_texts(texts or [], source, encoder, prefix, out)


@kb.command("info")
def kb_info(
    folder: Folder,
    files: Annotated[bool, typer.Option("--files", help="List the files.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a collection holds and how it is searched.

    [dim]masquerade kb info kb --files[/dim]
    """
    from masquerade.cli.show.collections import show_info

    show_info(folder, files, as_json)


@kb.command("remove")
def kb_remove(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(help="Files, folders or globs that are in the collection.")],
) -> None:
    """Remove files from a collection.

    [dim]masquerade kb remove kb "drafts/*"[/dim]
    """
    from masquerade.cli.show.collections import remove_files

    remove_files(folder, names)


@kb.command("eval")
def kb_eval(
    questions: Annotated[list[str], typer.Argument(help="JSON lines with question and answers, or a SQuAD file.")],
    folder: Collection,
    k: Annotated[int, typer.Option("--k", "-k", help="Passages that are read for an answer.")] = 10,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many questions, from the first on.")] = None,
    dense: Dense = None,
    read: Annotated[bool, typer.Option(help="Answer the questions too, not only search.")] = True,
    encoder: EncoderName = None,
    as_json: Json = False,
) -> None:
    """Measure how often a collection finds the passage with the answer, and how good its answers are.

    [dim]masquerade kb eval questions.jsonl --kb kb[/dim]
    """
    from masquerade.cli.show.collections import evaluate_collection

    evaluate_collection(questions, folder, k, limit, dense, read, encoder, as_json)


@train.command("rag")
def train_rag(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train RAG: a writer and the question encoder of a collection learn together from questions and answers.

    [dim]masquerade train rag rag start=t5 kb=kb train=questions.jsonl out=runs/rag[/dim]
    [dim]masquerade ask "Who signed it?" --kb kb --rag runs/rag[/dim]
    """
    from masquerade.cli.recipes import recipe_file
    from masquerade.memory.retrieval.rag_training import RagTraining, TrainRag
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainRag(read_recipe(recipe_file(recipe), RagTraining, changes or [])), resume).train()


@train.command("encoder")
def train_encoder(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train an encoder for search: on questions with passages, or on texts alone (task=cloze).

    [dim]masquerade train encoder encoder start=minilm train=questions.jsonl out=runs/encoder[/dim]
    [dim]masquerade index articles --out kb --encoder runs/encoder[/dim]
    """
    from masquerade.cli.recipes import recipe_file
    from masquerade.memory.retrieval.encoder_training import EncoderTraining, TrainEncoder
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainEncoder(read_recipe(recipe_file(recipe), EncoderTraining, changes or [])), resume).train()


@train.command("realm")
def train_realm(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train REALM: a reader and the retriever of a collection learn together, from texts or from questions.

    [dim]masquerade train realm realm start=bert kb=kb train=articles.jsonl out=runs/realm[/dim]
    [dim]masquerade train realm realm task=answers start=runs/realm kb=kb train=questions.jsonl out=runs/realm-qa[/dim]
    [dim]masquerade ask "Who signed it?" --kb kb --rag runs/realm-qa[/dim]
    """
    from masquerade.cli.recipes import recipe_file
    from masquerade.memory.retrieval.realm_training import RealmTraining, TrainRealm
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainRealm(read_recipe(recipe_file(recipe), RealmTraining, changes or [])), resume).train()
