"""How token states become one vector, and the files that say so: ours, and those of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from masquerade.errors import CheckpointError, MasqueradeError
from masquerade.files import read_json, write_text

POOLINGS = ("mean", "cls")
ENDLESS = 1_000_000  # tokens; published tokenizers without a limit have a number above this
FILE = "encoder.json"  # beside a checkpoint's config.json
CONFIG = "sentence_vectors"  # the key of config.json that has the settings, in what 'masquerade train encoder' saves


@dataclass(frozen=True)
class Pooling:
    """What makes a sentence encoder of a checkpoint."""

    pooling: str = "mean"  # the mean over all tokens, or the state of the first one ("cls")
    normalize: bool = True  # vectors of length 1, so that the dot product is the cosine
    longest: int = 0  # tokens of a text at most, special ones included; 0: as many as the network has positions
    query: str = ""  # put before a query, as E5 needs it ("query: ")
    passage: str = ""  # put before a passage ("passage: ")
    part: int = 0  # least tokens of a part of a passage; each part has its own vector; 0: one vector for all

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise MasqueradeError(f"There is no pooling '{self.pooling}'; choose from {', '.join(POOLINGS)}.")
        if self.part < 0 or (self.part and self.pooling != "mean"):
            raise MasqueradeError("Vectors for parts of passages need the pooling 'mean', and 'part' of at least 1.")

    @staticmethod
    def load(folder: Path) -> Pooling:
        """The settings in a checkpoint's folder: our file, else our key of config.json, else the files of
        sentence-transformers, else the defaults."""
        if (folder / FILE).is_file():
            return Pooling.of(read_json(folder / FILE), folder / FILE)
        config = _optional(folder / "config.json")
        if isinstance(config.get(CONFIG), dict):
            return Pooling.of(config[CONFIG], folder / "config.json")
        if (folder / "modules.json").is_file():
            return _sentence_transformers(folder)
        if config.get("model_type") == "dpr":
            return Pooling("cls", normalize=False)
        return Pooling()

    @staticmethod
    def of(settings: Mapping[str, Any], where: Path) -> Pooling:
        """Settings by name; an unknown one is an error."""
        known = {field.name: field.type for field in fields(Pooling)}
        for name, value in settings.items():
            if name not in known:
                raise CheckpointError(f"{where} has the unknown setting '{name}'; known are {', '.join(known)}.")
            if known[name] != type(value).__name__:
                raise CheckpointError(f"The setting '{name}' in {where} is {value!r}, but has to be a {known[name]}.")
        return Pooling(**settings)

    def save(self, folder: Path) -> None:
        """Write the settings beside a checkpoint."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")


def _sentence_transformers(folder: Path) -> Pooling:
    """The settings that the modules of a sentence-transformers folder amount to."""
    found = Pooling(normalize=False)
    try:
        for module in json.loads((folder / "modules.json").read_text(encoding="utf-8")):
            kind, place = str(module["type"]).rsplit(".", 1)[-1], folder / module["path"]
            if kind == "Normalize":
                found = replace(found, normalize=True)
            elif kind == "Pooling":
                found = replace(found, pooling=_pooling(place / "config.json"))
            elif kind != "Transformer":
                raise CheckpointError(f"{folder} has a module '{kind}' behind the network, which is not known here.")
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{folder / 'modules.json'} is not readable ({error!r}); get the file again.") from error
    limits = _optional(folder / "sentence_bert_config.json")
    prompts = _optional(folder / "config_sentence_transformers.json").get("prompts") or {}
    passage = next((prompts[name] for name in ("passage", "document", "corpus") if prompts.get(name)), "")
    said = limits.get("max_seq_length") or _optional(folder / "tokenizer_config.json").get("model_max_length") or 0
    longest = int(said) if said < ENDLESS else 0
    return replace(found, longest=longest, query=prompts.get("query") or "", passage=passage)


def _pooling(path: Path) -> str:
    """The pooling that a sentence-transformers file names; the mean where there is no file."""
    said = _optional(path)
    modes = said.get("pooling_mode") or [
        name.removeprefix("pooling_mode_")
        for name, chosen in said.items()
        if name.startswith("pooling_mode_") and chosen
    ]
    named = [modes] if isinstance(modes, str) else list(modes)
    known = {"mean_tokens": "mean", "mean": "mean", "cls_token": "cls", "cls": "cls"}
    if len(named) > 1 or any(name not in known for name in named):
        raise CheckpointError(f"{path} asks for the pooling {' + '.join(named)}; known are {', '.join(POOLINGS)}.")
    return known[named[0]] if named else "mean"


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}
