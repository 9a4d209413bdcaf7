"""Classes and entities: read from any format, trained by the one loop, scored as published."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from masquerade import load, save
from masquerade.cli.main import app
from masquerade.data.packing import DataCursor, collate, first_fit
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier, lay_out
from masquerade.labelling.predict import predict, sentence_tokens
from masquerade.labelling.records import Classified, Entity, Tagged, entities_of, read_classified, read_tagged
from masquerade.labelling.scores import class_scores, entity_scores, number_scores
from masquerade.labelling.tagger import Tagger, best_tags, cut, forbidden, labelled, tag_names
from masquerade.labelling.training import TrainClassifier, TrainTagger
from masquerade.layout import visible
from masquerade.masks import bidirectional
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.objectives.loss import at_indices
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run
from masquerade.training.recipe import FineTuning

WORDS = ["good", "bad", "film", "a", "very", "play", "##ing", "in", "paris", "rome", "anna", "bo", ",", ".",
         "彭", "小", "军", "在", "台", "湾", "北", "京", "工", "作", "。"]  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without heads."""
    home = tmp_path_factory.mktemp("encoder")
    (home / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n", "utf-8")
    torch.manual_seed(0)
    spec = Spec(
        family="bert", vocab=len(WORDS) + 5, width=16, layers=2, heads=2, feedforward=32, longest=64, init_std=0.2
    )
    model = build(spec)
    model.tokenizer = Tokenizer.load(home)
    save(model, home)
    return home


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def recipe(encoder: Path, home: Path, **changes: object) -> FineTuning:
    values = {"start": str(encoder), "out": str(home / "run"), "rate": 5e-3, "batch": 16, "length": 32, "row": 64}
    return FineTuning(
        **{**values, "train": str(home / "train.jsonl"), "held_out": str(home / "train.jsonl"), **changes}
    )  # type: ignore[arg-type]


def write(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return str(path)


# Formats


def test_tables_json_and_parquet_give_the_same_records(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"sentence": 'a "good" film', "label": "1"}, {"sentence": "一部坏电影, 真的", "label": "0"}]
    (tmp_path / "a.tsv").write_text('sentence\tlabel\na "good" film\t1\n一部坏电影, 真的\t0\n', encoding="utf-8")
    (tmp_path / "b.tsv").write_text('a "good" film\t1\n一部坏电影, 真的\t0\n', encoding="utf-8")
    (tmp_path / "c.csv").write_text('sentence,label\n"a ""good"" film",1\n"一部坏电影, 真的",0\n', encoding="utf-8")
    (tmp_path / "d.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "e.json").write_text("\n".join(json.dumps(row, indent=2) for row in rows), encoding="utf-8")
    write(tmp_path / "f.jsonl", rows)  # type: ignore[arg-type]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "g.parquet")
    for path in sorted(tmp_path.iterdir()):
        found = read_classified(str(path))
        assert found == [Classified('a "good" film', None, "1"), Classified("一部坏电影, 真的", None, "0")], path.name


def test_pairs_and_fields_of_other_names_are_found(tmp_path: Path) -> None:
    source = write(tmp_path / "x.jsonl", [{"sentence1": "a", "sentence2": "b", "score": 2.5, "other": "c"}])
    assert read_classified(source) == [Classified("a", "b", "2.5")]
    assert read_classified(source, text="other", label="score") == [Classified("c", "b", "2.5")]
    (tmp_path / "y.tsv").write_text("a\tb\t1\n")
    assert read_classified(str(tmp_path / "y.tsv")) == [Classified("a", "b", "1")]


def test_four_ways_to_write_entities_mean_the_same(tmp_path: Path) -> None:
    text, kinds = "彭小军在台湾工作", (Entity("name", 0, 3), Entity("place", 4, 6))
    cluener = {"text": text, "label": {"place": {"台湾": [[4, 5]]}, "name": {"彭小军": [[0, 2]]}}}
    ours = {"text": text, "entities": [{"kind": "name", "start": 0, "end": 3}, {"kind": "place", "start": 4, "end": 6}]}
    tags = ["B-name", "I-name", "I-name", "O", "B-place", "I-place", "O", "O"]
    (tmp_path / "column.txt").write_text("".join(f"{c} {t}\n" for c, t in zip(text, tags, strict=True)) + "\n", "utf-8")
    for source in (
        write(tmp_path / "a.jsonl", [cluener]),
        write(tmp_path / "b.jsonl", [ours]),
        write(tmp_path / "c.jsonl", [{"tokens": list(text), "tags": tags}]),
        str(tmp_path / "column.txt"),
    ):
        assert read_tagged(source) == [Tagged(text, kinds)]
    english = write(
        tmp_path / "d.jsonl", [{"tokens": ["Anna", "in", "New", "York"], "tags": ["B-p", "O", "B-l", "I-l"]}]
    )
    assert read_tagged(english) == [Tagged("Anna in New York", (Entity("p", 0, 4), Entity("l", 8, 16)))]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.tsv", "a\t1\nb\n", "Record 2 of .* has 1 columns instead of 2"),
        ("x.tsv", "", "There is no record in"),
        ("x.json", "{broken", "cannot be read"),
        ("x.json", "[1, 2]", "have to be objects"),
        ("x.jsonl", '{"body": "a"}', "no field with a usual name for the text"),
        ("x.bin", "a", "cannot be read here; give a .tsv"),
    ],
)
def test_bad_records_are_one_sentence(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(MasqueradeError, match=sentence):
        read_classified(str(tmp_path / name))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"text": "a b", "entities": [{"kind": "x", "start": 2, "end": 9}]}, "lies outside its text"),
        ({"text": "a b", "entities": [{"start": 0, "end": 1}]}, "has no valid tags"),
        ({"tokens": ["a"], "tags": []}, "needs a BIO tag"),
        ({"body": "a"}, "has no valid tags"),
    ],
)
def test_badly_tagged_records_are_one_sentence(tmp_path: Path, record: dict[str, object], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        read_tagged(write(tmp_path / "x.jsonl", [record]))


def test_a_file_that_is_not_there_is_one_sentence() -> None:
    for read in (read_classified, read_tagged):
        with pytest.raises(MasqueradeError, match=r"There is no file '\./nowhere\.tsv'"):
            read("./nowhere.tsv")


# Scores


tag_lists = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(tag_lists, tag_lists), min_size=1, max_size=4))
def test_entities_are_read_and_scored_as_seqeval_does(pairs: list[tuple[list[str], list[str]]]) -> None:
    from seqeval.metrics import f1_score, precision_score, recall_score

    true, predicted = zip(*((a, (b * 12)[: len(a)]) for a, b in pairs), strict=True)
    ours = entity_scores([entities_of(tags) for tags in predicted], [entities_of(tags) for tags in true])["all"]
    for name, theirs in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        assert ours[name] == pytest.approx(theirs(list(true), list(predicted), zero_division=0))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=20))
def test_classes_are_scored_as_scikit_learn_does(pairs: list[tuple[str, str]]) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    predicted, true = zip(*pairs, strict=True)
    ours = class_scores(predicted, true)
    assert ours["accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert ours["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))


def test_numbers_are_scored_as_scipy_does() -> None:
    from scipy.stats import pearsonr, spearmanr

    guess, true = [1.0, 2.5, 2.5, 4.0, -1.0, 0.5], [1.5, 2.0, 3.5, 3.5, 0.0, 0.0]
    ours = number_scores(guess, true)
    assert ours["pearson"] == pytest.approx(pearsonr(guess, true).statistic)
    assert ours["spearman"] == pytest.approx(spearmanr(guess, true).statistic)
    assert number_scores([1.0, 1.0], [1.0, 2.0])["pearson"] == 0.0


# Layouts and tags


@given(st.integers(1, 6), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_best_tags_are_the_best_of_all_that_make_sense(n: int, seed: int) -> None:
    labels = tag_names(["x", "y"])
    scores = torch.randn(n, len(labels), generator=torch.Generator().manual_seed(seed)) * 3
    blocked = forbidden(labels)

    def sensible(tags: tuple[int, ...]) -> bool:
        before = ["", *(labels[tag] for tag in tags)]
        return all(not t.startswith("I-") or b[2:] == t[2:] for b, t in pairwise(before))

    chances = scores.log_softmax(-1)
    best = max(
        (tags for tags in product(range(len(labels)), repeat=n) if sensible(tags)),
        key=lambda tags: sum(float(chances[index, tag]) for index, tag in enumerate(tags)),
    )
    assert best_tags(scores, blocked) == list(best)


@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 40))
def test_shelves_hold_every_sequence_once_and_are_not_overfull(lengths: list[int], row: int) -> None:
    shelves = first_fit(lengths, row)
    assert sorted(index for shelf in shelves for index in shelf) == list(range(len(lengths)))
    for shelf in shelves:
        assert len(shelf) == 1 or sum(lengths[index] for index in shelf) <= row


def test_entities_survive_the_way_to_tags_and_back(encoder: Path) -> None:
    model = load(encoder)
    labels = tag_names(["name", "place"])
    text = "anna playing in paris, 彭小军在台湾。bo playing in rome." * 4
    entities = [
        Entity(kind, start, start + len(word))
        for word, kind in (
            ("anna", "name"),
            ("paris", "place"),
            ("彭小军", "name"),
            ("台湾", "place"),
            ("rome", "place"),
        )
        for start in range(len(text))
        if text.startswith(word, start)
    ]
    for length in (12, 20, 200):
        found = []
        for window in cut(model, [text], length):
            assert len(window.layout) <= length
            layout = labelled(window, entities, labels)
            places = [place for place in window.offsets if place is not None]
            tags = [labels[tag] for tag in layout.label.tolist() if tag >= 0]
            found += [Entity(e.kind, places[e.start][0], places[e.end - 1][1]) for e in entities_of(tags)]
        assert found == sorted(entities, key=lambda each: each.start)


def test_packed_sequences_have_the_scores_of_each_alone(encoder: Path) -> None:
    torch.manual_seed(1)
    layouts = [bidirectional([2, *torch.randint(5, 30, (n,)).tolist(), 3]) for n in (3, 40, 7, 1, 20, 33, 5)]
    for head in ("classify", "tag"):
        model = load(encoder).with_heads((head,), ("a", "b", "c")).eval()
        for layout, scores in zip(layouts, predict(model, layouts, head), strict=True):
            alone = model.scores(layout, head)[0]
            torch.testing.assert_close(scores, alone.detach(), atol=1e-5, rtol=0)


def test_a_causal_model_is_classified_from_its_last_token_under_its_own_mask(encoder: Path, tmp_path: Path) -> None:
    tokenizer = load(encoder).tokenizer
    spec = Spec(vocab=len(tokenizer), width=16, layers=2, heads=2, feedforward=24, longest=64, mask="causal")
    gpt = Model(replace(spec, outputs=("lm",)), tokenizer)
    save(gpt, tmp_path / "gpt")
    model = gpt.with_heads(("classify",), ("a", "b")).eval()
    texts = ["a good film", "bad", "very good playing ."]
    layouts = lay_out(model, [(text, None) for text in texts], 64)
    assert all(torch.equal(visible(each), torch.ones(len(each), len(each)).tril().bool()) for each in layouts)
    found = predict(model, layouts, "classify")
    for layout, scores in zip(layouts, found, strict=True):
        states = model.hidden(layout)[0, -1]
        torch.testing.assert_close(scores, model.head("classify", states).detach(), atol=1e-5, rtol=0)
    records = [{"text": text, "label": "yes" if "good" in text else "no"} for text in texts * 4]
    write(tmp_path / "train.jsonl", records)  # type: ignore[arg-type]
    run = Run(TrainClassifier(recipe(tmp_path / "gpt", tmp_path, epochs=1)))
    rows, _ = next(run.job.batches(DataCursor()))
    batch = collate(rows)
    assert torch.equal(at_indices(batch, "sentence_token"), sentence_tokens(run.bare.model, batch.layout))
    run.train()
    assert Classifier.load(tmp_path / "run").model.spec.mask == "causal"


# Training


def test_a_classifier_learns_and_is_used(encoder: Path, tmp_path: Path) -> None:
    texts = [
        "a good film",
        "a bad film",
        "very good playing",
        "very bad playing",
        "good",
        "bad , bad",
        "a very good film .",
    ]
    records = [{"text": text, "label": "yes" if "good" in text else "no"} for text in texts * 6]
    write(tmp_path / "train.jsonl", records)  # type: ignore[arg-type]
    run = Run(TrainClassifier(recipe(encoder, tmp_path, epochs=20)))
    before = run.evaluate()
    run.train()
    last = Store(tmp_path / "run").history()[-1]
    assert last["accuracy"] == 1.0
    assert last["held_out"] < before["held_out"]
    classifier = Classifier.load(tmp_path / "run")
    verdicts = classifier(["good film", "bad film"])
    assert [verdict.label for verdict in verdicts] == ["yes", "no"]
    assert sum(verdicts[0].scores.values()) == pytest.approx(1.0)
    with pytest.raises(MasqueradeError, match="empty text cannot be classified"):
        classifier([" "])
    run_folder, lines = str(tmp_path / "run"), tmp_path / "lines.txt"
    lines.write_text("very good\n\nvery bad\n")
    shown = invoke("classify", "--model", run_folder, "a good film", "--in", str(lines), "--json").splitlines()
    assert [json.loads(line)["label"] for line in shown] == ["yes", "yes", "no"]
    assert "probability" in invoke("classify", "--model", run_folder, "a good film")
    saved = tmp_path / "said.jsonl"
    scored = invoke(
        "evaluate",
        "classifier",
        str(tmp_path / "train.jsonl"),
        "--model",
        run_folder,
        "--json",
        "--predictions",
        str(saved),
    )
    assert json.loads(scored)["all"]["accuracy"] == 1.0
    assert json.loads(saved.read_text().splitlines()[0])["predicted"]["label"] == "yes"


def test_a_class_may_depend_on_the_second_text_alone(encoder: Path, tmp_path: Path) -> None:
    words = ["paris", "rome", "anna", "good", "bad"]
    records = [{"text": a, "text_b": f"a {b} film", "label": int(b == "good")} for a in words for b in words[3:]] * 4
    write(tmp_path / "train.jsonl", records)  # type: ignore[arg-type]
    Run(TrainClassifier(recipe(encoder, tmp_path, epochs=15))).train()
    assert Store(tmp_path / "run").history()[-1]["accuracy"] == 1.0


def test_numbers_are_learned(encoder: Path, tmp_path: Path) -> None:
    records = [{"text": " ".join(["good"] * n + ["bad"] * (5 - n)), "score": n / 5} for n in range(6)] * 8
    write(tmp_path / "train.jsonl", records)  # type: ignore[arg-type]
    Run(TrainClassifier(recipe(encoder, tmp_path, epochs=20, regression=True))).train()
    assert Store(tmp_path / "run").history()[-1]["pearson"] > 0.9
    verdict = Classifier.load(tmp_path / "run")(["good good good good good"])[0]
    assert verdict.score > 0.6
    assert list(verdict.scores) == ["score"]


def test_a_tagger_learns_and_is_used(encoder: Path, tmp_path: Path) -> None:
    texts = [f"{name} playing in {place}{stop}" for name in ("anna", "bo", "彭小军")
             for place in ("paris", "rome", "台湾") for stop in (".", "。")]  # fmt: skip
    records = []
    for text in texts * 3:
        found = [(word, "name") for word in ("anna", "bo", "彭小军")] + [
            (word, "place") for word in ("paris", "rome", "台湾")
        ]
        records.append(
            {
                "text": text,
                "entities": [
                    {"kind": kind, "start": text.index(word), "end": text.index(word) + len(word)}
                    for word, kind in found
                    if word in text
                ],
            }
        )
    write(tmp_path / "train.jsonl", records)  # type: ignore[arg-type]
    Run(TrainTagger(recipe(encoder, tmp_path, epochs=20))).train()
    assert Store(tmp_path / "run").history()[-1]["f1"] > 0.95
    shown = json.loads(invoke("tag", "--model", str(tmp_path / "run"), "anna playing in 台湾。", "--json"))
    assert [each["text"] for each in shown["entities"]] == ["anna", "台湾"]
    assert "place: 台湾" in invoke("tag", "--model", str(tmp_path / "run"), "anna playing in 台湾。")
    scored = json.loads(
        invoke("evaluate", "tagger", str(tmp_path / "train.jsonl"), "--model", str(tmp_path / "run"), "--json")
    )
    assert set(scored) == {"all", "name", "place"}
    text = "anna playing in rome, bo playing in 台湾。" * 20
    found = Tagger(load(tmp_path / "run"), length=10)([text])
    assert len(text) > 64 * 5, "longer than can be read at once"
    assert len(found[0]) == 80
    assert {(text[e.start : e.end], e.kind) for e in found[0]} == {
        ("anna", "name"), ("bo", "name"), ("rome", "place"), ("台湾", "place")
    }  # fmt: skip


def test_records_packed_into_steps_are_each_read_once_an_epoch(encoder: Path, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", [{"text": "good " * n, "label": n % 2} for n in range(1, 22)])
    job = TrainClassifier(recipe(encoder, tmp_path, batch=4, epochs=2))
    job.read(job.begin()[""], tmp_path)
    assert job.steps == 12
    stream = job.batches(DataCursor())
    for _ in range(2):
        steps = [next(stream) for _ in range(6)]
        lengths = [len(example.layout) for rows, _ in steps for row in rows for example in row]
        assert sorted(lengths) == list(range(3, 24))
    again = job.batches(steps[2][1])
    assert [len(e.layout) for row in next(again)[0] for e in row] == [len(e.layout) for row in steps[3][0] for e in row]


@pytest.mark.parametrize(
    ("records", "changes", "sentence"),
    [
        ([{"text": "a", "label": "x"}], {}, "All training records have the label 'x'"),
        ([{"text": "a"}], {}, "Some records have no label"),
        ([{"text": "a", "label": "x"}], {"regression": True}, "A label is not a number"),
        ([{"text": "a", "label": "x"}], {"epochs": 0}, "'epochs' has to be above 0"),
        ([{"text": "a", "label": "x"}], {"start": ""}, "lacks the checkpoint to fine-tune"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(
    encoder: Path, tmp_path: Path, records: list[dict[str, object]], changes: dict[str, object], sentence: str
) -> None:
    write(tmp_path / "train.jsonl", records)
    with pytest.raises(MasqueradeError, match=sentence):
        Run(TrainClassifier(recipe(encoder, tmp_path, **changes)))


def test_a_model_without_the_head_is_one_sentence(encoder: Path) -> None:
    with pytest.raises(MasqueradeError, match="has no 'classify' head"):
        Classifier.load(encoder)
    with pytest.raises(MasqueradeError, match="has no 'tag' head"):
        Tagger.load(encoder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.json", b"[" * 100_000),
        ("infinite.jsonl", b'{"text": "abc", "entities": [{"kind": "x", "start": Infinity, "end": 2}]}'),
        ("cut.jsonl", b'{"text": "a"'),
        ("not.parquet", b"nothing of the kind"),
        ("binary.csv", bytes(range(256))),
    ],
)
def test_broken_files_are_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MasqueradeError, match=name):
        read_tagged(str(tmp_path / name))


def test_long_fields_of_a_table_are_read(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("text,label\n" + "x" * 200_000 + ",1\n")
    assert len(read_classified(str(tmp_path / "long.csv"))[0].text) == 200_000
