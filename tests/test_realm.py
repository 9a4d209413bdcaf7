"""REALM: the marginal likelihood, its gradients, the index that follows the retriever, and the span head."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from collection_cases import tiny_encoder, write_folder
from typed import run

from masquerade import Encoder, load, save
from masquerade.data.packing import DataCursor, collate
from masquerade.memory.retrieval.index_refresh import RefreshedIndex, write_index
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.realm import Realm, right_spans
from masquerade.memory.retrieval.realm_loss import WIDEST, masked_ids, salient_places, span_grid
from masquerade.memory.retrieval.realm_training import RealmTraining, TrainRealm
from masquerade.training.loop import Run

ORACLE = Path(__file__).resolve().parents[2] / "shared" / "oracles" / "realm"
QUESTIONS = [
    ("Who opened the harbour?", "Queen Ingrid"),
    ("What does the bakery sell?", "rye bread"),
    ("谁设计了赵州桥？", "李春"),
    ("How high is the lighthouse?", "34"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("realm")
    write_folder(folder / "texts")
    encoder = tiny_encoder(folder / "encoder")
    with KnowledgeBase.open(folder / "kb", str(encoder), create=True) as kb:
        kb.update([str(folder / "texts")])
    reader = load(encoder).with_heads(("lm",))
    torch.manual_seed(3)
    for weight in reader.parameters():
        torch.nn.init.normal_(weight, std=0.05) if weight.dim() > 1 else None
    save(reader, folder / "reader")
    lines = [json.dumps({"question": asked, "answers": [answer]}, ensure_ascii=False) for asked, answer in QUESTIONS]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def recipe(place: Path, out: str, **changes: object) -> RealmTraining:
    given = {
        "start": str(place / "reader"), "kb": str(place / "kb"), "train": str(place / "texts"), "out": str(place / out),
        "documents": 2, "query": 24, "length": 62, "row": 64, "batch": 2, "epochs": 1.0, "rate": 3e-3, "warmup": 0.0,
        "precision": "float32", "refresh_every": 0,
    }  # fmt: skip
    return RealmTraining(**{**given, **changes})  # type: ignore[arg-type]


def started(place: Path, **changes: object) -> tuple[TrainRealm, torch.nn.Module]:
    job = TrainRealm(recipe(place, "job", **changes))
    job.kept = {}
    networks = job.begin()
    (place / "job").mkdir(exist_ok=True)
    job.read(networks[""], place / "job")
    return job, job.loss(networks)


def test_names_and_dates_are_salient_and_masked_as_a_whole(place: Path) -> None:
    text = "The harbour of Arvik was opened by Queen Ingrid in 1931."
    assert [text[start:end] for start, end in salient_places(text)] == ["Arvik", "Queen Ingrid", "1931"]
    bridge = "1994年，这座桥的护栏经过修复。"
    assert [bridge[start:end] for start, end in salient_places(bridge)] == ["1994年"]
    tokenizer = load(place / "reader").tokenizer
    for sentence in (text, bridge):
        for start, end in salient_places(sentence):
            ids, offsets = tokenizer.encode_places([sentence])[0]
            shown, masks = masked_ids(tokenizer, sentence, (start, end), 99)
            assert sentence[offsets[masks[0]][0] : offsets[masks[-1]][1]] == sentence[start:end]
            assert [shown[index] for index in masks] == [tokenizer.special("mask")] * len(masks)
            assert all(shown[index] == ids[index] for index in range(len(ids)) if index not in masks)


def test_the_loss_sums_over_the_passages_and_the_empty_one(place: Path) -> None:
    job, loss = started(place)
    rows, _ = next(job.batches(DataCursor()))
    loss.eval()
    with torch.no_grad():
        for row in rows:
            assert len(row) == 3  # two passages and the empty one
            total = torch.zeros(())
            ids = row[0].extra["realm.ids"].tensor.split(row[0].extra["realm.lengths"].tensor.tolist())
            encoder = job.realm.encoder
            query, *passages = (vector_of(encoder, each.tolist()) for each in ids)
            priors = torch.stack([query @ passage / 0.05 for passage in passages]).softmax(0)
            for example, prior in zip(row, priors, strict=True):
                logits = loss.model.scores(example.layout.batched(), "lm")[0].log_softmax(-1)
                chosen = example.layout.label != -100
                total = total + prior * logits[chosen].gather(1, example.layout.label[chosen][:, None]).sum().exp()
            assert float(loss(collate([row]))["texts"]) == pytest.approx(-float(total.log()), rel=1e-4)
        assert len(ids[-1]) == 2  # [CLS] [SEP]
        together = float(loss(collate(rows))["texts"])
        assert together == pytest.approx(sum(float(loss(collate([row]))["texts"]) for row in rows), rel=1e-4)
    loss(collate(rows))["texts"].backward()
    for network in loss.networks.values():
        assert float(network.words.table.weight.grad.abs().sum()) > 0


def vector_of(encoder: Encoder, ids: list[int]) -> torch.Tensor:
    from masquerade.memory.retrieval.encoder import sentence_vectors, text_layout

    return sentence_vectors(encoder.model, text_layout([(ids, [0] * len(ids))], 0), encoder.pooling)[0]


def test_the_passage_that_a_text_came_from_is_left_out(place: Path) -> None:
    job, _ = started(place, documents=9)
    for text in job.texts:
        query = job.realm.query(text, salient_places(text)[0])
        found = job.realm.candidates([query], [text])[0]
        assert found and not any("".join(text.split()) in "".join(each.passage.text.split()) for each in found)
        assert len(job.realm.candidates([query])[0]) == len(found) + 1


def test_the_share_of_the_spans_that_match_is_summed(place: Path) -> None:
    job, loss = started(place, task="answers", train=str(place / "questions.jsonl"), documents=4)
    rows, _ = next(job.batches(DataCursor()))
    loss.eval()
    with torch.no_grad():
        for row in rows:
            batch = collate([row])
            prior, total = loss.priors(batch, [len(row)])[0].exp(), torch.zeros(())
            for example, share in zip(row, prior, strict=True):
                states = loss.model.hidden(example.layout.batched())[0]
                tokens, right = example.extra["realm.tokens"].tensor.tolist(), example.extra["realm.right"].tensor
                head, every, some = loss.model.heads["spans"], [], []
                for number, (first, last) in enumerate(span_grid(len(tokens)).tolist()):
                    every.append(head(states[tokens[first]][None], states[tokens[last]][None])[0].exp())
                    some += [every[-1]] if right[number] else []
                total = total + share * (torch.stack(some).sum() if some else 0) / torch.stack(every).sum()
            assert float(loss(batch)["texts"]) == pytest.approx(-float(total.log()), rel=1e-3)
    loss(collate(rows))["texts"].backward()
    assert all(float(network.words.table.weight.grad.abs().sum()) > 0 for network in loss.networks.values())


def test_spans_match_answers_wherever_they_stand() -> None:
    text = "Lund saw lund"
    offsets = [(0, 4), (5, 8), (9, 13)]
    right = right_spans(text, offsets, ["LUND", "saw lund", "aw"])
    assert [tuple(pair) for pair in span_grid(3)[right.bool()].tolist()] == [(0, 0), (2, 2), (1, 2)]
    assert len(span_grid(30)) == sum(30 - more for more in range(WIDEST)) and len(span_grid(0)) == 0


@pytest.mark.slow
def test_a_stale_index_is_replaced_by_that_of_the_trained_retriever(place: Path) -> None:
    job = TrainRealm(recipe(place, "run", epochs=3.0, refresh_every=3, rate=0.01, held_out=(str(place / "texts"),)))
    Run(job).train()
    assert job.index.name == job.kept["index"] != ""
    made = int(job.index.name.removeprefix("vectors-").removesuffix(".faiss"))
    assert 0 < made < job.steps and [path.name for path in (place / "run").glob("*.faiss")] == [job.index.name]
    log = [json.loads(line) for line in (place / "run" / "log.jsonl").read_text().splitlines()]
    scored = [entry["held_out"] for entry in log if "held_out" in entry]
    assert scored[-1] < scored[0]
    retriever = Encoder.load(place / "run" / f"step-{job.steps}" / "retriever")
    assert not torch.equal(retriever.model.words.table.weight, job.kb.encoder.model.words.table.weight)


def test_a_killed_refresh_loses_nothing(place: Path) -> None:
    folder = place / "refresh"
    folder.mkdir()
    encoder = Encoder.load(place / "encoder")
    write_index(place / "kb", encoder, folder / "vectors-0.faiss")
    index = RefreshedIndex(place / "kb", folder, "vectors-0.faiss")
    with KnowledgeBase.open(place / "kb") as kb:
        vector = encoder.encode_queries(["the harbour"]).numpy()
        expected = [id for id, _ in kb.vectors.search(vector[0], 3)]
    assert index.search(vector, 3) == [expected]
    index.start(encoder.model, 7)
    assert index.process is not None
    os.kill(index.process.pid, signal.SIGKILL)
    index.wait()
    assert index.swap() == "vectors-0.faiss" and index.search(vector, 3) == [expected]
    other = RefreshedIndex(place / "kb", folder, "vectors-5.faiss")  # named by an older checkpoint, replaced since
    assert other.name == "vectors-0.faiss"


def test_the_command_trains_on_questions_and_answers(place: Path) -> None:
    words = [
        f"{key}={json.dumps(value)}"
        for key, value in {
            "task": "answers", "start": str(place / "reader"), "kb": str(place / "kb"), "out": str(place / "qa"),
            "train": str(place / "questions.jsonl"), "held_out": str(place / "questions.jsonl"), "documents": 4,
            "query": 24, "length": 62, "row": 64, "batch": 4, "epochs": 30, "rate": 0.01, "warmup": 0.0,
            "precision": "float32", "refresh_every": 0,
        }.items()
    ]  # fmt: skip
    run("train", "realm", "realm", *words)
    log = [json.loads(line) for line in (place / "qa" / "log.jsonl").read_text().splitlines()]
    scored = [entry["held_out"] for entry in log if "held_out" in entry]
    assert scored[-1] < 0.7 * scored[0]
    said = json.loads(run("ask", QUESTIONS[0][0], "--kb", place / "kb", "--rag", place / "qa", "--json", "--n-best", 2))
    assert len(said["answers"]) == 2 and sum(each["probability"] for each in said["passages"]) == pytest.approx(1)
    with KnowledgeBase.open(place / "kb") as kb:
        answer = Realm.load(place / "qa", kb).answer(QUESTIONS[0][0])[0]
        assert any(answer.text in found.text for found, _ in answer.passages) and answer.score <= 0


@pytest.mark.data
def test_the_embedder_of_realm_gives_the_vectors_of_the_reference() -> None:
    if not ORACLE.is_dir():
        pytest.skip("the shared oracles are not beside this checkout")
    from masquerade import Layout

    made = np.load(ORACLE / "oracle.npz")
    encoder = Encoder.load(ORACLE)
    layout = Layout.padded(
        *(torch.from_numpy(made[f"in_{name}"]) for name in ("input_ids", "attention_mask")),
        segment=torch.from_numpy(made["in_token_type_ids"]),
    )
    with torch.no_grad():
        assert torch.allclose(encoder.vectors(layout), torch.from_numpy(made["out_projected"]), atol=1e-5)
