"""Hugging Face folders made of models that are published as ONNX files. Needs the package ``onnx``.

Used by ``scripts/checkpoints.py``; nothing in the ONNX files is run, only their weights are read.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from masquerade.memory.retrieval.pooling import Pooling

BERT = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def _onnx() -> ModuleType:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        sys.exit("Converting an ONNX file needs the package onnx; run 'pip install onnx'.")
    return onnx


def _write_model(folder: Path, config: dict[str, object], weights: dict[str, Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write(folder: Path, config: dict[str, object], weights: dict[str, Tensor], vocabulary: str) -> None:
    _write_model(folder, config, weights)
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    lower = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(lower) + "\n", encoding="utf-8")


def e5_small(source: Path, target: Path, vocabulary: str) -> None:
    """e5-small from ``source``/e5-small.onnx: a BERT of 12 layers of 384 without pooler.

    Embeddings, norms and biases carry BERT's names. The weight of each linear layer has no name: it is the constant of
    the matrix product whose result the layer's bias is added to, transposed.
    """
    onnx = _onnx()
    graph = onnx.load(str(source / "e5-small.onnx")).graph
    constants = {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in graph.initializer}
    weights = {
        name: tensor
        for name, tensor in constants.items()
        if name.startswith(("embeddings.", "encoder.")) and tensor.is_floating_point()
    }
    products = {node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        for bias, product in (node.input, reversed(node.input)):
            if bias.endswith(".bias") and products.get(product) in constants:
                weights[bias.removesuffix("bias") + "weight"] = constants[products[product]].T
    config = BERT | {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }
    if len(weights) != 197:
        sys.exit(f"{source} has {len(weights)} weights of a BERT, not the 197 of e5-small.")
    _write(target, config, weights, vocabulary)
    Pooling(query="query: ", passage="passage: ").save(target)  # what it was trained with, as an encoder for search


def uie_nano(source: Path, target: Path, vocabulary: str) -> None:
    """UIE-nano from ``source``/model.onnx: an ERNIE 3.0 of 4 layers of 312 whose heads point at a span's ends."""
    onnx = _onnx()
    arrays = dict[str, Tensor]()
    for node in onnx.load(str(source / "model.onnx")).graph.node:
        if node.op_type == "Constant":
            value = np.array(onnx.numpy_helper.to_array(node.attribute[0].t))
            arrays[node.output[0]] = torch.from_numpy(value)
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings", "task_type_embeddings")
    weights = {f"ernie.embeddings.{name}.weight": arrays[f"embedding_{n}.w_0"] for n, name in enumerate(tables)}

    def put(name: str, paddle: str) -> None:
        weight = arrays[f"{paddle}.w_0"]
        weights[f"{name}.weight"] = weight.T if weight.dim() == 2 else weight
        weights[f"{name}.bias"] = arrays[f"{paddle}.b_0"]

    put("ernie.embeddings.LayerNorm", "layer_norm_0")
    for layer in range(4):
        inner = f"ernie.encoder.layer.{layer}"
        linears = [*(f"attention.self.{part}" for part in ("query", "key", "value")), "attention.output.dense"]
        for number, name in enumerate([*linears, "intermediate.dense", "output.dense"]):
            put(f"{inner}.{name}", f"linear_{6 * layer + number}")
        put(f"{inner}.attention.output.LayerNorm", f"layer_norm_{2 * layer + 1}")
        put(f"{inner}.output.LayerNorm", f"layer_norm_{2 * layer + 2}")
    ends = [f"linear_{number}" for number in (25, 26)]
    weights["qa_outputs.weight"] = torch.cat([arrays[f"{name}.w_0"].T for name in ends])
    weights["qa_outputs.bias"] = torch.cat([arrays[f"{name}.b_0"].flatten() for name in ends])
    config = BERT | {
        "architectures": ["ErnieForQuestionAnswering"],
        "model_type": "ernie",
        "vocab_size": 40000,
        "hidden_size": 312,
        "num_hidden_layers": 4,
        "num_attention_heads": 12,
        "intermediate_size": 1248,
        "max_position_embeddings": 2048,
        "type_vocab_size": 4,
        "task_type_vocab_size": 16,
        "use_task_id": True,
    }
    _write(target, config, weights, vocabulary)


def deberta_xsmall(source: Path, target: Path, vocabulary: str) -> None:
    """DeBERTa-v3-xsmall, trained further on entailment, from ``source``/policy_nli_int8.onnx: int8 matrices, each with
    one scale and one zero point, which become float32. Those of queries and keys are there in float32 as well, for the
    positions. The classifier is left out. The tokenizer comes along in a folder."""
    onnx = _onnx()
    graph = onnx.load(str(source / "policy_nli_int8.onnx")).graph
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    weights = {
        name.removeprefix("m."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("m.deberta.") and not name.endswith(("_scale", "_zero_point", "_quantized"))
    }
    table = "deberta.embeddings.word_embeddings.weight"
    weights[table] = _dequantized(arrays, f"m.{table}")
    for node in graph.node:  # a matrix has no name, but the product that it is in has
        if node.op_type == "MatMulInteger" and "/encoder/" in node.name:
            module = node.name.removesuffix("/MatMul_quant").strip("/").replace("/", ".").removeprefix("m.")
            name = node.input[1].removesuffix("_quantized")
            exact = torch.from_numpy(arrays[name].copy()) if name in arrays else _dequantized(arrays, name)
            weights[f"{module}.weight"] = exact.T
    if len(weights) != 198:
        sys.exit(f"{source} has {len(weights)} weights of a DeBERTa, not the 198 of DeBERTa-v3-xsmall.")
    config: dict[str, object] = {
        "architectures": ["DebertaV2Model"],
        "model_type": "deberta-v2",
        "vocab_size": 128100,
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 6,
        "intermediate_size": 1536,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-7,
        "max_position_embeddings": 512,
        "position_biased_input": False,
        "relative_attention": True,
        "position_buckets": 256,
        "pos_att_type": "p2c|c2p",
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
        "pad_token_id": 0,
    }
    _write_model(target, config, weights)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / "policy_nli_tokenizer" / name, target / name)


def _dequantized(arrays: dict[str, np.ndarray], name: str) -> Tensor:
    """A float32 tensor from an int8 one with one scale and one zero point."""
    whole = arrays[f"{name}_quantized"].astype(np.float32) - arrays[f"{name}_zero_point"].astype(np.float32)
    return torch.from_numpy(whole * arrays[f"{name}_scale"])


def flan_t5_small(source: Path, target: Path, vocabulary: str) -> None:
    """Flan-T5-small, trained further on titles, from ``source``/encoder.onnx and decoder.onnx: int8 matrices, each with
    one scale and one zero point, which become float32. The decoder's table of words is taken; the encoder's is a copy.
    The tokenizer comes along in ``source``/tokenizer.json."""
    onnx, weights = _onnx(), dict[str, Tensor]()
    for file, inside, name in (("decoder.onnx", "m.", ""), ("encoder.onnx", "enc.", "encoder.")):
        graph = onnx.load(str(source / file)).graph
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        for array, value in arrays.items():
            if array.startswith(inside) and array.endswith("norm.weight"):
                weights[name + array.removeprefix(inside)] = torch.from_numpy(value.copy())
            elif array.startswith(inside) and array.endswith(".weight_quantized"):
                array = array.removesuffix("_quantized")
                weights[name + array.removeprefix(inside)] = _dequantized(arrays, array)
        for node in graph.node:  # a matrix has no name, but the product that it is in has
            if node.op_type == "MatMulInteger":
                module = node.name.removesuffix("/MatMul_quant").strip("/").replace("/", ".")
                matrix = _dequantized(arrays, node.input[1].removesuffix("_quantized")).T
                weights[f"{name}{module.removeprefix(inside)}.weight"] = matrix
    if len(weights) != 191:
        sys.exit(f"{source} has {len(weights)} weights of a T5, not the 191 of flan-t5-small with two tables.")
    del weights["encoder.embed_tokens.weight"]
    config: dict[str, object] = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 1024,
        "num_layers": 8,
        "num_decoder_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "is_encoder_decoder": True,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    _write_model(target, config, weights)
    shutil.copy(source / "tokenizer.json", target / "tokenizer.json")
    names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "tokenizer_class": "T5TokenizerFast"}
    (target / "tokenizer_config.json").write_text(json.dumps(names) + "\n", encoding="utf-8")
