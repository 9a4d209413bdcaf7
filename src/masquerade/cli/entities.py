"""Commands for knowledge bases: build, show, search and change entities and facts; train networks that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import Changes, Json, Panel, RecipeName, Resume, app, train

entities = typer.Typer(help="Knowledge bases: entities, their names, and facts about them.", no_args_is_help=True)
app.add_typer(entities, name="entities", rich_help_panel=Panel.LABEL)

Base = Annotated[Path, typer.Argument(help="The folder of a knowledge base.", metavar="KB")]
Encoder = Annotated[
    str | None, typer.Option("--model", "-m", help="The encoder of the vectors; by default, as the KB was built.")
]
Names = Annotated[list[str] | None, typer.Option("--alias", help="A further name; may be given several times.")]


@entities.command("build")
def build_base(
    sources: Annotated[list[str], typer.Argument(help="JSON lines of facts, entities, relations or articles.")],
    out: Annotated[Path, typer.Option(help="The folder of the new knowledge base.")],
    model: Annotated[str, typer.Option("--model", "-m", help="The encoder that makes vectors of labels.")],
    vectors: Annotated[
        str, typer.Option(help="labels, or transe or distmult: those of labels, trained on the graph of facts.")
    ] = "labels",
) -> None:
    """Build a knowledge base from facts (subject, relation, object) or from articles (title, text).

    [dim]masquerade entities build facts.jsonl relations.json --model minilm --out kb[/dim]
    """
    from masquerade.cli.show.entities import show_build

    show_build(sources, out, model, vectors)


@entities.command("show")
def show(
    base: Base,
    name: Annotated[str | None, typer.Argument(help="An entity; by default, what the KB holds.")] = None,
    as_json: Json = False,
) -> None:
    """Show an entity with its names and facts, or the size of the knowledge base.

    [dim]masquerade entities show kb Paris[/dim]
    """
    from masquerade.cli.show.entities import show_entity

    show_entity(base, name, as_json)


@entities.command("find")
def find(
    base: Base,
    text: Annotated[str, typer.Argument(help="A text.")],
    as_json: Json = False,
) -> None:
    """Find the names of entities in a text, with the entities that each may mean.

    [dim]masquerade entities find kb "He was born in Paris."[/dim]
    """
    from masquerade.cli.show.entities import show_mentions

    show_mentions(base, text, as_json)


@entities.command("add")
def add(
    base: Base,
    names: Annotated[list[str], typer.Argument(help="Subject, relation and objects; or a new entity's label.")],
    key: Annotated[str, typer.Option(help="The key of a new entity.")] = "",
    description: Annotated[str, typer.Option(help="The description of a new entity.")] = "",
    alias: Names = None,
    new: Annotated[bool, typer.Option("--new", help="Add entities and the relation that do not exist yet.")] = False,
    model: Encoder = None,
) -> None:
    """Add a fact, or an entity.

    [dim]masquerade entities add kb "Marie Curie" "place of birth" Warsaw[/dim]
    [dim]masquerade entities add kb "Marie Curie" --alias "Maria Skłodowska" --description "physicist"[/dim]
    """
    from masquerade.cli.show.entities import add_entity, add_fact

    if len(names) == 1:
        add_entity(base, names[0], key, description, alias or [], model)
    else:
        add_fact(base, names, new, model)


@entities.command("edit")
def edit(
    base: Base,
    names: Annotated[list[str], typer.Argument(help="Subject, relation and the objects it has now; or an entity.")],
    label: Annotated[str | None, typer.Option(help="The new label of an entity.")] = None,
    description: Annotated[str | None, typer.Option(help="The new description of an entity.")] = None,
    alias: Names = None,
    model: Encoder = None,
) -> None:
    """Change the objects of a fact, or an entity's label, description and names.

    [dim]masquerade entities edit kb "Marie Curie" "place of birth" Paris[/dim]
    """
    from masquerade.cli.show.entities import edit_entity, edit_fact

    if len(names) == 1:
        edit_entity(base, names[0], label, description, alias or [], model)
    else:
        edit_fact(base, names)


@entities.command("remove")
def remove(
    base: Base,
    names: Annotated[list[str], typer.Argument(help="Subject and relation, or also objects; or an entity.")],
) -> None:
    """Remove a fact, some of its objects, or an entity with all of its facts.

    [dim]masquerade entities remove kb "Marie Curie" "place of birth"[/dim]
    """
    from masquerade.cli.show.entities import remove_entity, remove_fact

    if len(names) == 1:
        remove_entity(base, names[0])
    else:
        remove_fact(base, names)


@train.command("entities")
def train_entities(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train an encoder with a memory of entities or facts, from linked texts and a knowledge base.

    Records have text and mentions (start, end, id), and may have a [MASK] with answer, subject and relation; T-REx and
    FewRel files are read as they are.

    [dim]masquerade train entities entities start=minilm memory=kb train=trex.jsonl out=runs/facts[/dim]
    """
    from masquerade.cli.recipes import recipe_file
    from masquerade.memory.entity.training import EntityTraining, TrainEntities
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainEntities(read_recipe(recipe_file(recipe), EntityTraining, changes or [])), resume).train()
