"""Models whose configuration forces the end of a text that is cut off end it as the reference does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from writers import CONFIGS, END, VOCAB, reference_texts, writer

from masquerade.writing.generate import generate


@pytest.mark.parametrize("kind", ["bart", "pegasus"])
def test_a_forced_end_is_the_references(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, config = CONFIGS[kind]
    monkeypatch.setitem(CONFIGS, kind, (name, config | {"forced_eos_token_id": END}))
    theirs, ours = writer(kind, tmp_path)
    assert ours.config["forced_eos_token_id"] == END
    chance, longest = random.Random(2), 0
    for _ in range(15):
        prompts = [[chance.randrange(5, VOCAB) for _ in range(chance.randint(1, 8))] for _ in range(3)]
        beams, most, least = chance.randint(1, 4), chance.randint(2, 8), chance.choice([0, 2])
        shared: dict[str, Any] = {"length_penalty": chance.choice([0.0, 1.0, 2.0])}
        got = generate(ours, prompts, "beam", beams=beams, max_new=most, min_new=min(least, most - 1), **shared)
        expected, said = reference_texts(
            kind, theirs, prompts, num_beams=beams, max_new_tokens=most, min_new_tokens=min(least, most - 1) or None,
            **(shared if beams > 1 else {}),
        )  # fmt: skip
        assert [[*text.ids, END] for text in got] == expected
        assert all(text.ended for text in got)
        if beams > 1:
            assert [text.score for text in got] == pytest.approx(said.sequences_scores.tolist(), abs=1e-4)
        longest += sum(len(text.ids) == most - 1 for text in got)
    assert longest > 5, "some texts have to be cut off"


def test_a_text_that_may_not_end_yet_is_not_forced_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, config = CONFIGS["bart"]
    monkeypatch.setitem(CONFIGS, "bart", (name, config | {"forced_eos_token_id": END}))
    _, ours = writer("bart", tmp_path)
    written = generate(ours, [[5, 6, 7]], max_new=4, min_new=4)[0]
    assert len(written.ids) == 4 and not written.ended
