"""Recipes with stages, text prefixes in mixtures, UniLM's pairs, names of a corpus, and where a hole is filled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training_cases import losses, make_home, recipe

from masquerade import build, load
from masquerade.data.corpus import prepare
from masquerade.data.packing import DataCursor
from masquerade.data.rng import rng_for, spread
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.nn.model import Model
from masquerade.nn.spec import Spec
from masquerade.objectives.grouping import corpus_names
from masquerade.objectives.registry import entry, make_objective
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.loop import Run
from masquerade.training.pretraining import pretrain
from masquerade.training.recipe import Pretraining, read_recipe
from masquerade.writing.fill import fill
from masquerade.writing.perplexity import perplexity
from masquerade.writing.prompts import Decode, frame_for


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("stages"))


def tokenizer_of(home: Path) -> Tokenizer:
    tokenizer = Tokenizer.load(home)
    assert tokenizer is not None
    return tokenizer


def test_the_stages_of_a_recipe_follow_each_other(home: Path, tmp_path: Path) -> None:
    changes = ["objective=palm", "stages=[{options={stage=1}, steps=4}, {options={stage=2}, steps=6}]", "held_out=[]"]
    made = read_recipe(home / "recipe.toml", Pretraining, [f'out="{tmp_path / "palm"}"', *changes])
    pretrain(made)
    assert sorted(losses(tmp_path / "palm" / "stage-1")) == [1, 2, 3, 4]
    assert sorted(losses(tmp_path / "palm")) == [1, 2, 3, 4, 5, 6]
    first = load(tmp_path / "palm" / "stage-1" / "step-4")
    again = Run(recipe(home, tmp_path / "two", "objective=palm", f'start="{tmp_path / "palm" / "stage-1"}"'))
    weights = again.bare.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in first.state_dict().items())
    with pytest.raises(MasqueradeError, match="already holds a run"):
        pretrain(made)
    pretrain(made, resume=True)  # nothing is left to do
    assert load(tmp_path / "palm").spec.family == "palm"
    with pytest.raises(MasqueradeError, match="Stage 1 of the recipe has an unknown key"):
        pretrain(read_recipe(home / "recipe.toml", Pretraining, [f'out="{tmp_path}"', "stages=[{colour=1}]"]))


def test_the_objectives_of_a_mixture_are_told_apart_by_text_prefixes(home: Path, tmp_path: Path) -> None:
    options = {"bart": {"share": 0.5, "prefix": "red sea"}, "mass": {"share": 0.5, "prefix": "blue sea ?"}}
    tokenizer = tokenizer_of(home)
    made = make_objective("mixture", tokenizer, options)
    pieces = made.cut(prepare([str(home / "text.txt")], tokenizer, tmp_path / "tokens"), 20)
    found = set()
    prefixes = {tuple(tokenizer.encode(text)): text for text in ("red sea", "blue sea ?")}
    for number in range(20):
        source = made.example(pieces, number, rng_for(1, number), spread(number)).source
        assert source is not None
        assert len(source) <= 22, "the prefix has its place in the length; BART's infilling may add to it"
        assert source.position.tolist() == list(range(len(source)))
        ids = source.ids.tolist()
        assert ids[0] == tokenizer.special("cls")
        found |= {text for prefix, text in prefixes.items() if tuple(ids[1 : 1 + len(prefix)]) == prefix}
    assert found == {"red sea", "blue sea ?"}
    for wrong in ({"mlm": {"share": 1, "prefix": "red"}}, {"bart": {"prefix": 3}}):
        with pytest.raises(MasqueradeError, match=r"The prefix of '(mlm|bart)' has to be text"):
            make_objective("mixture", tokenizer, wrong)
    with pytest.raises(MasqueradeError, match="leaves 2 of 5 tokens"):
        made.cut(prepare([str(home / "text.txt")], tokenizer, tmp_path / "tokens"), 5)


def test_a_third_of_unilms_pieces_are_pairs_of_texts(home: Path, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(home)
    made = make_objective("unilm", tokenizer, {})
    assert set(made.terms()) == {"tokens", "pairs"}
    pieces = made.cut(prepare([str(home / "text.txt")], tokenizer, tmp_path / "tokens"), 20)
    examples = [made.example(pieces, n % len(pieces), rng_for(2, n), spread(n)) for n in range(90)]
    pairs = [example for example in examples if example.count("sentence_label")]
    assert 28 <= len(pairs) <= 32
    for example in examples:
        segments = set(example.layout.segment.tolist())
        assert segments <= ({0, 1} if example in pairs else {2, 3, 4, 5})
        assert bool((example.layout.rank == 0).all()) == (example in pairs)
    labels = {int(example.extra["sentence_label"].tensor) for example in pairs}
    assert labels == {0, 1}
    assert set(make_objective("unilm", tokenizer, {"nsp": False}).terms()) == {"tokens"}
    assert "pair" not in entry("unilm", {"nsp": False}).heads


def test_names_come_from_titles_and_links() -> None:
    text = "[[Paris]] lies on the [[Seine (river)|Seine]]; see [[France#History|its past]]."
    record = {
        "title": "Eiffel Tower (monument)",
        "links": ["Gustave Eiffel", {"title": "铁塔"}, {"text": "x"}],
        "text": text,
    }
    expected = ["Eiffel Tower", "Gustave Eiffel", "铁塔", "Paris", "Seine", "France", "its past"]
    assert corpus_names(record) == expected
    assert corpus_names({"text": "plain"}) == []


def test_masked_names_are_those_of_a_corpus(home: Path, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"title": "warm mat", "text": "the [[blue sea]] 北京", "links": ["北京"]}\n')
    tokenizer = tokenizer_of(home)
    made = make_objective("entity", tokenizer, {"names": str(tmp_path / "c.jsonl"), "rate": 0.4})
    ids = tokenizer.encode("the warm mat and blue sea 北 京", specials=True)
    for seed in range(20):
        label = made(ids, rng_for(seed)).layout.label
        for name in ("warm mat", "blue sea", "北 京"):
            start = ids.index(tokenizer.encode(name)[0])
            hidden = [int(label[start + place]) >= 0 for place in range(2)]
            assert hidden[0] == hidden[1], name


def small(**fields: object) -> Model:
    torch.manual_seed(0)
    size = {"vocab": 31, "width": 8, "layers": 1, "heads": 2, "feedforward": 8, "outputs": ("lm",)}
    return build(Spec.of({**size, **fields})).eval()


def test_mass_writes_at_the_positions_of_the_hole(home: Path, tmp_path: Path) -> None:
    Run(recipe(home, tmp_path, "objective=mass", "steps=1", "held_out=[]")).train()
    frame = frame_for(load(tmp_path))
    assert isinstance(frame, Decode)
    assert frame.hole == 4
    canvas = frame.canvas([[2, 7, 8, 4, 4, 9, 3], [2, 7, 3]])
    assert canvas.prompt.position.tolist() == [[2], [0]]
    assert canvas.first.position.tolist() == [[3], [1]]


def test_models_that_cannot_fill_or_have_no_perplexity_say_so(home: Path) -> None:
    gpt, glm, bert = small(mask="causal"), small(positions=("learned", "inner")), small()
    for model in (gpt, glm, bert):
        model.tokenizer = tokenizer_of(home)
    with pytest.raises(MasqueradeError, match="writes from left to right"):
        fill(gpt, "the [MASK] sat")
    with pytest.raises(MasqueradeError, match="A GLM writes its blanks"):
        fill(glm, "the [MASK] sat")
    assert len(fill(bert, "the [MASK] sat").guesses) == 1
    for model in (glm, bert):
        with pytest.raises(MasqueradeError, match="not trained to predict each next token"):
            perplexity(model, ["the cat"], length=8)
    assert perplexity(gpt, ["the cat"], length=8).tokens == 3


def test_xlnet_fills_a_mask_from_a_query(home: Path) -> None:
    model = small(query_vector=True, positions=("transformer-xl",), segment_relation=True, segments=0)
    model.tokenizer = tokenizer_of(home)
    ids = model.tokenizer.encode("the [MASK] sat", specials=True)
    layout = bidirectional(ids).replace(kind=[2 if number == 4 else 0 for number in ids])
    with torch.no_grad():
        expected = model.scores(layout)[0, ids.index(4)].softmax(-1)
    best = fill(model, "the [MASK] sat", top=1).guesses[0][0]
    assert best.id == int(expected.argmax())
    assert best.probability == pytest.approx(float(expected.max()), abs=1e-6)


def test_short_and_long_blanks_are_mixed_and_trained(home: Path, tmp_path: Path) -> None:
    run = Run(recipe(home, tmp_path, "objective=mixture", "options.glm=3", "options.glm-long=1", "steps=2"))
    assert run.bare.model.spec.positions == ("learned", "inner")
    rows = next(run.job.batches(DataCursor()))[0]
    shares = [float((example.layout.label != IGNORE).float().mean()) for row in rows for example in row]
    assert min(shares) < 0.3 < max(shares), "a few tokens are blank, or half of them and more"
    run.train()
    assert sorted(losses(tmp_path)) == [1, 2]


def test_what_is_left_out_of_a_text_is_chosen_in_the_recipe(home: Path, tmp_path: Path) -> None:
    tokenizer, rng = tokenizer_of(home), rng_for(3)
    ids = tokenizer.encode("cat sat . red sea . blue sea .")
    written = {}
    for strategy in ("lead", "ind-orig"):
        changes = ("objective=pegasus", f"options.strategy={strategy}", "options.rate=0.2")
        given = recipe(home, tmp_path / strategy, *changes).recipe
        made = make_objective(given.objective, tokenizer, given.options)
        written[strategy] = made(ids, rng).layout.label.tolist()[:-1]
    assert written == {"lead": ids[:3], "ind-orig": ids[3:6]}, "the sea is in two sentences"
    with pytest.raises(MasqueradeError, match="There is no strategy 'best'"):
        make_objective("pegasus", tokenizer, {"strategy": "best"})
