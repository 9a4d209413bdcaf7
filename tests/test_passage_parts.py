"""A passage with a vector for each of its parts is found by its nearest part."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from collection_cases import HARBOUR, tiny_encoder, write_folder
from torch.nn.functional import normalize

from masquerade import Encoder
from masquerade.data.packing import DataCursor, collate
from masquerade.errors import MasqueradeError
from masquerade.layout import Layout
from masquerade.memory.retrieval import vector_index
from masquerade.memory.retrieval.encoder_training import EncoderTraining, TrainEncoder, unpacked
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.passage_parts import best_parts, clause_ends, part_ends
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.memory.retrieval.rag import Rag, RagSettings
from masquerade.memory.retrieval.search import Filters
from masquerade.memory.retrieval.training_pairs import NOTHING

TEXTS = ["the mill. it sells rye bread. at noon", "bread", "李春设计建造。桥长五十米。"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("parts") / "e"
    return Encoder.load(tiny_encoder(folder, pooling=Pooling(part=6, query="q")))


def test_a_part_ends_with_a_clause_and_a_short_rest_belongs_to_the_last() -> None:
    stops = frozenset({9})
    assert part_ends([1, 2, 9, 1, 9, 1, 2, 3, 9, 1], stops, 3) == [3, 10]
    assert part_ends([1, 9, 1, 1, 9, 1, 1, 1], stops, 3) == [5, 8]
    assert part_ends([1, 2], stops, 3) == [2] and part_ends([1, 2, 3, 4], stops, 1) == [4]


def test_clauses_are_parts_and_an_encoder_whose_parts_end_elsewhere_is_another(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = encoder.model.tokenizer.encode("at the mill, rye bread. at noon")
    words = [
        encoder.model.tokenizer.decode(ids[:end]) for end in part_ends(ids, clause_ends(encoder.model.tokenizer), 1)
    ]
    assert [word.strip()[-1] for word in words[:2]] == [",", "."] and len(words) == 3
    before = encoder.fingerprint()
    monkeypatch.setattr("masquerade.memory.retrieval.encoder.STOPS", ".?!")
    assert encoder.fingerprint() != before


def test_each_part_is_the_mean_of_its_states_in_the_whole_text(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = encoder.encode_parts(TEXTS)
    stops = clause_ends(encoder.model.tokenizer)
    assert [len(each) > 1 for each in found] == [True, False, True]
    for text, vectors in zip(TEXTS, found, strict=True):
        ids = encoder.model.tokenizer.encode(text, specials=True)
        with torch.no_grad():
            states = encoder.model.hidden(Layout.of([ids]))[0]
        bounds = [0, *part_ends(ids, stops, 6)]
        expected = [states[start:end].mean(0) for start, end in pairwise(bounds)]
        torch.testing.assert_close(vectors, normalize(torch.stack(expected), dim=-1), atol=1e-5, rtol=0)
    monkeypatch.setattr("masquerade.kernels.batch_tokens", lambda device: 20)
    for one, other in zip(encoder.encode_parts(TEXTS), found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_an_encoder_without_parts_gives_each_passage_its_vector(tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_encoder(tmp_path))
    assert torch.equal(torch.cat(encoder.encode_parts(TEXTS)), encoder.encode_passages(TEXTS))
    assert encoder.fingerprint() != Encoder.load(tmp_path, part=6).fingerprint()
    with pytest.raises(MasqueradeError, match="need the pooling 'mean'"):
        Encoder.load(tmp_path, part=6, pooling="cls")


@pytest.mark.parametrize("kind", ["flat", "8 bits", "IVF, 8 bits"])
def test_a_passage_is_as_near_as_its_nearest_part(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    kinds = {"flat": 0} | {name: {name: 10}.get(kind, 10_000) for name in ("8 bits", "IVF, 8 bits")}
    monkeypatch.setattr(vector_index, "KINDS", kinds)
    monkeypatch.setattr(vector_index, "PROBED", 1)
    texts = write_folder(tmp_path / "texts")
    for number in range(40):
        (texts / f"{number}.txt").write_text(f"The {'pier ' * (number % 7)} is {number}. " * (1 + number % 3) + HARBOUR)
    kb = KnowledgeBase.open(tmp_path / "kb", create=True, encoder=encoder)
    kb.update([str(texts)])

    def same() -> None:
        stored = kb.store.passages(kb.store.ids().tolist())
        query = encoder.encode_queries(["rye bread"])
        parts = encoder.encode_parts([each.passage.searched(each.title) for each in stored.values()])
        exact = dict(zip(stored, [float((each @ query.T).max()) for each in parts], strict=True))
        found = kb.search("rye bread", 1000, dense=1.0)
        assert {each.stored.id for each in found} == set(exact) and kb.vectors.kind == kind
        assert [each.score.dense for each in found] == pytest.approx(
            [exact[each.stored.id] for each in found], abs=2e-3 if kind == "flat" else 0.1
        )
        assert kb.search("rye bread", 3, dense=1.0) == found[:3]
        some = kb.search("rye bread", 5, Filters(path="*/town/*"), 1.0)
        assert {each.stored.name for each in some} == {str(texts / "town/bakery.txt")}

    same()
    assert len(kb.store.vectors(kb.store.ids(), encoder.width)[1]) > kb.store.count("passages")
    (texts / "1.txt").unlink()
    (texts / "2.txt").write_text("The bakery is closed. It sells no more bread since it has burnt down.")
    kb.update()
    same()
    kb.close()
    kb = KnowledgeBase.open(tmp_path / "kb", encoder)
    same()


def test_scores_of_texts_are_those_of_their_best_parts() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0], [4.0, 0.0, 5.0]])
    assert best_parts(scores, torch.tensor([0, 0, 1]), 2).tolist() == [[3.0, 2.0], [4.0, 5.0]]
    assert best_parts(scores, torch.arange(3), 3) is scores


def test_training_compares_the_best_parts(tmp_path: Path) -> None:
    tiny_encoder(tmp_path / "start", pooling=Pooling(query="q"))
    lines = [
        json.dumps({"context": text, "question": f"who {number}?", "answers": ["noon" if number < 1 else "bread"]})
        for number, text in enumerate(["it closes at noon. the mill sells a lot.", "rye bread. it is on the pier."])
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    recipe = EncoderTraining(
        start=str(tmp_path / "start"), train=(str(tmp_path / "q.jsonl"),), out=str(tmp_path / "out"), length=60,
        row=64, group=2, batch=2, temperature=0.1, part=4,
    )  # fmt: skip
    job = TrainEncoder(recipe)
    job.kept = {}
    networks = job.begin()
    job.read(networks[""], tmp_path)
    loss = job.loss(networks).eval()
    rows, _ = next(job.batches(DataCursor()))
    made = loss(collate(rows))["queries"]
    made.backward()
    encoder = Encoder(networks[""], job.pooling)
    assert encoder.pooling.part == 4
    texts = [encoder.model.tokenizer.decode(ids) for ids, _ in unpacked(collate(rows).layout)]
    targets = [int(each.extra["encoder.target"].tensor) for row in rows for each in row]
    queries, passages = (
        [text for text, target in zip(texts, targets, strict=True) if (target == NOTHING) == wanted]
        for wanted in (False, True)
    )
    parts = encoder.encode_parts(passages)
    assert max(map(len, parts)) > 1
    best = torch.stack([(encoder.encode(queries) @ each.T).max(1).values for each in parts], 1) / 0.1
    expected = torch.nn.functional.cross_entropy(best, torch.tensor(targets[: len(queries)]), reduction="sum")
    assert float(made.detach()) == pytest.approx(float(expected), rel=1e-4)


def test_rag_needs_one_vector_a_passage(tmp_path: Path, encoder: Encoder) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", create=True, encoder=encoder)
    with pytest.raises(MasqueradeError, match="one vector for each passage"):
        Rag(encoder.model, encoder, kb, RagSettings())
