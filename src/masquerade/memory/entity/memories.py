"""Knowledge bases: entities with their names and vectors, and facts about them, in a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.memory.entity.aliases import AliasMatcher, Mention, fold
from masquerade.memory.entity.graph_vectors import GRAPHS
from masquerade.memory.entity.new_base import VECTORS, alias_rows, blob, fill_folder
from masquerade.memory.entity.store import KnowledgeStore
from masquerade.memory.entity.vectors import Progress, TextVectors

LABELS = "labels"
VECTOR_KINDS = (LABELS, *GRAPHS)

Kind = TypeVar("Kind", bound="EntityMemory")


@dataclass(frozen=True)
class KnownEntity:
    """An entity as people see it. ``names`` are aliases with how often each means this entity."""

    key: str  # such as Q90; its label if nothing else is known
    label: str
    description: str = ""
    names: Mapping[str, float] = field(default_factory=dict)
    number: int = -1  # its row in the table of vectors; −1 before it is stored


@dataclass(frozen=True)
class Relation:
    """A relation as people see it."""

    key: str  # such as P36
    label: str
    number: int = -1


@dataclass(frozen=True)
class Fact:
    """A subject, a relation and the objects that the subject is related to."""

    subject: KnownEntity
    relation: Relation
    objects: tuple[KnownEntity, ...]

    def __str__(self) -> str:
        return f"{self.subject.label} — {self.relation.label} — {', '.join(each.label for each in self.objects)}"


class EntityMemory:
    """The entities of a knowledge base. Entities may be added, changed and removed at any time, by several processes;
    every reader sees the change the next time it looks."""

    def __init__(self, folder: str | Path, encoder: TextVectors | None = None) -> None:
        """Open a knowledge base. New entities need the encoder that made its vectors; if it is not given, it is loaded
        from where it was when the knowledge base was built."""
        self.folder = Path(folder).expanduser()
        self.store = KnowledgeStore(self.folder)
        self._encoder = encoder
        self._cached: dict[str, tuple[int, Any]] = {}
        tensors = load_file(self.folder / VECTORS)
        self._stored, self._relations, self.centre = tensors["entities"], tensors["relations"], tensors["centre"]

    @classmethod
    def create(
        cls: type[Kind],
        folder: str | Path,
        entities: Iterable[KnownEntity],
        encoder: TextVectors,
        relations: Iterable[Relation] = (),
        facts: Iterable[tuple[str, str, str]] = (),
        source: str = "",
        progress: Progress | None = None,
        vectors: str = LABELS,
    ) -> Kind:
        """Make a knowledge base in a folder: entities, relations, and facts as keys of subject, relation and object.
        ``source`` is the encoder's checkpoint. ``vectors`` is one of VECTOR_KINDS: those of labels and descriptions, or
        these trained on the facts. The folder appears when it is complete."""
        if vectors not in VECTOR_KINDS:
            raise MasqueradeError(f"There are no vectors '{vectors}'; choose from {', '.join(VECTOR_KINDS)}.")
        target = Path(folder).expanduser()
        if target.exists():
            raise MasqueradeError(f"'{folder}' is there already; choose another folder, or remove it first.")
        fresh = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            fresh.mkdir(parents=True)
            graph = "" if vectors == LABELS else vectors
            fill_folder(fresh, list(entities), list(relations), facts, encoder, source, progress, graph)
            os.replace(fresh, target)
        except OSError as error:
            raise MasqueradeError(f"The knowledge base '{folder}' cannot be written: {error.strerror}.") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return cls(target, encoder)

    def close(self) -> None:
        """Close the knowledge base."""
        self.store.close()

    def __len__(self) -> int:
        """The number of entities, without removed ones."""
        return int(self.store.value("SELECT COUNT(*) FROM entity WHERE NOT removed"))

    # what networks read

    def vectors(self) -> Tensor:
        """Entity vectors: (entities, width). Those of removed entities are zero."""
        found: Tensor = self._at_entity_version("entities", lambda: self._with_changes("entity", self._stored))
        return found

    def relation_vectors(self) -> Tensor:
        """Vectors of the relations: (relations, width)"""
        found: Tensor = self._at_entity_version("relations", lambda: self._with_changes("relation", self._relations))
        return found

    def find(self, text: str) -> list[Mention]:
        """The names of entities in a text, from left to right, without overlaps."""
        matcher: AliasMatcher = self._at_entity_version("matcher", self._matcher)
        return matcher.find(text)

    def candidates(self, name: str) -> tuple[tuple[int, float], ...]:
        """The entities that a name may mean, with their prior probabilities, the most frequent first."""
        matcher: AliasMatcher = self._at_entity_version("matcher", self._matcher)
        return matcher.by_name.get(fold(name), ())

    # what people read and change

    def entity(self, name: str | int) -> KnownEntity:
        """An entity by its number, its key, its label or another name; an error if there is none or more than one."""
        if isinstance(name, int):
            rows = self.store.rows("SELECT number, key, label, description FROM entity WHERE number = ?", (name,))
        else:
            rows = self._named(name)
        if not rows:
            raise MasqueradeError(f"There is no entity '{name}' in {self.folder}; add it first, or check the spelling.")
        if len(rows) > 1:
            known = ", ".join(f"{key} ({label})" for _, key, label, _ in rows[:5])
            raise MasqueradeError(f"'{name}' may mean {known}; name one by its key.")
        number, key, label, description = rows[0]
        names = dict(self.store.rows("SELECT text, count FROM alias WHERE entity = ?", (number,)))
        return KnownEntity(key, label, description, names, number)

    def knows(self, name: str) -> bool:
        """Whether there is an entity of this key, label or name."""
        return bool(self._named(name))

    def removed(self) -> list[int]:
        """The numbers of removed entities."""
        return [number for (number,) in self.store.rows("SELECT number FROM entity WHERE removed")]

    def label(self, number: int) -> str:
        """The label of an entity, by its number."""
        found = self.store.value("SELECT label FROM entity WHERE number = ?", (int(number),))
        return "" if found is None else str(found)

    def add_entity(
        self, label: str, key: str = "", description: str = "", names: Mapping[str, float] | Sequence[str] = ()
    ) -> KnownEntity:
        """Add an entity; its key is its label if none is given."""
        if not label.strip():
            raise MasqueradeError("An entity needs a label; give one that is not empty.")
        key = key or label
        vector = blob(self.encoder([(label, description)])[0])
        with self.store.change() as connection:
            if connection.execute("SELECT 1 FROM entity WHERE key = ? AND NOT removed", (key,)).fetchone():
                raise MasqueradeError(f"There is an entity '{key}' already in {self.folder}; edit it instead.")
            (removed,) = connection.execute("SELECT COUNT(*) FROM entity WHERE key = ?", (key,)).fetchone()
            if removed:  # its number stays its own
                connection.execute(
                    "UPDATE entity SET label = ?, description = ?, removed = 0, vector = ? WHERE key = ?",
                    (label, description, vector, key),
                )
            else:
                connection.execute(
                    "INSERT INTO entity (number, key, label, description, vector) "
                    "SELECT COALESCE(MAX(number), -1) + 1, ?, ?, ?, ? FROM entity",
                    (key, label, description, vector),
                )
            (number,) = connection.execute("SELECT number FROM entity WHERE key = ?", (key,)).fetchone()
            connection.executemany("INSERT OR REPLACE INTO alias VALUES (?, ?, ?)", alias_rows(number, label, names))
        return self.entity(int(number))

    def edit_entity(
        self,
        name: str | int,
        label: str | None = None,
        description: str | None = None,
        names: Mapping[str, float] | Sequence[str] = (),
    ) -> KnownEntity:
        """Change an entity's label or description, whose vector follows, and add further names."""
        old = self.entity(name)
        new = (label or old.label, old.description if description is None else description)
        vector = blob(self.encoder([new])[0]) if new != (old.label, old.description) else None
        with self.store.change() as connection:
            connection.execute("UPDATE entity SET label = ?, description = ? WHERE number = ?", (*new, old.number))
            if vector is not None:
                connection.execute("UPDATE entity SET vector = ? WHERE number = ?", (vector, old.number))
            more = alias_rows(old.number, new[0], names)
            connection.executemany("INSERT INTO alias VALUES (?, ?, ?) ON CONFLICT DO NOTHING", more)
        return self.entity(old.number)

    def remove_entity(self, name: str | int) -> None:
        """Remove an entity with its names, and every fact that it is the subject or an object of."""
        number = self.entity(name).number
        with self.store.change() as connection:
            connection.execute("UPDATE entity SET removed = 1 WHERE number = ?", (number,))
            connection.execute("DELETE FROM alias WHERE entity = ?", (number,))
            connection.execute("DELETE FROM fact WHERE subject = ? OR object = ?", (number, number))

    @property
    def encoder(self) -> TextVectors:
        """The encoder that makes vectors of new entities."""
        if self._encoder is None:
            source = self.store.meta("encoder")
            if not source or (Path(source).is_absolute() and not Path(source).exists()):
                raise MasqueradeError(
                    f"The encoder of {self.folder} ('{source}') is not where it was; give its folder."
                )
            self._encoder = TextVectors.load(source)
        if self._encoder.width != self._stored.shape[1]:
            raise MasqueradeError(
                f"{self.folder} has vectors of {self._stored.shape[1]} numbers, but the encoder makes "
                f"{self._encoder.width}; give the encoder that it was built with."
            )
        self._encoder.centre = self.centre
        return self._encoder

    def _named(self, name: str) -> list[tuple[Any, ...]]:
        """Number, key, label and description of the entities that a name means: by key, else by label, else by any
        other name."""
        columns = "SELECT number, key, label, description FROM entity WHERE NOT removed AND"
        by_name = f"{columns} number IN (SELECT entity FROM alias WHERE text = ?) ORDER BY number"
        for query, value in (
            (f"{columns} key = ?", name),
            (f"{columns} label = ? ORDER BY number", name),
            (by_name, fold(name)),
        ):
            if rows := self.store.rows(query, (value,)):
                return rows
        return []

    def _matcher(self) -> AliasMatcher:
        aliases: dict[str, list[tuple[int, float]]] = {}
        for text, number, count in self.store.rows("SELECT text, entity, count FROM alias ORDER BY text, entity"):
            aliases.setdefault(text, []).append((number, count))
        return AliasMatcher(aliases)

    def _with_changes(self, table: str, stored: Tensor) -> Tensor:
        """The stored vectors, with those that were added or changed later."""
        count = int(self.store.value(f"SELECT COALESCE(MAX(number), -1) + 1 FROM {table}"))
        vectors = torch.zeros(count, stored.shape[1])
        vectors[: len(stored)] = stored[:count]
        for number, stored_bytes in self.store.rows(f"SELECT number, vector FROM {table} WHERE vector IS NOT NULL"):
            vectors[number] = torch.from_numpy(np.frombuffer(stored_bytes, dtype=np.float32).copy())
        if table == "entity":
            vectors[self.removed()] = 0.0
        return vectors

    def _at_version(self, name: str, make: Callable[[], Any]) -> Any:
        """Something made of the knowledge base, made again after a change."""
        return self._made(name, make, self.store.version)

    def _at_entity_version(self, name: str, make: Callable[[], Any]) -> Any:
        """Something made of entities or relations, made again after a change of these, but not of facts."""
        return self._made(name, make, self.store.entity_version)

    def _made(self, name: str, make: Callable[[], Any], version: int) -> Any:
        if name not in self._cached or self._cached[name][0] != version:
            self._cached[name] = (version, make())
        return self._cached[name][1]
