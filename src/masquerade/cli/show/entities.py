"""What the commands of ``masquerade entities`` print, and ``fill`` with a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.checkpoints.folders import load
from masquerade.cli.show.output import print_json
from masquerade.errors import MasqueradeError
from masquerade.memory.entity.drawn import draw_recalled
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.memories import LABELS, KnownEntity
from masquerade.memory.entity.recall import FilledBlank, Recalled, fill_with_memory
from masquerade.memory.entity.sources import Gathered, create
from masquerade.memory.entity.vectors import TextVectors
from masquerade.progress import progress_bar


def show_build(sources: Sequence[str], out: Path, model: str, vectors: str) -> None:
    """Build a knowledge base and print its size."""
    gathered = Gathered.of(sources)
    encoder = TextVectors.load(model)
    with progress_bar("entities", len(gathered.labels)) as done:
        memory = create(gathered, out, encoder, model, done, vectors)
    print(f"{out}: {len(memory):,} entities, {len(memory.relations()):,} relations, {memory.count():,} facts")


def show_entity(base: Path, name: str | None, as_json: bool) -> None:
    """Print an entity with its facts, or without a name the size of the knowledge base."""
    memory = FactMemory(base)
    if name is None:
        relations = memory.relations()
        made = memory.store.meta("vectors", LABELS)
        if as_json:
            labels = [each.label for each in relations]
            print_json({"entities": len(memory), "facts": memory.count(), "relations": labels, "vectors": made})
            return
        print(f"{base}: {len(memory):,} entities, {memory.count():,} facts, {len(relations):,} relations, "
              f"vectors of {made}")  # fmt: skip
        for each in relations:
            print(f"  {each.key}  {each.label}")
        return
    entity = memory.entity(name)
    facts, uses = memory.facts(entity.number), memory.facts(entity.number, as_object=True)
    if as_json:
        print_json(
            {**_plain(entity), "facts": [str(each) for each in facts], "object_of": [str(each) for each in uses]}
        )
        return
    print(f"{entity.key}  {entity.label}" + (f": {entity.description}" if entity.description else ""))
    print("names: " + ", ".join(f"{text} ({count:g})" for text, count in entity.names.items()))
    for fact in [*facts, *uses]:
        print(f"  {fact}")


def show_mentions(base: Path, text: str, as_json: bool) -> None:
    """Print the names that a text holds, with the best entities of each."""
    memory = FactMemory(base)
    found = memory.find(text)
    if as_json:
        listed = [
            {"text": each.text, "start": each.start, "end": each.end,
             "candidates": [{"key": memory.entity(number).key, "label": memory.label(number), "prior": prior}
                            for number, prior in each.candidates]}
            for each in found
        ]  # fmt: skip
        print_json({"mentions": listed})
        return
    for each in found:
        best = ", ".join(f"{memory.label(number)} {prior:.0%}" for number, prior in each.candidates[:5])
        print(f"{each.start}–{each.end}  {each.text}: {best}")


def add_entity(base: Path, label: str, key: str, description: str, aliases: Sequence[str], model: str | None) -> None:
    """Add an entity and print it."""
    entity = _opened(base, model).add_entity(label, key, description, aliases)
    print(f"added {entity.key}  {entity.label}")


def add_fact(base: Path, names: Sequence[str], new: bool, model: str | None) -> None:
    """Add a fact and print it."""
    subject, relation, things = _fact(names)
    memory = _opened(base, model)
    if new:
        for name in (subject, *things):
            _known_or_added(memory, name)
        try:
            memory.relation(relation)
        except MasqueradeError:
            memory.add_relation(relation)
    print(f"added {memory.add(subject, relation, *things)}")


def edit_entity(
    base: Path, name: str, label: str | None, description: str | None, aliases: Sequence[str], model: str | None
) -> None:
    """Change an entity and print it."""
    if label is None and description is None and not aliases:
        raise MasqueradeError("There is nothing to change; give --label, --description or --alias, or a whole fact.")
    entity = _opened(base, model).edit_entity(name, label, description, aliases)
    print(f"changed {entity.key}  {entity.label}")


def edit_fact(base: Path, names: Sequence[str]) -> None:
    """Change the objects of a fact and print it."""
    subject, relation, things = _fact(names)
    print(f"changed {FactMemory(base).change(subject, relation, *things)}")


def remove_entity(base: Path, name: str) -> None:
    """Remove an entity."""
    FactMemory(base).remove_entity(name)
    print(f"removed {name}")


def remove_fact(base: Path, names: Sequence[str]) -> None:
    """Remove a fact or some of its objects."""
    count = FactMemory(base).remove(names[0], names[1], *names[2:])
    if not count:
        raise MasqueradeError(f"{base} has no such fact: {' — '.join(names)}; 'entities show' lists what there is.")
    print(f"removed {count} of {' — '.join(names[:2])}")


def show_recalled(model: str, memory: Path, text: str, top: int, as_json: bool, picture: Path | None) -> None:
    """Print a text with its [MASK] tokens filled by a network with a memory: answers, links and facts."""
    found = fill_with_memory(load(model), FactMemory(memory), text, top)
    if picture is not None:
        draw_recalled(found, text, picture)
    if as_json:
        print_json(asdict(found))
        return
    console = Console(highlight=False)
    console.print(found.text, markup=False)
    for number, blank in enumerate(found.blanks, start=1):
        _print_blank(console, f"[MASK] {number} of {len(found.blanks)}", blank)
    _print_links(console, found)


def _print_blank(console: Console, title: str, blank: FilledBlank) -> None:
    table = Table("answer", "key", "probability", title=Text(title), title_justify="left")
    for answer in blank.answers:
        table.add_row(Text(answer.text), answer.key, f"{answer.probability:.1%}")
    console.print(table)
    if blank.facts:
        console.print(f"facts (read with '{blank.subject}'; none: {blank.no_fact:.1%})", markup=False)
        for used in blank.facts:
            console.print(f"  {used.weight:.1%}  {used.fact}", markup=False)


def _print_links(console: Console, found: Recalled) -> None:
    for each in found.links:
        said = f"{each.text} → {each.label} ({each.key}, {each.probability:.1%})"
        console.print(f"link: {said}", markup=False)


def _opened(base: Path, model: str | None) -> FactMemory:
    """A knowledge base, with another encoder than its own if one is given."""
    return FactMemory(base, None if model is None else TextVectors.load(model))


def _known_or_added(memory: FactMemory, name: str) -> None:
    if not memory.knows(name):
        memory.add_entity(name)


def _fact(names: Sequence[str]) -> tuple[str, str, list[str]]:
    """Subject, relation and objects."""
    if len(names) < 3:
        raise MasqueradeError("A fact has a subject, a relation and an object; give all three.")
    return names[0], names[1], list(names[2:])


def _plain(entity: KnownEntity) -> dict[str, Any]:
    return {"key": entity.key, "label": entity.label, "description": entity.description, "names": dict(entity.names)}
