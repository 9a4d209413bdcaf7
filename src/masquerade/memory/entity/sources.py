"""What knowledge bases are built from: facts as JSON lines, and articles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.memories import LABELS, KnownEntity, Relation
from masquerade.memory.entity.vectors import Progress, TextVectors

DESCRIPTION = 300  # characters of a description
OWN_TITLE = 10.0  # how often a whole title counts as a name, beside a title without its "(…)"


class Gathered:
    """Entities, relations and facts as they are read, by key."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.descriptions: dict[str, str] = {}
        self.names: dict[str, Counter[str]] = {}
        self.relations: dict[str, str] = {}
        self.facts: dict[tuple[str, str, str], None] = {}

    @staticmethod
    def of(sources: Iterable[str]) -> Gathered:
        """What the records of some files say."""
        gathered = Gathered()
        for source in sources:
            gathered.read(source)
        return gathered

    def read(self, source: str) -> None:
        """Take over what the records of a file say: facts, entities, relations or articles."""
        for number, record in enumerate(read_records(source), start=1):
            try:
                self.add(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise MasqueradeError(
                    f"Record {number} of {source} is no fact, entity, relation or article ({error}); a fact has "
                    "'subject', 'relation' and 'object', an entity 'id' and 'label', an article 'title' and 'text'."
                ) from error

    def add(self, record: Mapping[str, Any]) -> None:
        """Take over one record."""
        if "sub_uri" in record:  # as LAMA writes T-REx
            evidence = record.get("evidences", [])
            subject = {"id": record["sub_uri"], "label": record["sub_label"],
                       "aliases": [each["sub_surface"] for each in evidence]}  # fmt: skip
            thing = {"id": record["obj_uri"], "label": record["obj_label"],
                     "aliases": [each["obj_surface"] for each in evidence]}  # fmt: skip
            self._fact(subject, record["predicate"], thing)
        elif "subject" in record:
            relation = {"id": record["relation"], "label": record["relation_label"]} if (
                "relation_label" in record) else record["relation"]  # fmt: skip
            self._fact(record["subject"], relation, record["object"])
        elif "relation" in record:
            self._relation({"id": record["relation"], **record})
        elif "title" in record and "text" in record:
            self._article(str(record["title"]).strip(), str(record["text"]).strip())
        else:
            self._entity(record)

    def entities(self) -> list[KnownEntity]:
        """All entities, in the order in which they were first read."""
        return [
            KnownEntity(key, label, self.descriptions.get(key, ""), self.names[key])
            for key, label in self.labels.items()
        ]

    def _fact(self, subject: Any, relation: Any, thing: Any) -> None:
        self.facts[self._entity(subject), self._relation(relation), self._entity(thing)] = None

    def _entity(self, given: Any) -> str:
        """An entity from its label alone, or from id, label, aliases and description; its key is returned."""
        about = {"label": given} if isinstance(given, str) else given
        key, label = str(about.get("id") or about["label"]), str(about.get("label") or about["id"]).strip()
        if not key or not label:
            raise ValueError("an entity without a name")
        known = self.labels.setdefault(key, label)
        names = self.names.setdefault(key, Counter())
        names[label] += 1
        if known != label:
            names[known] += 0
        aliases = about.get("aliases", [])
        if isinstance(aliases, Mapping) and any(not count > 0 for count in aliases.values()):
            raise ValueError("a name needs a count above 0")
        names.update(Counter(aliases) if not isinstance(aliases, Mapping) else dict(aliases))
        if about.get("description"):
            self.descriptions[key] = str(about["description"])[:DESCRIPTION]
        return key

    def _relation(self, given: Any) -> str:
        about = {"label": given} if isinstance(given, str) else given
        key, label = str(about.get("id") or about["label"]), str(about.get("label") or about["id"])
        if self.relations.get(key, key) == key:  # a label is better than a key
            self.relations[key] = label
        return key

    def _article(self, title: str, text: str) -> None:
        """An article is an entity: its title and its first sentences."""
        first = text.split("\n", 1)[0]
        bare = title.split(" (")[0].split("（")[0]
        names = {title: OWN_TITLE} | ({bare: 1.0} if bare != title else {})
        self._entity({"id": title, "label": bare or title, "aliases": names, "description": first})


def create(
    gathered: Gathered,
    out: str | Path,
    encoder: TextVectors,
    origin: str = "",
    progress: Progress | None = None,
    vectors: str = LABELS,
) -> FactMemory:
    """Make a knowledge base of what was gathered, in the folder ``out``. ``origin`` is the encoder's checkpoint, which
    later additions need; ``progress`` is told how many entities each pass has done; ``vectors`` is one of
    VECTOR_KINDS."""
    if not gathered.labels:
        raise MasqueradeError("There is no entity in these files, so there is no knowledge base to build.")
    relations = [Relation(key, label) for key, label in gathered.relations.items()]
    return FactMemory.create(out, gathered.entities(), encoder, relations, gathered.facts, origin, progress, vectors)


def build(
    sources: Iterable[str], out: str | Path, encoder: TextVectors, origin: str = "", vectors: str = LABELS
) -> FactMemory:
    """Make a knowledge base in the folder ``out`` from files of facts, entities, relations or articles."""
    return create(Gathered.of(sources), out, encoder, origin, vectors=vectors)
