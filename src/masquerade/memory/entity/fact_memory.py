"""The facts of a knowledge base, added, changed and removed at run time."""

from __future__ import annotations

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.memory.entity.facts import NONE
from masquerade.memory.entity.memories import EntityMemory, Fact, Relation
from masquerade.memory.entity.new_base import blob


class FactMemory(EntityMemory):
    """Entities and the facts about them. A network that the memory is attached to follows a change of the facts without
    training."""

    def fact_tensors(self) -> tuple[Tensor, Tensor]:
        """Subject and relation of each fact (facts, 2), and its objects (facts, most), −1 at padding."""
        found: tuple[Tensor, Tensor] = self._at_version("facts", self._tensors)
        return found

    def fact(self, number: int) -> Fact:
        """A fact by its row in ``fact_tensors``."""
        keys, objects = self.fact_tensors()
        subject, relation = keys[number].tolist()
        things = tuple(self.entity(thing) for thing in objects[number].tolist() if thing != NONE)
        return Fact(self.entity(subject), self._relation_at(relation), things)

    def row(self, subject: int, relation: int) -> int | None:
        """The row of a subject and a relation in ``fact_tensors``, by their numbers; None if there is no such fact."""
        rows: dict[tuple[int, int], int] = self._at_version("rows", self._rows)
        return rows.get((subject, relation))

    def facts(self, name: str | int, as_object: bool = False) -> list[Fact]:
        """The facts about an entity, or with ``as_object`` those that it is an object of."""
        number, side = self.entity(name).number, "object" if as_object else "subject"
        keys = self.store.rows(
            f"SELECT DISTINCT subject, relation FROM fact WHERE {side} = ? ORDER BY subject, relation", (number,)
        )
        return [self._fact(subject, relation) for subject, relation in keys]

    def count(self) -> int:
        """The number of facts, one for each subject and relation."""
        return int(self.store.value("SELECT COUNT(*) FROM (SELECT DISTINCT subject, relation FROM fact)"))

    def relation(self, name: str) -> Relation:
        """A relation by its key or label; an error that lists some if there is none."""
        rows = self.store.rows("SELECT key, label, number FROM relation WHERE key = ?", (name,))
        rows = rows or self.store.rows("SELECT key, label, number FROM relation WHERE label = ?", (name,))
        if not rows:
            known = ", ".join(each.label for each in self.relations()[:8]) or "none at all"
            raise MasqueradeError(f"There is no relation '{name}' in {self.folder}; it has {known}.")
        return Relation(*rows[0])

    def relations(self) -> list[Relation]:
        """All relations, in the order of their numbers."""
        return [Relation(*row) for row in self.store.rows("SELECT key, label, number FROM relation ORDER BY number")]

    def add_relation(self, label: str, key: str = "") -> Relation:
        """Add a relation, or give the one that has this key already."""
        if not label.strip():
            raise MasqueradeError("A relation needs a label; give one that is not empty.")
        key, vector = key or label, blob(self.encoder([(label, "")])[0])
        with self.store.change() as connection:
            connection.execute(
                "INSERT INTO relation (number, key, label, vector) "
                "SELECT COALESCE(MAX(number), -1) + 1, ?, ?, ? FROM relation WHERE true ON CONFLICT DO NOTHING",
                (key, label, vector),
            )
        return self.relation(key)

    def add(self, subject: str | int, relation: str, *objects: str | int) -> Fact:
        """Add objects to a fact, which need not exist yet."""
        return self._write(subject, relation, objects, instead=False)

    def change(self, subject: str | int, relation: str, *objects: str | int) -> Fact:
        """Put these objects in the place of those that the fact has."""
        return self._write(subject, relation, objects, instead=True)

    def remove(self, subject: str | int, relation: str, *objects: str | int) -> int:
        """Remove these objects of a fact, or all of them if none is named; returns how many went."""
        keys = self.entity(subject).number, self.relation(relation).number
        numbers = [self.entity(each).number for each in objects]
        with self.store.change(facts_alone=True) as connection:
            before = connection.total_changes
            if numbers:
                query = "DELETE FROM fact WHERE subject = ? AND relation = ? AND object = ?"
                connection.executemany(query, [(*keys, number) for number in numbers])
            else:
                connection.execute("DELETE FROM fact WHERE subject = ? AND relation = ?", keys)
            return connection.total_changes - before

    def _write(self, subject: str | int, relation: str, objects: tuple[str | int, ...], instead: bool) -> Fact:
        if not objects:
            raise MasqueradeError("A fact needs an object; name one, or remove the fact.")
        keys = self.entity(subject).number, self.relation(relation).number
        numbers = [self.entity(each).number for each in objects]
        with self.store.change(facts_alone=True) as connection:
            if instead:
                connection.execute("DELETE FROM fact WHERE subject = ? AND relation = ?", keys)
            rows = [(*keys, number) for number in numbers]
            connection.executemany("INSERT OR IGNORE INTO fact VALUES (?, ?, ?)", rows)
        return self._fact(*keys)

    def _fact(self, subject: int, relation: int) -> Fact:
        query = "SELECT object FROM fact WHERE subject = ? AND relation = ? ORDER BY object"
        things = tuple(self.entity(thing) for (thing,) in self.store.rows(query, (subject, relation)))
        return Fact(self.entity(subject), self._relation_at(relation), things)

    def _relation_at(self, number: int) -> Relation:
        return Relation(*self.store.rows("SELECT key, label, number FROM relation WHERE number = ?", (number,))[0])

    def _tensors(self) -> tuple[Tensor, Tensor]:
        facts: dict[tuple[int, int], list[int]] = {}
        query = "SELECT subject, relation, object FROM fact ORDER BY subject, relation, object"
        for subject, relation, thing in self.store.rows(query):
            facts.setdefault((subject, relation), []).append(thing)
        most = max(map(len, facts.values()), default=1)
        padded = [things + [NONE] * (most - len(things)) for things in facts.values()]
        keys = torch.tensor(list(facts), dtype=torch.long).view(-1, 2)
        return keys, torch.tensor(padded, dtype=torch.long).view(-1, most)

    def _rows(self) -> dict[tuple[int, int], int]:
        keys = self.fact_tensors()[0].tolist()
        return {(subject, relation): row for row, (subject, relation) in enumerate(keys)}
