"""Every model: its published base size, the mask and objective of its pretraining, and the test that compares it with
its reference. Layers, widths and parameters are computed from the published configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from masquerade.errors import MasqueradeError
from masquerade.families import FAMILIES
from masquerade.families.own import mass, palm
from masquerade.nn.model import Model
from masquerade.nn.spec import Spec


@dataclass(frozen=True)
class CatalogueEntry:
    """Facts about a published model that the code does not hold."""

    model: str  # the published checkpoint that it is the size of
    base: dict[str, Any]  # … and that one's configuration, as far as it shapes the network
    outputs: tuple[str, ...]  # the heads it was pretrained with
    masks: tuple[str, ...]  # constructors of ``masks``; of an encoder–decoder, the encoder's and the decoder's
    objective: str
    parity: str  # the test that checks it
    against: str  # … and what the test compares it with
    source: str
    family: str = ""  # where it is not the entry's own name
    about: str = ""  # where the family's line does not fit
    changes: dict[str, Any] = field(default_factory=dict)  # Spec fields that only its weights tell


def _bert(vocab: int, **changes: object) -> dict[str, Any]:
    """A configuration of BERT-base's kind."""
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    return sizes | {"vocab_size": vocab, "max_position_embeddings": 512, "type_vocab_size": 2} | changes


def _bart(vocab: int, width: int, layers: int, **changes: object) -> dict[str, Any]:
    """A configuration of BART's kind, its two stacks alike."""
    sizes = {"layers": layers, "attention_heads": width // 64, "ffn_dim": 4 * width}
    both = {f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in sizes.items()}
    return both | {"vocab_size": vocab, "d_model": width, "max_position_embeddings": 1024} | changes


ALL, GPT, PAIR = ("bidirectional",), ("causal",), ("bidirectional", "causal")
LM = ("lm",)
FAMILY_TEST = "tests/test_families.py::test_logits_equal_the_reference_and_survive_saving_back"
NEZHA_TEST = "tests/test_families.py::test_nezha_equals_the_library_that_still_had_it"
ZH_TEST = "tests/test_checkpoint.py::test_the_older_chinese_albert_equals_its_factors_multiplied_out"
SPAN_TEST = "tests/test_checkpoint.py::test_spanbert_is_saved_with_its_boundary_head_and_still_loads_as_bert"
XLNET_TEST = "tests/test_streams.py::test_xlnet_equals_the_reference"
TXL_TEST = "tests/test_streams.py::test_transformer_xl_equals_the_library_that_still_had_it"
GPT_TEST = "tests/test_writers.py::test_gpt2_equals_the_reference"
GLM_TEST = "tests/test_writers.py::test_glm_equals_an_independent_implementation_of_its_paper"
UNILM_TEST = "tests/test_writers.py::test_any_bert_runs_under_the_prefix_mask_as_the_reference_does_with_that_mask"
PAIR_TEST = "tests/test_writers.py::test_encoder_decoders_equal_the_reference"
OWN_PAIR_TEST = "tests/test_writers.py::test_mass_and_palm_are_saved_and_loaded"
OWN_TEST = "tests/test_checkpoint.py::test_any_spec_can_be_saved_in_our_own_format"
HF, OLD_HF, PAPER, ROUND = "transformers", "transformers 4", "its definition", "itself, saved and loaded"
TXL = {"vocab_size": 267735, "d_model": 410, "n_layer": 16, "n_head": 10, "d_head": 41, "d_inner": 2100}
T5_BASE = {"d_model": 768, "num_layers": 12, "num_heads": 12, "d_kv": 64, "d_ff": 3072, "vocab_size": 32128}
XLNET_BASE = {"vocab_size": 32000, "d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}
DISTILBERT_BASE = {"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072}
DEBERTA_V3: dict[str, Any] = {
    "type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "max_relative_positions": -1,
}  # fmt: skip
GLM_BASE = {"hidden_size": 768, "num_layers": 12, "num_attention_heads": 12, "max_sequence_length": 513}

_entry = CatalogueEntry  # short, so that most entries take two lines
CATALOGUE: dict[str, CatalogueEntry] = {
    "bert": _entry("bert-base-uncased", _bert(30522), ("lm", "pair"), ALL, "masked words; next sentence",
                  FAMILY_TEST, HF, "Devlin et al. 2018"),
    "spanbert": _entry("spanbert-base-cased", _bert(28996), ("lm", "boundary"), ALL, "masked spans; their boundaries",
                      SPAN_TEST, "transformers, as BERT", "Joshi et al. 2019", "bert",
                      "BERT with one more head: a span from its edges"),
    "roberta": _entry("roberta-base", _bert(50265, max_position_embeddings=514, type_vocab_size=1), LM, ALL,
                     "masked words, masked anew each time", FAMILY_TEST, HF, "Liu et al. 2019"),
    "xlm-roberta": _entry("xlm-roberta-base", _bert(250002, max_position_embeddings=514, type_vocab_size=1), LM, ALL,
                         "masked words", FAMILY_TEST, HF, "Conneau et al. 2019"),
    "albert": _entry("albert-base-v2", _bert(30000, embedding_size=128, hidden_act="gelu_new"), ("lm", "pair"), ALL,
                    "masked n-grams; sentence order", FAMILY_TEST, HF, "Lan et al. 2019"),
    "albert_zh": _entry("albert_base_zh", _bert(21128, embedding_size=128), ("lm", "pair"), ALL,
                       "masked whole words; sentence order", ZH_TEST, PAPER, "Xu 2019"),
    "electra": _entry("electra-base-discriminator", _bert(30522, embedding_size=768), ("detect",), ALL,
                     "replaced tokens", FAMILY_TEST, HF, "Clark et al. 2020"),
    "ernie": _entry("ernie-3.0-base-zh", _bert(40000, max_position_embeddings=2048, type_vocab_size=4,
                   use_task_id=True), LM, ALL, "masked words, phrases and entities", FAMILY_TEST, HF,
                   "Sun et al. 2019, 2021"),
    "nezha": _entry("nezha-cn-base", _bert(21128, max_relative_position=64), ("lm", "pair"), ALL,
                   "masked whole words; next sentence", NEZHA_TEST, OLD_HF, "Wei et al. 2019"),
    "roformer": _entry("roformer_chinese_base", _bert(50000, max_position_embeddings=1536), LM, ALL,
                      "masked words", FAMILY_TEST, HF, "Su et al. 2021"),
    "mpnet": _entry("mpnet-base", _bert(30527, max_position_embeddings=514), LM, ("compensated",),
                   "permuted words", FAMILY_TEST, HF, "Song et al. 2020"),
    "distilbert": _entry("distilbert-base-uncased", DISTILBERT_BASE, LM, ALL, "masked words; its teacher's outputs",
                        FAMILY_TEST, HF, "Sanh et al. 2019"),
    "deberta-v2": _entry("deberta-v3-base", _bert(128100, **DEBERTA_V3), LM, ALL,
                        "masked words (v2); replaced tokens (v3)", FAMILY_TEST, HF, "He et al. 2020, 2021"),
    "unilm": _entry("unilm1-base-cased", _bert(28996, type_vocab_size=6), ("lm", "pair"),
                   ("bidirectional", "causal", "backward", "prefix"), "masked words under each mask; next sentence",
                   UNILM_TEST, HF, "Dong et al. 2019"),
    "gpt2": _entry("gpt2", {"vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12}, LM, GPT, "the next word",
                  GPT_TEST, HF, "Radford et al. 2019"),
    "glm": _entry("blocklm-base-blank", GLM_BASE | {"vocab_size": 30592}, LM, ("infill",),
                 "the words of blanks, one by one", GLM_TEST, PAPER, "Du et al. 2021"),
    "xlnet": _entry("xlnet-base-cased", XLNET_BASE, LM, ("two_stream",), "permuted words", XLNET_TEST, HF,
                   "Yang et al. 2019"),
    "transfo-xl": _entry("its base for WikiText-103", TXL | {"cutoffs": (20000, 40000, 200000), "untie_r": False}, LM,
                        ("causal", "with_memory"), "the next word", TXL_TEST, OLD_HF, "Dai et al. 2019"),
    "t5": _entry("t5-base", T5_BASE, LM, PAIR, "the spans behind sentinels", PAIR_TEST, HF, "Raffel et al. 2019"),
    "mt5": _entry("mt5-base", T5_BASE | {"vocab_size": 250112, "d_ff": 2048, "feed_forward_proj": "gated-gelu"}, LM,
                 PAIR, "the spans behind sentinels", PAIR_TEST, HF, "Xue et al. 2020", changes={"tied": False}),
    "bart": _entry("bart-base", _bart(50265, 768, 6), LM, PAIR, "the text without the noise", PAIR_TEST, HF,
                  "Lewis et al. 2019"),
    "pegasus": _entry("pegasus-large", _bart(96103, 1024, 16, activation_function="relu", scale_embedding=True), LM,
                     PAIR, "the main sentences left out", PAIR_TEST, HF, "Zhang et al. 2019"),
    "mass": _entry("mass-base-uncased", asdict(mass(width=768, heads=12, feedforward=3072)), LM, PAIR,
                  "the span left out", OWN_PAIR_TEST, ROUND, "Song et al. 2019"),
    "palm": _entry("palm.en.base", asdict(palm(vocab=50265)), LM, PAIR, "masked words, then what comes next",
                  OWN_PAIR_TEST, ROUND, "Bi et al. 2020"),
    "masquerade": _entry("Spec()", {"vocab": 30522, "width": 768, "layers": 12, "heads": 12}, LM, ALL, "any", OWN_TEST,
                        ROUND, ""),
}  # fmt: skip


class _Unfilled(TorchFunctionMode):
    """Skips the initialisation of weights, which takes seconds even on the meta device and is not needed to count."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called in place of every function of PyTorch."""
        if getattr(func, "__module__", "") == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))


def names() -> list[str]:
    """Every family, each followed by the models that are saved in it under another name."""
    others = {name: [each for each, entry in CATALOGUE.items() if entry.family == name] for name in FAMILIES}
    return [each for name in FAMILIES for each in (name, *others[name])]


def base_spec(name: str) -> Spec:
    """The network of a model's published base size, with the heads it was pretrained with."""
    if name not in names():
        raise MasqueradeError(f"There is no model '{name}'; there are {', '.join(names())}.")
    if name not in CATALOGUE:
        raise MasqueradeError(f"The catalogue does not know a published size of '{name}'; add it to catalogue.py.")
    entry = CATALOGUE[name]
    return replace(FAMILIES[entry.family or name].spec(entry.base, entry.outputs), **entry.changes)


def count(spec: Spec) -> int:
    """The number of parameters of a network, shared ones once; no memory is allocated for them."""
    with torch.device("meta"), _Unfilled():
        return sum(weight.numel() for weight in Model(spec).parameters())


@dataclass(frozen=True)
class CatalogueRow:
    """One model of the list; a family without an entry in the catalogue has a name and a description only."""

    name: str
    about: str
    model: str = ""
    layers: int = 0
    decoder_layers: int = 0
    width: int = 0
    parameters: int = 0
    masks: tuple[str, ...] = ()
    objective: str = ""
    parity: str = ""
    against: str = ""
    source: str = ""


def row(name: str) -> CatalogueRow:
    """The row of a model."""
    entry = CATALOGUE.get(name)
    if entry is None and name in FAMILIES:
        return CatalogueRow(name, FAMILIES[name].about)
    spec = base_spec(name)
    entry = CATALOGUE[name]
    return CatalogueRow(
        name,
        entry.about or FAMILIES[entry.family or name].about,
        entry.model,
        len(spec.order),
        len(spec.decoder.order) if spec.decoder else 0,
        spec.width,
        count(spec),
        *(entry.masks, entry.objective, entry.parity, entry.against, entry.source),
    )
