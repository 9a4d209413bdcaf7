"""The files of a new knowledge base, and rows of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor

from masquerade.memory.entity.aliases import fold
from masquerade.memory.entity.graph_vectors import train_graph
from masquerade.memory.entity.store import KnowledgeStore
from masquerade.memory.entity.vectors import Progress, TextVectors

if TYPE_CHECKING:
    from masquerade.memory.entity.memories import KnownEntity, Relation

VECTORS = "vectors.safetensors"


def fill_folder(
    folder: Path,
    entities: Sequence[KnownEntity],
    relations: Sequence[Relation],
    facts: Iterable[tuple[str, str, str]],
    encoder: TextVectors,
    source: str,
    progress: Progress | None,
    graph: str = "",
) -> None:
    """Write the files of a new knowledge base. With ``graph``, one of GRAPHS, the vectors of labels are trained on the
    facts."""
    encoder.centre = None  # the entities' own
    vectors = encoder([(each.label, each.description) for each in entities], progress)
    of_relations = encoder([(each.label, "") for each in relations])
    number = {each.key: index for index, each in enumerate(entities)}
    of_relation = {each.key: index for index, each in enumerate(relations)}
    triples = [(number[subject], of_relation[relation], number[thing]) for subject, relation, thing in facts]
    if graph:
        trained = train_graph(graph, vectors, len(relations), torch.tensor(triples, dtype=torch.long).view(-1, 3))
        vectors, of_relations = trained.entities, trained.relations
    tensors = {"entities": vectors, "relations": of_relations, "centre": torch.as_tensor(encoder.centre)}
    save_file(tensors, folder / VECTORS)
    store = KnowledgeStore(folder, create=True)
    with store.change() as connection:
        place = str(Path(source).expanduser().resolve()) if Path(source).expanduser().is_dir() and source else source
        connection.execute("INSERT INTO meta VALUES ('encoder', ?)", (place,))
        connection.execute("INSERT INTO meta VALUES ('vectors', ?)", (graph or "labels",))
        connection.executemany(
            "INSERT INTO entity (number, key, label, description) VALUES (?, ?, ?, ?)",
            [(index, each.key, each.label, each.description) for index, each in enumerate(entities)],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO alias VALUES (?, ?, ?)",
            [row for index, each in enumerate(entities) for row in alias_rows(index, each.label, each.names)],
        )
        connection.executemany(
            "INSERT INTO relation (number, key, label) VALUES (?, ?, ?)",
            [(index, each.key, each.label) for index, each in enumerate(relations)],
        )
        connection.executemany("INSERT OR IGNORE INTO fact VALUES (?, ?, ?)", triples)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def alias_rows(number: int, label: str, names: Mapping[str, float] | Sequence[str]) -> list[tuple[str, int, float]]:
    """The rows of an entity's names: folded, its label among them, counts of the same name added."""
    counts: dict[str, float] = {}
    given = names if isinstance(names, Mapping) else dict.fromkeys(names, 1.0)
    for text, count in given.items():
        counts[fold(text.strip())] = counts.get(fold(text.strip()), 0.0) + float(count)
    counts.setdefault(fold(label.strip()), 1.0)
    return [(text, number, count) for text, count in counts.items() if text]


def blob(vector: Tensor) -> bytes:
    """A vector as SQLite keeps it."""
    return vector.float().contiguous().numpy().tobytes()
