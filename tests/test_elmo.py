"""ELMo: two language models trained together, and their states as features of classifiers and taggers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from training_cases import make_home, recipe

from masquerade import load
from masquerade.data.packing import DataCursor, collate
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.tagger import Tagger
from masquerade.labelling.training import TrainClassifier, TrainTagger
from masquerade.layout import IGNORE, pad
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.features import LanguageModelFeatures, with_features
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.objectives.elmo import ElmoLoss
from masquerade.training.loop import Run
from masquerade.training.recipe import FineTuning


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("elmo"))


@pytest.fixture(scope="module")
def elmo(home: Path) -> Path:
    """A run of both language models, and a fresh network with the same vocabulary."""
    fresh = ["rate=0", "steps=1", "save_every=1", "model.dropout=0.0", "model.attention_dropout=0.0"]
    Run(recipe(home, home / "fresh", *fresh)).train()
    changes = ["objective=elmo", "steps=40", "save_every=20", "evaluate_every=40"]
    Run(recipe(home, home / "elmo", *changes)).train()
    return home / "elmo"


def models(elmo: Path) -> tuple[Model, Model]:
    return load(elmo / "step-40"), load(elmo / "step-40" / "backward")


def test_both_directions_learn_and_share_their_words(home: Path, elmo: Path, tmp_path: Path) -> None:
    ahead, back = models(elmo)
    assert ahead.spec.recurrent == back.spec.recurrent == "lstm"
    assert torch.equal(ahead.words.table.weight, back.words.table.weight)
    logged = [json.loads(line) for line in (elmo / "log.jsonl").read_text().splitlines()]
    held_out = [entry for entry in logged if "held_out" in entry]
    for term in ("tokens", "backward"):
        assert held_out[-1][term] < held_out[0][term] - 0.1
    run = Run(recipe(home, tmp_path, "objective=elmo"))
    loss = run.bare
    assert isinstance(loss, ElmoLoss)
    batch = collate(next(run.job.batches(DataCursor()))[0])
    assert batch.source is not None
    for layout, towards in ((batch.layout, 1), (batch.source, -1)):
        labelled = (layout.label != IGNORE)[0].nonzero()[:, 0]
        assert (layout.label[0, labelled] == layout.ids[0, labelled + 1]).all(), towards
    first = batch.layout.document[0] == 0
    assert batch.source.ids[0, first].flip(0).equal(batch.layout.ids[0, first])


def test_features_are_the_states_of_both_models(elmo: Path) -> None:
    ahead, back = (model.eval() for model in models(elmo))
    torch.manual_seed(0)
    base = build(Spec(vocab=ahead.spec.vocab, width=8, layers=1, heads=2, feedforward=8, segments=0, longest=20))
    model = with_features(base, ahead, back).eval()
    part = model.stack.between["0"]
    assert isinstance(part, LanguageModelFeatures)
    texts = [[2, 7, 9, 8, 3], [2, 11, 3]]
    packed = pad(pack([bidirectional(ids) for ids in texts]), 10).batched()
    found = part.layers(packed)
    assert found.shape == (3, 1, 10, 2 * ahead.spec.width)
    width, start = ahead.spec.width, 0
    with torch.no_grad():
        for ids in texts:
            stop = start + len(ids)
            last = found[2, 0, start:stop]
            assert torch.allclose(last[:, :width], ahead.hidden(causal(ids))[0], atol=1e-6)
            assert torch.allclose(last[:, width:].flip(0), back.hidden(causal(ids[::-1]))[0], atol=1e-6)
            words = ahead.words.table.weight[ids]
            assert torch.allclose(found[0, 0, start:stop], torch.cat([words, words], -1))
            start = stop
    assert not found[:, :, 8:].any()
    alone = [model.hidden(bidirectional(ids))[0] for ids in texts]
    assert torch.allclose(model.hidden(packed)[0, :8], torch.cat(alone), atol=1e-5)
    mixed = found.mean(0)
    states = model.embed(packed) + part.map(mixed)
    assert torch.allclose(base.eval().stack(states, packed).states[0, :8], torch.cat(alone), atol=1e-5)
    trained = {name for name, weight in part.named_parameters() if weight.requires_grad}
    assert trained == {"shares", "scale", "map.weight", "map.bias"}
    with pytest.raises(MasqueradeError, match="same vocabulary"):
        with_features(build(Spec(vocab=9, width=8, layers=1, heads=2, feedforward=8)), ahead, back)


def test_a_classifier_and_a_tagger_are_trained_with_features_and_loaded(home: Path, elmo: Path, tmp_path: Path) -> None:
    lines = [
        ("the cat sat on warm mat .", "en"),
        ("北京是首都。", "zh"),
        ("dogs run by old house", "en"),
        ("是首都北京", "zh"),
    ]
    (tmp_path / "c.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in lines * 4), encoding="utf-8")
    common = {"start": str(home / "fresh"), "features": str(elmo), "length": 20, "row": 40, "micro": 8, "rate": 0.02}
    common |= {"batch": 4, "epochs": 6.0, "log_every": 1, "evaluate_every": 24, "save_every": 24}
    files = {"train": (str(tmp_path / "c.tsv"),), "held_out": (str(tmp_path / "c.tsv"),)}
    Run(TrainClassifier(FineTuning(**files, out=str(tmp_path / "c"), **common))).train()  # type: ignore[arg-type]
    loaded = Classifier.load(tmp_path / "c")
    assert [each.label for each in loaded([text for text, _ in lines])] == [label for _, label in lines]
    part = loaded.model.stack.between["0"]
    assert isinstance(part, LanguageModelFeatures)
    ahead = models(elmo)[0]
    assert torch.equal(part.words.weight, ahead.words.table.weight), "the language models are not trained any more"
    assert part.shares.detach().abs().max() > 1e-4, "their shares are"
    tagged = {"text": "北京是首都", "entities": [{"kind": "place", "start": 0, "end": 2}]}
    (tmp_path / "t.jsonl").write_text((json.dumps(tagged) + "\n") * 8, encoding="utf-8")
    files = {"train": (str(tmp_path / "t.jsonl"),), "held_out": ()}
    Run(TrainTagger(FineTuning(**files, out=str(tmp_path / "t"), **common))).train()  # type: ignore[arg-type]
    assert [entity.start for entity in Tagger.load(tmp_path / "t")(["北京是首都"])[0]] == [0]
    with pytest.raises(MasqueradeError, match=r"is no run of ELMo's"):
        Run(TrainTagger(FineTuning(**files, out=str(tmp_path / "u"), **common | {"features": str(home / "fresh")})))  # type: ignore[arg-type]
