"""Every family against the reference library, with every head it has there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from parity import TINY, assert_close, check_parity, padded, randomised
from safetensors.torch import load_file, save_file

import masquerade
from masquerade import masks
from masquerade.errors import CheckpointError
from masquerade.families import FAMILIES as FAMILY_OF

FIXTURES = Path(__file__).parent / "fixtures"
ORACLES = Path(__file__).parents[2] / "shared" / "oracles"

FAMILIES = {  # what each has beyond a tiny BERT
    "Bert": {},
    "Roberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "XLMRoberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "Albert": {"embedding_size": 16, "num_hidden_layers": 2, "num_hidden_groups": 2, "inner_group_num": 2},
    "Electra": {"embedding_size": 16},
    "Ernie": {"use_task_id": True, "task_type_vocab_size": 4},
    "RoFormer": {"embedding_size": 16},
    "MPNet": {},
    "DistilBert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48},
    "DebertaV2": {  # as deberta-v3 has it
        "type_vocab_size": 0, "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm",
        "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "max_relative_positions": -1,
    },
}  # fmt: skip
HEADS = {
    "ForMaskedLM": {},
    "ForPreTraining": {},
    "ForNextSentencePrediction": {},
    "ForSequenceClassification": {"num_labels": 3},
    "ForTokenClassification": {"num_labels": 5},
    "ForQuestionAnswering": {},
    "LMHeadModel": {"is_decoder": True},
    "ForCausalLM": {"is_decoder": True},
}
MODELS = [(family, head) for family in FAMILIES for head in HEADS if hasattr(transformers, family + head)]


@pytest.mark.parametrize(("family", "head"), MODELS, ids=[family + head for family, head in MODELS])
def test_logits_equal_the_reference_and_survive_saving_back(family: str, head: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**TINY | FAMILIES[family] | HEADS[head])
    inputs = padded(segments=getattr(config, "type_vocab_size", 0) > 1)
    if family == "Ernie":
        inputs["task_type_ids"] = torch.arange(14).remainder(4).expand(3, 14)
    real = inputs["attention_mask"] > 0 if family == "DebertaV2" and "Sequence" not in head else None  # zeroes padding
    check_parity(getattr(transformers, family + head)(config), inputs, tmp_path, real)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Bert", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5}),
        ("Bert", {"tie_word_embeddings": False}),
        ("Roberta", {"pad_token_id": 4, "hidden_act": "relu"}),
        ("Albert", {"embedding_size": 32, "num_hidden_groups": 1}),
        ("Electra", {"embedding_size": 32, "hidden_act": "silu"}),
        ("Ernie", {"use_task_id": False}),
        ("MPNet", {"hidden_act": "gelu_new"}),
        ("RoFormer", {"embedding_size": 32, "hidden_act": "relu"}),
        ("Roberta", {"tie_word_embeddings": False}),
        ("Albert", {"tie_word_embeddings": False}),
        ("Electra", {"tie_word_embeddings": False}),
        ("DistilBert", {"activation": "relu", "sinusoidal_pos_embds": True}),
        ("DistilBert", {"tie_word_embeddings": False}),
        ("DebertaV2", {"share_att_key": False, "conv_kernel_size": 3, "conv_act": "gelu"}),  # v2-xlarge: a convolution
        ("DebertaV2", {"conv_kernel_size": 5, "layer_norm_eps": 1e-5}),
        ("DebertaV2", {"position_buckets": -1, "max_relative_positions": 8, "norm_rel_ebd": "none"}),
        ("DebertaV2", {"position_buckets": 8, "max_relative_positions": 16}),
        ("DebertaV2", {"share_att_key": False, "pos_att_type": ["c2p"]}),
        ("DebertaV2", {"share_att_key": False, "pos_att_type": ["p2c"], "position_biased_input": True}),
        ("DebertaV2", {"type_vocab_size": 2, "position_biased_input": True}),
        ("DebertaV2", {"hidden_act": "relu"}),
        (
            "DebertaV2",
            {"relative_attention": False, "pos_att_type": None, "position_biased_input": True, "norm_rel_ebd": "none"},
        ),
    ],
)
def test_what_a_configuration_can_change_is_followed(family: str, changes: dict[str, object], tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**TINY | FAMILIES[family] | changes)
    inputs = padded(n=40, segments=getattr(config, "type_vocab_size", 0) > 1)
    real = inputs["attention_mask"] > 0 if family == "DebertaV2" else None
    check_parity(getattr(transformers, f"{family}ForMaskedLM")(config), inputs, tmp_path, real)


@torch.no_grad()
def test_the_language_head_of_deberta_v3_is_saved_under_the_older_names(tmp_path: Path) -> None:
    config = transformers.DebertaV2Config(**TINY | FAMILIES["DebertaV2"] | {"legacy": False})
    model, inputs = randomised(transformers.DebertaV2ForMaskedLM(config)), padded(segments=False)
    real = inputs["attention_mask"] > 0
    model.save_pretrained(tmp_path / "theirs")
    ours = masquerade.load(tmp_path / "theirs")
    masquerade.save(ours, tmp_path / "ours")
    again = transformers.DebertaV2ForMaskedLM.from_pretrained(tmp_path / "ours").eval()
    for logits in (ours.logits(**inputs), again(**inputs).logits):
        assert_close((logits[real],), (model(**inputs).logits[real],))
    settings = json.loads((tmp_path / "theirs" / "config.json").read_text())
    del settings["architectures"]  # as published, with the generator's head beside it
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(settings))
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    save_file(weights | {"mask_predictions.dense.weight": torch.ones(2, 2)}, tmp_path / "theirs" / "model.safetensors")
    assert masquerade.load(tmp_path / "theirs").spec.outputs == ("lm",)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"conv_kernel_size": 3}])
def test_deberta_gives_the_same_states_packed_and_alone(changes: dict[str, int], tmp_path: Path) -> None:
    config = transformers.DebertaV2Config(**TINY | FAMILIES["DebertaV2"] | changes)
    randomised(transformers.DebertaV2Model(config)).save_pretrained(tmp_path)
    model = masquerade.load(tmp_path)
    texts = [masks.bidirectional(torch.arange(5, 5 + n)) for n in (7, 12, 3)]
    packed = model.hidden(masks.pack(texts))[0]
    torch.testing.assert_close(packed, torch.cat([model.hidden(text)[0] for text in texts]), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [{"embedding_size": 16}, {"conv_kernel_size": 3, "conv_groups": 2}, {"relative_attention": False}],
)
def test_a_deberta_that_was_never_published_is_refused(changes: dict[str, object], tmp_path: Path) -> None:
    config = transformers.DebertaV2Config(**TINY | FAMILIES["DebertaV2"] | changes)
    with pytest.raises(CheckpointError, match="is not supported"):
        FAMILY_OF["deberta-v2"].spec(config.to_dict())


@pytest.mark.parametrize("family", ["Bert", "Roberta", "MPNet"])
def test_left_padding_and_own_positions_equal_the_reference(family: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**TINY | FAMILIES[family])
    inputs = padded(segments=False)
    inputs = {name: value.flip(-1) for name, value in inputs.items()}
    inputs["input_ids"][inputs["attention_mask"] == 0] = config.pad_token_id
    real = inputs["attention_mask"] > 0  # MPNet's reference counts distances from padding by place: seen by nobody
    ours = check_parity(getattr(transformers, f"{family}ForMaskedLM")(config), inputs, tmp_path, real)
    theirs = getattr(transformers, f"{family}ForMaskedLM").from_pretrained(tmp_path / "theirs").eval()
    inputs["position_ids"] = torch.arange(14).roll(3).expand(3, 14) + 2
    with torch.no_grad():
        if family != "MPNet":  # whose distances the reference counts by place, whatever the positions given
            assert_close((ours.logits(**inputs),), (theirs(**inputs).logits,))


@pytest.mark.parametrize("name", ["Bert", "Roberta", "Albert", "Electra", "Ernie", "RoFormer", "MPNet", "DistilBert"])
def test_bare_encoders_give_the_reference_hidden_states(name: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{name}Config")(**TINY | FAMILIES[name])
    reference = getattr(transformers, f"{name}Model")(config).eval()
    reference.save_pretrained(tmp_path / "theirs")
    model = masquerade.load(tmp_path / "theirs")
    inputs = padded(segments=False)
    layout = masquerade.Layout.padded(inputs["input_ids"], inputs["attention_mask"])
    with torch.no_grad():
        assert_close((model.hidden(layout),), (reference(**inputs).last_hidden_state,))
    masquerade.save(model, tmp_path / "ours")
    again = getattr(transformers, f"{name}Model").from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert_close((again(**inputs).last_hidden_state,), (reference(**inputs).last_hidden_state,))


@pytest.mark.parametrize("folder", sorted(path.name for path in (FIXTURES / "nezha").iterdir() if path.is_dir()))
def test_nezha_equals_the_library_that_still_had_it(folder: str, tmp_path: Path) -> None:
    expected = load_file(FIXTURES / "nezha" / folder / "expected.safetensors")
    inputs = {name: expected.pop(name) for name in ("input_ids", "attention_mask", "token_type_ids")}
    order = ("prediction_logits", "seq_relationship_logits", "start_logits", "end_logits", "logits")
    outputs = tuple(expected[name] for name in order if name in expected)
    model = masquerade.load(FIXTURES / "nezha" / folder)
    masquerade.save(model, tmp_path)
    for each in (model, masquerade.load(tmp_path)):
        with torch.no_grad():
            got = each.logits(**inputs)
        assert_close(got if isinstance(got, tuple) else (got,), outputs)
    assert load_file(tmp_path / "model.safetensors").keys() <= load_file(
        FIXTURES / "nezha" / folder / "model.safetensors"
    ).keys() | {"cls.predictions.bias"}


@pytest.mark.data
def test_nezha_equals_the_shared_oracle() -> None:
    if not ORACLES.is_dir():
        pytest.skip("the shared oracles are not beside this checkout")
    import numpy

    oracle = numpy.load(ORACLES / "nezha" / "oracle.npz")
    inputs = {name.removeprefix("in_"): torch.from_numpy(oracle[name]) for name in oracle if name.startswith("in_")}
    with torch.no_grad():
        logits = masquerade.load(ORACLES / "nezha").logits(**inputs)
    real = inputs["attention_mask"] > 0
    assert_close((logits[real],), (torch.from_numpy(oracle["out_logits"])[real],))


def test_every_family_writes_the_configuration_it_read(tmp_path: Path) -> None:
    config = transformers.BertConfig(**TINY | {"num_labels": 3, "custom": "kept"})
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "theirs")
    model = masquerade.load(tmp_path / "theirs")
    masquerade.save(model, tmp_path / "ours")
    again = masquerade.load(tmp_path / "ours")
    assert again.spec == model.spec
    assert again.config["custom"] == "kept"
