"""Weights that several processes of one machine hold once: read-only pages of a file, mapped by all of them."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import torch
from torch import Tensor, nn

from masquerade.checkpoints.weights import write_weights
from masquerade.errors import MasqueradeError


@torch.no_grad()
def share_weights(model: nn.Module, folder: Path) -> Path:
    """Let a model use the weights of a file in the folder, which is written if there is none for these weights. The
    file's pages are in memory once, however many processes map them. For models that are not trained any more."""
    weights = {name: each.detach().float() for name, each in model.named_parameters()}
    digest = hashlib.blake2b(digest_size=12)
    for name, tensor in weights.items():
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    path = folder / f"{digest.hexdigest()}.safetensors"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            write_weights(path, weights)
    except OSError as error:
        raise MasqueradeError(f"The folder '{folder}' for shared weights cannot be written: {error}.") from error
    mapped = _mapped(path)
    for name, parameter in model.named_parameters():
        parameter.data = mapped[name]
        parameter.requires_grad_(False)
    return path


def _mapped(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file in float32, as views of its pages."""
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    # a private mapping: should anything ever write to it, the file stays as it is
    pages = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    found = {}
    for name, each in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in each["data_offsets"])
            found[name] = pages[begin:end].view(torch.float32).view(each["shape"])
    return found
