"""Checkpoints of every format, whole and damaged."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from parity import TINY, assert_close, padded, randomised
from safetensors.torch import load_file, save_file

import masquerade
from masquerade import Spec, build, load, save
from masquerade.checkpoints.weights import read_tensorflow
from masquerade.errors import CheckpointError, MasqueradeError, SpecError
from masquerade.masks import bidirectional

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A tiny BERT with both pretraining heads, as the reference library saves it."""
    randomised(transformers.BertForPreTraining(transformers.BertConfig(**TINY))).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Save a folder's weights again, changed."""
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def logits(folder: Path) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        got = load(folder).logits(**padded())
    return got if isinstance(got, tuple) else (got,)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_a_tensorflow_checkpoint_gives_the_published_computation(name: str, tmp_path: Path) -> None:
    folder = FIXTURES / "tensorflow" / name
    expected = load_file(folder / "expected.safetensors")
    inputs = {key: expected[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
    index = next(folder.glob("*.index"))
    for source in (folder_of_tensorflow(folder, tmp_path), index.with_suffix(""), index):
        model = load(source)
        with torch.no_grad():
            assert_close(model.logits(**inputs), (expected["mlm_logits"], expected["nsp_logits"]))
    save(model, tmp_path / "saved")
    again = getattr(transformers, f"{name.capitalize()}ForPreTraining").from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        output = again(**inputs)
    assert_close((output.prediction_logits, output[1]), (expected["mlm_logits"], expected["nsp_logits"]))


def folder_of_tensorflow(source: Path, tmp_path: Path) -> Path:
    """A folder with the TensorFlow files alone."""
    target = tmp_path / "tensorflow"
    target.mkdir()
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            (target / path.name).write_bytes(path.read_bytes())
    return target


def test_a_tensorflow_vocabulary_comes_along() -> None:
    tokenizer = load(FIXTURES / "tensorflow" / "bert" / "bert_model.ckpt").tokenizer
    assert tokenizer is not None
    assert tokenizer.tokens([tokenizer.special("mask")]) == ["[MASK]"]


def test_optimizer_variables_are_left_in_the_file() -> None:
    weights = read_tensorflow(FIXTURES / "tensorflow" / "bert" / "bert_model.ckpt")
    assert not [name for name in weights if "adam" in name or "global_step" in name]


def test_old_spellings_and_prefixes_are_understood(bert: Path) -> None:
    expected = logits(bert)

    def age(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        old = {}
        for name, tensor in weights.items():
            if "LayerNorm" in name:
                name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            old[f"module.{name}"] = tensor
        old["module.bert.embeddings.position_ids"] = torch.arange(64)[None]
        old["module.cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
        return old

    rewrite(bert, age)
    assert_close(logits(bert), expected)


def test_pickled_sharded_and_half_precision_weights_are_read(bert: Path) -> None:
    expected = logits(bert)
    weights = load_file(bert / "model.safetensors")
    (bert / "model.safetensors").unlink()

    torch.save(weights, bert / "pytorch_model.bin")
    assert_close(logits(bert), expected)
    (bert / "pytorch_model.bin").unlink()

    halves = [dict(list(weights.items())[::2]), dict(list(weights.items())[1::2])]
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, half in zip(files, halves, strict=True):
        save_file(half, bert / name)
    where = {key: name for name, half in zip(files, halves, strict=True) for key in half}
    (bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert_close(logits(bert), expected)

    (bert / files[1]).unlink()
    with pytest.raises(CheckpointError, match=r"00002-of-00002\.safetensors is missing"):
        load(bert)

    (bert / "model.safetensors.index.json").unlink()
    save_file({name: tensor.half() for name, tensor in weights.items()}, bert / "model.safetensors")
    assert all(weight.dtype == torch.float32 for weight in load(bert).parameters())


def test_heads_the_architecture_does_not_name_are_kept_but_do_not_answer(bert: Path, tmp_path: Path) -> None:
    words, pair = logits(bert)
    config = json.loads((bert / "config.json").read_text()) | {"architectures": ["BertForMaskedLM"]}
    (bert / "config.json").write_text(json.dumps(config))
    model = load(bert)
    assert (model.spec.outputs, model.spec.spare) == (("lm",), ("pair",))
    assert_close(logits(bert), (words,))
    save(model, tmp_path / "again")
    assert load(tmp_path / "again").spec == model.spec
    layout = masquerade.Layout.of(padded()["input_ids"])
    with torch.no_grad():
        assert_close((load(tmp_path / "again").scores(layout, "pair"),), (model.scores(layout, "pair"),))
    assert pair.shape == (3, 2)


def test_a_configuration_without_names_is_recognised_by_its_weights(bert: Path) -> None:
    expected = logits(bert)
    config = json.loads((bert / "config.json").read_text())
    del config["architectures"], config["model_type"]
    (bert / "config.json").unlink()
    (bert / "bert_config.json").write_text(json.dumps(config))
    assert_close(logits(bert), expected)


def test_the_older_chinese_albert_equals_its_factors_multiplied_out(tmp_path: Path) -> None:
    spec = Spec(
        family="albert_zh", vocab=50, width=12, layers=3, heads=2, feedforward=20, longest=32, embedding=6,
        project_words=True, groups=1, dropout=0.0, attention_dropout=0.0, outputs=("lm",), init_std=0.4,
    )  # fmt: skip
    model = build(spec).eval()
    save(model, tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert "bert.embeddings.word_embeddings_2.weight" in names
    assert "bert.encoder.layer_shared.attention.self.query.weight" in names
    names["cls.predictions.decoder.weight"] = torch.randn(50, 6)  # what old files hold there is not what is used
    names["cls.predictions.project_layer.weight"] = torch.randn(6, 12)
    save_file(names, tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = load(tmp_path)
    assert again.spec.family == "albert_zh"

    plain = build(Spec(**{**spec.__dict__, "family": "bert", "embedding": None, "project_words": False})).eval()
    weights = model.state_dict()
    weights["words.table.weight"] = weights["words.table.weight"] @ weights.pop("words.project.weight").T
    plain.load_state_dict(weights)
    layout = bidirectional(range(5, 20))
    with torch.no_grad():
        assert_close((again.scores(layout),), (plain.scores(layout),))


def test_any_spec_can_be_saved_in_our_own_format(tmp_path: Path) -> None:
    spec = Spec(
        vocab=40, width=16, layers=2, heads=2, feedforward=20, norm_first=True, norm="rms", positions=("nezha",),
        outputs=("lm", "boundary"), spare=("tag",), labels=("一", "二", "三"), tied=False,
    )  # fmt: skip
    model = build(spec).eval()
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == spec
    with torch.no_grad():
        layout = bidirectional([5, 6, 7])
        assert torch.equal(again.scores(layout), model.scores(layout))


def test_a_spec_its_family_cannot_describe_is_not_saved_as_something_else(tmp_path: Path) -> None:
    spec = Spec(family="bert", vocab=40, width=16, layers=1, heads=2, feedforward=20, norm_first=True)
    with pytest.raises(SpecError, match="A 'bert' configuration cannot express that 'embedding_norm' is False"):
        save(build(spec), tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_spanbert_is_saved_with_its_boundary_head_and_still_loads_as_bert(tmp_path: Path) -> None:
    spec = Spec(
        family="bert", vocab=40, width=16, layers=1, heads=2, feedforward=20, outputs=("lm",), spare=("boundary",)
    )
    model = build(spec).eval()
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == spec
    assert torch.equal(
        again.state_dict()["heads.boundary.place.weight"], model.state_dict()["heads.boundary.place.weight"]
    )
    inputs = padded(vocab=40)
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(theirs(**inputs).logits, again.logits(**inputs), atol=1e-5, rtol=0)


OUTPUT = "encoder.layer.1.output.dense.weight"
WORDS = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("gone", "new", "sentence"),
    [
        (OUTPUT, {}, f"lacks the weight '{OUTPUT}'"),
        ("", {"bert.encoder.layer.9.extra.weight": torch.zeros(2)}, "'encoder.layer.9.extra.weight' that a bert model"),
        ("", {"bert.pooler.dense.bias": torch.zeros(7)}, "'pooler.dense.bias' in .* has shape .7,., .* requires .32,."),
        (WORDS, {}, "no token embeddings"),
    ],
    ids=["missing", "unexpected", "wrong shape", "no embeddings"],
)
def test_weights_that_do_not_fit_are_named(bert: Path, gone: str, new: dict[str, torch.Tensor], sentence: str) -> None:
    rewrite(bert, lambda weights: {name: weights[name] for name in weights if name != f"bert.{gone}"} | new)
    with pytest.raises(CheckpointError, match=sentence):
        load(bert)


def test_a_truncated_file_is_one_sentence(bert: Path) -> None:
    data = (bert / "model.safetensors").read_bytes()
    (bert / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged or cut short"):
        load(bert)
    weights = bert / "pytorch_model.bin"
    (bert / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(100)}, weights)
    weights.write_bytes(weights.read_bytes()[:300])
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is damaged or cut short"):
        load(bert)


class Trap:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("the trap has sprung",))


def test_a_pickle_that_is_not_plain_tensors_is_refused_and_not_run(
    bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bert / "model.safetensors").unlink()
    torch.save({"weights": Trap()}, bert / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds more than plain tensors"):
        load(bert)
    (bert / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": Trap()}))
    with pytest.raises(CheckpointError, match=r"more than plain tensors|damaged"):
        load(bert)
    torch.save({"names": ["a", "b"]}, bert / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="something other than named tensors"):
        load(bert)
    assert "sprung" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "is not readable JSON"),
        ("[1]", "holds no JSON object"),
        ('{"model_type": "whisper"}', "family 'whisper', not supported here"),
        ('{"model_type": "bert"}', "has no '[a-z_]+'"),
        ('{"model_type": "bert", "architectures": ["BertForVideo"]}', "holds a BertForVideo"),
        ('{"model_type": "bert", "hidden_size": "wide", "num_attention_heads": 5, "vocab_size": 9, "num_hidden_layers": 1}',  # noqa: E501
         "does not describe a bert model"),
        ('{"model_type": "bert", "hidden_size": 32, "num_attention_heads": 5, "vocab_size": 9, "num_hidden_layers": 1}',
         "cannot be split into 5 heads"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_sentence(bert: Path, config: str, sentence: str) -> None:
    (bert / "config.json").write_text(config)
    with pytest.raises(MasqueradeError, match=sentence):
        load(bert)


def test_places_without_a_model_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint at '\./nowhere'"):
        load("./nowhere")
    with pytest.raises(CheckpointError, match=r"holds no config\.json"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="holds no weights"):
        load(tmp_path)


def test_a_hub_id_without_a_connection_is_one_sentence() -> None:
    with pytest.raises(
        CheckpointError, match="'nobody/nothing' is no local folder and cannot be downloaded from the hub"
    ):
        load("nobody/nothing")


def test_a_failed_save_leaves_what_was_there(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, before = load(bert), {path.name: path.read_bytes() for path in bert.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(MasqueradeError, match=r"model\.safetensors cannot be written: No space left on device"):
        save(model, bert)
    assert {path.name: path.read_bytes() for path in bert.iterdir()} == before


def test_loading_draws_no_random_numbers(tmp_path: Path) -> None:
    save(build(Spec(vocab=20, width=8, layers=1, heads=2, feedforward=8, outputs=("lm",))), tmp_path / "model")
    before = torch.get_rng_state()
    load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_written_as_bytes_come_back_within_half_a_step_of_their_rows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = masquerade.build(Spec(family="masquerade", vocab=600, width=64, layers=2, heads=4, feedforward=1024))
    masquerade.save(model, tmp_path / "whole")
    masquerade.save(model, tmp_path / "bytes", torch.int8)
    back, ours = masquerade.load(tmp_path / "bytes").state_dict(), model.state_dict()
    rounded = 0
    for name, tensor in ours.items():
        large = tensor.dim() == 2 and tensor.numel() >= 2**15
        step = tensor.abs().amax(dim=1, keepdim=True) / 127 if large else 1e-3 * tensor.abs() + 1e-6
        assert ((back[name] - tensor).abs() <= 0.5001 * step + 1e-7).all(), name
        rounded += large
    assert rounded >= 5  # the embeddings and the feed-forward matrices of both layers
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "bytes")]
    assert sizes[1] < 0.32 * sizes[0]


def test_scales_without_their_matrix_are_refused(tmp_path: Path) -> None:
    model = masquerade.build(Spec(family="masquerade", vocab=600, width=64, layers=1, heads=4, feedforward=64))
    masquerade.save(model, tmp_path, torch.int8)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith(".int8_scale"))
    weights.pop(name.removesuffix(".int8_scale"))
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="without a matrix"):
        masquerade.load(tmp_path)
