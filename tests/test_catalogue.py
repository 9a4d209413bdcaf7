"""The list of models says what is so, and the drawings show it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import transformers
from PIL import Image
from rich.cells import cell_len

from masquerade import Spec, build, masks
from masquerade.cli.show.models import show_models
from masquerade.drawing import pictures as draw
from masquerade.drawing.diagram import Figure, diagram, lay_figure, plan
from masquerade.errors import MasqueradeError
from masquerade.families import FAMILIES, catalogue
from masquerade.families.catalogue import CATALOGUE, base_spec, count, names, row
from masquerade.nn.heads import MAKERS

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "adding-a-family.md"
SMALL = Spec(vocab=50, width=16, layers=3, heads=2, feedforward=24, outputs=("lm",))
REFERENCES = {
    "bert": "BertForPreTraining",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "albert": "AlbertForPreTraining",
    "electra": "ElectraForPreTraining",
    "ernie": "ErnieForMaskedLM",
    "roformer": "RoFormerForMaskedLM",
    "mpnet": "MPNetForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "deberta-v2": "DebertaV2ForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "xlnet": "XLNetLMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
}
PUBLISHED = {  # millions, as their papers and releases say
    "transfo-xl": 151,
    "mass": 123,
    "mt5": 582,
    "glm": 109,
}
SPECS = {
    "norm after": SMALL,
    "norm before": replace(SMALL, norm_first=True, norm="rms", embedding_norm=False, final_norm=True, gated=True),
    "shared layers": replace(SMALL, groups=1, embedding=8, tasks=3),
    "everything in attention": replace(SMALL, positions=("rotary", "buckets", "transformer-xl"), segment_relation=True),
    "every head": replace(SMALL, outputs=tuple(MAKERS)),
    "a recurrent stack": replace(SMALL, recurrent="lstm", positions=()),
    "a part between layers": replace(SMALL, between={1: ("fork", {})}),
    "no head": replace(SMALL, outputs=()),
    "two stacks": replace(SMALL, decoder=replace(SMALL, cross=True, mask="causal", outputs=(), layers=5)),
}


def text(figure: Figure) -> str:
    return "\n".join(line.plain for line in plan(figure))


@pytest.mark.parametrize("name", REFERENCES)
def test_parameters_are_as_many_as_the_reference_has(name: str) -> None:
    reference = getattr(transformers, REFERENCES[name])
    with torch.device("meta"):
        theirs = reference(reference.config_class(**CATALOGUE[name].base))
    learned = sum(weight.numel() for weight in theirs.parameters() if weight.requires_grad)
    bias = sum(value.numel() for key, value in theirs.named_buffers() if key == "final_logits_bias")
    assert count(base_spec(name)) == learned + bias


@pytest.mark.parametrize("name", PUBLISHED)
def test_models_without_a_reference_have_the_published_size(name: str) -> None:
    assert count(base_spec(name)) // 10**6 == PUBLISHED[name]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_counting_without_memory_equals_counting_a_built_network(spec: Spec) -> None:
    assert count(spec) == sum(weight.numel() for weight in build(spec).parameters())


def test_every_family_has_an_entry_and_every_entry_a_family() -> None:
    assert set(FAMILIES) <= set(CATALOGUE)
    assert {entry.family or name for name, entry in CATALOGUE.items()} == set(FAMILIES)
    assert sorted(names()) == sorted(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_masks_and_tests_of_an_entry_exist(name: str) -> None:
    entry = CATALOGUE[name]
    assert all(callable(getattr(masks, each)) for each in entry.masks)
    file, _, test = entry.parity.partition("::")
    assert f"\ndef {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_family_without_an_entry_is_listed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "new", replace(FAMILIES["bert"], name="new", about="brand new"))
    assert names()[-1] == "new"
    assert row("new") == catalogue.CatalogueRow("new", "brand new")
    with pytest.raises(MasqueradeError, match=r"^The catalogue does not know a published size of 'new'; .*\.$"):
        show_models("new")


def test_the_list_is_printed_with_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    show_models()
    shown = capsys.readouterr().out
    assert all(name in shown for name in names())
    assert "110.1 million" in shown


def test_the_list_as_json_holds_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    show_models(as_json=True)
    rows = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(rows) == names()
    assert (rows["bert"]["parameters"], rows["bert"]["layers"], rows["bert"]["masks"]) == (
        110_106_428,
        12,
        ["bidirectional"],
    )
    assert (rows["bart"]["layers"], rows["bart"]["decoder_layers"]) == (6, 6)
    show_models("spanbert", as_json=True)
    assert json.loads(capsys.readouterr().out)["model"] == "spanbert-base-cased"


def test_an_unknown_model_is_one_sentence_with_the_names(tmp_path: Path) -> None:
    for as_json in (False, True):
        with pytest.raises(MasqueradeError, match=r"^There is no model 'gpt9'; there are bert, .*masquerade\.$"):
            show_models("gpt9", as_json=as_json)
    with pytest.raises(MasqueradeError, match=r"^--out is for the drawing of one model; .*\.$"):
        show_models(out=tmp_path / "x.svg")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_is_drawn_in_the_usual_terminal(name: str) -> None:
    spec, entry = base_spec(name), CATALOGUE[name]
    shown = text(diagram(spec, name, masks=entry.masks))
    assert all(cell_len(line) <= 80 for line in shown.splitlines())
    words = " ".join(re.sub(r"[^\w,→× ]", " ", shown).split())
    assert f"{spec.vocab:,} × {spec.embedding or spec.width}" in words
    assert f"{spec.heads} heads of {spec.head_width}" in words
    assert f"{spec.width:,} → {spec.feedforward:,} → {spec.width:,}, {spec.activation}" in words
    assert all(mask in words for mask in entry.masks)
    assert all(head in words for head in spec.all_heads)
    assert ("attention to the source" in words) == (spec.decoder is not None)


def test_shared_layers_say_so() -> None:
    assert "1 set of weights, used 12 times" in text(diagram(base_spec("albert"), "albert"))
    grouped = replace(SMALL, layers=4, groups=2)
    assert "2 sets of weights, used 4 times" in text(diagram(grouped, ""))
    assert "× 3" in text(diagram(SMALL, ""))


def test_norms_stand_where_the_spec_puts_them() -> None:
    def order(spec: Spec) -> list[str]:
        """The names of the parts from bottom to top."""
        blocks = [block for block in diagram(spec, "").blocks if block.kind in ("norm", "attention", "feedforward")]
        return [block.lines[0] for block in sorted(blocks, key=lambda block: -block.y)]

    after = ["self-attention", "add & layer norm", "feed-forward", "add & layer norm"]
    assert order(SMALL) == ["layer norm", *after]
    before = ["RMS norm", "self-attention", "add", "RMS norm", "gated feed-forward", "add", "RMS norm"]
    assert order(SPECS["norm before"]) == before


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_blocks_do_not_cover_each_other_and_their_text_fits(spec: Spec) -> None:
    figure = diagram(spec, "any", "A caption.")
    blocks = [block for block in figure.blocks if block.kind != "frame"]
    for index, one in enumerate(blocks):
        assert all(len(line) <= one.width - 4 for line in one.lines)
        for other in blocks[:index]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height - 1 <= other.y or other.y + other.height - 1 <= one.y
    drawing = lay_figure(figure)
    for label in drawing.labels:
        long = draw.measure(label.text, label.size)
        start = label.x - {"start": 0, "middle": long / 2}[label.anchor]
        assert 0 <= start <= start + long <= drawing.width
        assert 0 < label.y < drawing.height


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_way_ends_at_a_block(spec: Spec) -> None:
    figure = diagram(spec, "")
    for way in figure.ways:
        x, y = way[-1]
        borders = [b for b in figure.blocks if x in (b.x, b.x + b.width - 1) or y in (b.y, b.y + b.height - 1)]
        assert any(b.x <= x < b.x + b.width and b.y <= y < b.y + b.height for b in borders)
        assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(way))
    assert sum(text(figure).count(tip) for tip in "▲▼◀▶") == len(figure.ways)


def test_every_head_is_drawn_with_what_it_scores() -> None:
    shown = text(diagram(SPECS["every head"], ""))
    assert all(f"{head}: " in shown for head in MAKERS)


def test_a_recurrent_stack_is_drawn_without_attention() -> None:
    shown = text(diagram(SPECS["a recurrent stack"], ""))
    assert "LSTM" in shown and "attention" not in shown and "heads of" not in shown


def test_a_reader_is_drawn_from_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    show_models(str(ROOT / "models" / "reader-zh"))
    shown = capsys.readouterr().out
    assert "copy: tokens of the passage" in shown and "fork before layer 2" in shown


def test_a_drawing_is_saved_as_svg_and_png(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("t5.svg", "t5.png"):
        show_models("t5", out=tmp_path / name)
    root = ElementTree.parse(tmp_path / "t5.svg").getroot()
    written = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"decoder × 12", "attention to the source", "32,128 × 768"} <= set(written)
    image = Image.open(io.BytesIO((tmp_path / "t5.png").read_bytes()))
    assert image.size == (2 * int(root.get("width", 0)), 2 * int(root.get("height", 0)))
    assert capsys.readouterr().out.count("drawn: ") == 2


def test_code_quoted_in_the_guide_is_in_the_files_it_names() -> None:
    quoted = re.findall(r"```python (\S+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(quoted) >= 4
    for file, code in quoted:
        assert code in (ROOT / file).read_text(encoding="utf-8"), f"{file} no longer has: {code}"


def test_every_file_and_field_the_guide_names_exists() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    for name in re.findall(r"`(tests/[\w/]+\.py)`", guide):
        assert (ROOT / name).is_file()
    for name in re.findall(r"`(\w+\.py)`", guide):
        assert list((ROOT / "src").rglob(name))
    fields = FAMILIES["bert"].__dataclass_fields__
    assert all(f"`{name}`" in guide for name in fields)
