"""Loading of folders, hub ids and TensorFlow checkpoints; saving in the reference library's format."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from masquerade import kernels
from masquerade.checkpoints.blank import NoInit
from masquerade.checkpoints.weights import Weights, as_bytes, read_tensorflow, read_weights, write_weights
from masquerade.errors import CheckpointError
from masquerade.families import FAMILIES
from masquerade.families.base import Family, with_tied
from masquerade.files import read_json, write_text
from masquerade.nn.model import Model
from masquerade.nn.spec import Spec
from masquerade.text.tokenizer import Tokenizer

PRETRAINED = ("lm", "pair", "detect", "boundary")  # heads recognised by their weights alone
DPR = ("DPRQuestionEncoder", "DPRContextEncoder")  # read as the BERTs that they are, and saved as such
REALM = "RealmEmbedder"  # a BERT too; masquerade.Encoder has its projection
HUB_FILES = ("*.json", "*.txt", "*.model")


def load(source: str | Path) -> Model:
    """The model in a folder, a TensorFlow checkpoint (``…/bert_model.ckpt``) or under a hub id, ready to run.

    A weight that is missing, unused or of the wrong shape is an error, and nothing is loaded.
    """
    kernels.use()
    place = locate(str(source))
    folder = place if place.is_dir() else place.parent
    config = _configuration(folder)
    weights = read_weights(place) if place.is_dir() else read_tensorflow(place)
    family = _family(config, weights, folder)
    weights = _canonical(family, weights, folder)
    spec = _with_heads(family, config, weights, folder)
    with NoInit():
        model = Model(spec, tokenizer=Tokenizer.load(folder), config=config)
    _assign(model, family, weights, folder)
    return model.eval()


def save(model: Model, folder: str | Path, dtype: torch.dtype | None = None) -> None:
    """Write a model as a folder: config.json, model.safetensors, and its tokenizer's files. Each file is written
    under a temporary name first, and the configuration last, so a folder that has one is complete. With ``dtype`` the
    weights are written in that precision: half of the size with torch.float16, a quarter with torch.int8 (matrices with
    a scale for each row; only Masquerade reads these)."""
    place, family, weights = Path(folder), FAMILIES[model.spec.family], model.state_dict()
    if dtype is not None and dtype != torch.int8:
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
    config = family.config(model.spec, model.config)
    names = family.names(model.spec, weights, family.prefix if model.spec.all_heads else "")
    theirs = family.merge({names[name]: tensor for name, tensor in weights.items()}, model.spec)
    write_weights(place / "model.safetensors", as_bytes(theirs) if dtype == torch.int8 else theirs)
    if model.has_tokenizer:
        model.tokenizer.save(place)
    write_text(place / "config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def locate(source: str) -> Path:
    """A local folder or TensorFlow checkpoint, or the folder that a hub id is downloaded to."""
    path = Path(source).expanduser()
    if path.is_dir():
        steps = sorted(path.glob("step-*/state.json"), key=lambda state: int(state.parent.name.removeprefix("step-")))
        return steps[-1].parent if steps else path  # the folder of a run means its last checkpoint
    if Path(f"{path}.index").is_file() or (path.suffix == ".index" and path.is_file()):
        return path
    if path.is_file():
        return path.parent
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source or not source:
        raise CheckpointError(f"There is no checkpoint at '{source}'; give a model's folder or a hub id ('org/name').")
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(source, allow_patterns=[*HUB_FILES, "*.safetensors"]))
        if not any(found.glob("*.safetensors")):
            found = Path(snapshot_download(source, allow_patterns=[*HUB_FILES, "*.bin"]))
        return found
    except Exception as error:  # no network, no such repository, no permission: one message for all
        raise CheckpointError(
            f"'{source}' is no local folder and cannot be downloaded from the hub ({type(error).__name__}); "
            "check its spelling and the connection, or download it elsewhere and give its folder."
        ) from error


def _configuration(folder: Path) -> dict[str, Any]:
    """The configuration: config.json, or its name in older releases."""
    named = [folder / "config.json", *sorted(folder.glob("*_config.json"))]
    found = [path for path in named if path.is_file() and path.name != "tokenizer_config.json"]
    if not found:
        raise CheckpointError(f"{folder} holds no config.json (or bert_config.json); is it a model's folder?")
    config = read_json(found[0])
    if (config.get("architectures") or [""])[0] in (*DPR, REALM):  # a BERT under other names
        config |= {"model_type": "bert", "architectures": ["BertModel"]}
    return config


def _family(config: dict[str, Any], weights: Weights, folder: Path) -> Family:
    """The family of a checkpoint: by its model_type, or else by its weights and settings."""
    named = config.get("model_type")
    if named in FAMILIES:
        return FAMILIES[named]
    if named:
        raise CheckpointError(
            f"{folder} holds a model of the family '{named}', not supported here; there are {', '.join(FAMILIES)}."
        )
    marks = "\n".join([*weights, *config])
    for family in FAMILIES.values():
        if any(sign in marks for sign in family.signs):
            return family
    return FAMILIES["bert"]


def _canonical(family: Family, weights: Weights, folder: Path) -> Weights:
    """The weights under the family's current names: legacy names replaced, and any prefix of the body (``bert.``,
    ``module.bert.``, none) removed."""
    renewed = {}
    for name, tensor in weights.items():
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        for pattern, replacement in family.legacy:
            name = re.sub(pattern, replacement, name)
        renewed[name] = tensor
    anchor = family.body.get("words.table", "words.table") + ".weight"
    found = sorted((name for name in renewed if f".{name}".endswith(f".{anchor}")), key=len)
    if not found:
        raise CheckpointError(f"{folder} has no token embeddings ('{anchor}'), so it is no {family.name} checkpoint.")
    own = [name for name in found if name == family.prefix + anchor]
    before = (own or found)[0].removesuffix(anchor)
    outer = before.removesuffix(family.prefix)
    return family.split({name.removeprefix(before).removeprefix(outer): tensor for name, tensor in renewed.items()})


def _with_heads(family: Family, config: dict[str, Any], weights: Weights, folder: Path) -> Spec:
    """The spec of a checkpoint: its configuration, with the heads it names and those its weights contain."""
    shown = tuple(head for head in PRETRAINED if head in family.heads and _has(family, head, weights))
    named = (config.get("architectures") or [None])[0]
    if named is not None and family.architectures and named not in family.architectures:
        raise CheckpointError(
            f"{folder} holds a {named}, which is not supported; the supported classes of its family are "
            f"{', '.join(family.architectures)}."
        )
    outputs = shown if named is None else family.architectures.get(named, ())
    pooler = family.body.get("pooler.dense", f"{family.body.get('pooler')}.dense") + ".weight" in weights
    try:
        spec = family.spec(config, outputs)
    except (KeyError, TypeError, AttributeError) as error:
        said = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(
            f"The configuration in {folder} does not describe a {family.name} model: {said}."
        ) from error
    table = weights[family.body.get("words.table", "words.table") + ".weight"]
    for copy in family.copies:
        if copy in weights and not torch.equal(weights[copy], table):
            raise CheckpointError(
                f"{folder} has token embeddings of its own under '{copy}', which is not supported; its encoder and "
                "decoder have to share one table."
            )
    if family.output_table in weights and not torch.equal(weights[family.output_table], table):
        spec = with_tied(spec, False)
    further = tuple(head for head in shown if head not in spec.all_heads)
    return replace(spec, pooler=pooler or spec.pooler, spare=spec.spare + further)


def _has(family: Family, head: str, weights: Weights) -> bool:
    """Whether all weights of a head exist, apart from optional ones."""
    optional = re.compile("|".join(family.ignored) or r"(?!)")
    entries = [entry for entry in family.heads[head].values() if not optional.fullmatch(f"{entry}.weight")]
    return all(any(f"{name}.".startswith(f"{entry}.") for name in weights) for entry in entries)


def _assign(model: Model, family: Family, weights: Weights, folder: Path) -> None:
    """Copy the weights into the model, after checking all names and shapes."""
    ours = model.state_dict()
    names = family.names(model.spec, ours)
    for name, theirs in names.items():
        if theirs not in weights:
            raise CheckpointError(f"{folder} lacks the weight '{theirs}', which a {family.name} model needs.")
        if weights[theirs].shape != ours[name].shape:
            raise CheckpointError(
                f"The weight '{theirs}' in {folder} has shape {tuple(weights[theirs].shape)}, "
                f"but its configuration requires {tuple(ours[name].shape)}."
            )
    ignored = re.compile("|".join(family.ignored) or r"(?!)")
    left = [name for name in weights if name not in set(names.values()) and not ignored.fullmatch(name)]
    if left:
        raise CheckpointError(
            f"{folder} has a weight '{left[0]}' that a {family.name} model of this configuration does not have"
            + (f" (and {len(left) - 1} more)." if len(left) > 1 else ".")
        )
    model.load_state_dict({name: weights[theirs] for name, theirs in names.items()})
