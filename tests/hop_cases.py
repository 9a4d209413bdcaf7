"""A small world of films, their directors and where these were born, for the tests of questions of several steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FILMS = [f"{first} {last}" for first in ("North", "South", "Old", "New") for last in ("Market", "Ship", "River")]
PEOPLE, CITIES = ("Anna", "Bo", "Queen"), ("Paris", "Rome")


def paragraphs(seed: int) -> tuple[dict[str, list[str]], str, str, str]:
    """Paragraphs of four films and three people; and one of the films, its director and where that one was born."""
    rng = np.random.default_rng(seed)
    films = [FILMS[int(n)] for n in rng.permutation(len(FILMS))[:4]]
    makers = [PEOPLE[int(n)] for n in rng.integers(len(PEOPLE), size=4)]
    homes = {name: CITIES[int(rng.integers(2))] for name in PEOPLE}
    found = {
        film: ["It is an old film.", f"{film} is a film of the director {maker}."]
        for film, maker in zip(films, makers, strict=True)
    }
    found |= {name: [f"{name} was born in {homes[name]}.", "It is one city."] for name in PEOPLE}
    order = [list(found)[int(n)] for n in rng.permutation(len(found))]
    return {title: found[title] for title in order}, films[0], makers[0], homes[makers[0]]


def record(seed: int) -> dict[str, Any]:
    """A question of two steps in HotpotQA's format; every third is a comparison."""
    held, film, maker, home = paragraphs(seed)
    context = [[title, sentences] for title, sentences in held.items()]
    if seed % 3:
        facts = [[film, 1], [maker, 0]]
        question = f"In which city was the director of {film} born?"
        return {"_id": f"q{seed}", "question": question, "answer": home, "context": context, "supporting_facts": facts}
    others = [title for title in held if title in FILMS and title != film]
    facts = [[film, 1], [others[0], 1]]
    question = f"Which is the old film, {film} or {others[0]}?"
    return {"_id": f"q{seed}", "question": question, "answer": film, "context": context, "supporting_facts": facts}


def write_records(path: Path, count: int = 12, first: int = 0) -> str:
    """Records as JSON lines."""
    lines = [json.dumps(record(seed)) + "\n" for seed in range(first, first + count)]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
