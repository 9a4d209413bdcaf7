"""Weight files of all formats, as tensors by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from masquerade.checkpoints.tensorflow import read_bundle
from masquerade.errors import CheckpointError
from masquerade.files import read_json, write_whole

Weights = dict[str, Tensor]
LARGE = 2**15  # entries from which a matrix is written as int8, where that is asked for
SCALE = ".int8_scale"

TENSORFLOW = (  # TensorFlow's variable names → PyTorch's
    (r"/", "."),
    (r"layer_(\d+)\.", r"layer.\1."),
    (r"\.kernel$", ".weight"),
    (r"\.gamma$", ".weight"),
    (r"\.beta$", ".bias"),
    (r"(embeddings(?:_2)?)$", r"\1.weight"),
    (r"\.output_weights$", ".weight"),
    (r"\.output_bias$", ".bias"),
)


def read_weights(folder: Path) -> Weights:
    """All tensors of the checkpoint in a folder, in float32: safetensors first, then PyTorch, then TensorFlow."""
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (folder / index).is_file():
            names = sorted(set(read_json(folder / index).get("weight_map", {}).values()))
            return _read_all(folder / name for name in names)
    for single in ("model.safetensors", "pytorch_model.bin"):
        if (folder / single).is_file():
            return _read_all([folder / single])
    for pattern in ("*.safetensors", "*.bin"):
        found = sorted(folder.glob(pattern))
        if found:
            return _read_all(found)
    bundles = sorted(folder.glob("*.index"))
    if len(bundles) > 1:
        held = ", ".join(path.stem for path in bundles)
        raise CheckpointError(f"{folder} holds several TensorFlow checkpoints ({held}); give the path of one of them.")
    if bundles:
        return read_tensorflow(bundles[0])
    raise CheckpointError(
        f"{folder} holds no weights: no model.safetensors, pytorch_model.bin or TensorFlow checkpoint (.index)."
    )


def read_tensorflow(prefix: Path) -> Weights:
    """A TensorFlow checkpoint under PyTorch's names and shapes, without the optimizer's variables."""
    variables = read_bundle(prefix, lambda name: not re.search(r"adam|lamb|global_step|Adam|/m$|/v$|^beta\d", name))
    weights = {}
    for name, tensor in variables.items():
        turned = tensor.T if name.endswith("/kernel") and tensor.dim() == 2 else tensor
        for pattern, replacement in TENSORFLOW:
            name = re.sub(pattern, replacement, name)
        weights[name] = turned.contiguous().float()
    return weights


def as_bytes(weights: Weights) -> Weights:
    """The weights with every large matrix as int8 and one scale a row, under its name with SCALE behind it; all others
    in half precision. Reading such a file multiplies them out again."""
    found: Weights = {}
    for name, tensor in weights.items():
        if tensor.dim() != 2 or tensor.numel() < LARGE:
            found[name] = tensor.half() if tensor.is_floating_point() else tensor
            continue
        matrix = tensor.float()
        scale = matrix.abs().amax(dim=1).clamp(min=1e-12) / 127  # (rows,)
        found[name] = (matrix / scale[:, None]).round().to(torch.int8)
        found[name + SCALE] = scale
    return found


def write_weights(path: Path, weights: Weights) -> None:
    """Write a safetensors file atomically."""
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()}
    write_whole(path, lambda temporary: save_file(plain, temporary, metadata={"format": "pt"}))


def _read_all(paths: Iterable[Path]) -> Weights:
    weights: Weights = {}
    for path in paths:
        for name, tensor in _read_file(path).items():
            weights[name] = tensor.float() if tensor.is_floating_point() else tensor
    for name in [name for name in weights if name.endswith(SCALE)]:
        scale, matrix = weights.pop(name), name.removesuffix(SCALE)
        if matrix not in weights or weights[matrix].shape[:1] != scale.shape:
            raise CheckpointError(f"The checkpoint has the scales '{name}' without a matrix of as many rows.")
        weights[matrix] = weights[matrix].float() * scale[:, None]
    return weights


def _read_file(path: Path) -> Weights:
    """The tensors of one file. Pickles are loaded without executing code."""
    if not path.is_file():
        raise CheckpointError(f"{path} is missing, though the checkpoint's index names it; get the file again.")
    try:
        content = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except Exception as error:  # both libraries raise many kinds of errors for damaged files
        if "weights_only" in str(error) or "Unsupported" in str(error):
            raise CheckpointError(
                f"{path} holds more than plain tensors, and loading it could execute code; "
                "convert it to safetensors where you trust it."
            ) from error
        raise CheckpointError(f"{path} is damaged or cut short ({_short(error)}); get the file again.") from error
    for inside in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(inside), dict):
            content = content[inside]
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise CheckpointError(
            f"{path} holds something other than named tensors; check that it holds the weights of a model."
        )
    return content


def _short(error: Exception) -> str:
    """The first line of a library's message, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0][:160].rstrip(".") if lines else type(error).__name__
