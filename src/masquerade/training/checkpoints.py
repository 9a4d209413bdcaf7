"""A run's folder: checkpoints that are whole or not there, and the log of its losses."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from masquerade.checkpoints.folders import load, save
from masquerade.data.packing import Place
from masquerade.errors import MasqueradeError
from masquerade.files import read_json, write_text
from masquerade.nn.model import Model

KEPT = 2  # how many checkpoints stay


class Store:
    """Checkpoints of a run: the model as an ordinary folder, and beside it the optimizer, the step and the place in
    the data. A checkpoint is written under another name and renamed, so a run can be killed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.jsonl"

    def latest(self) -> Path | None:
        """The newest whole checkpoint."""
        found = [path for path in self.folder.glob("step-*") if (path / "state.json").is_file()]
        return max(found, key=lambda path: int(path.name.removeprefix("step-")), default=None)

    def save(self, step: int, networks: dict[str, Model], optimizer: torch.optim.Optimizer, place: Place) -> Path:
        """Write the checkpoint of a step: the model in its folder, its helpers in folders inside of it."""
        fresh, target = self.folder / f".step-{step}.tmp", self.folder / f"step-{step}"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            for name, model in networks.items():
                save(model, fresh / name)
            torch.save(optimizer.state_dict(), fresh / "optimizer.pt")
            write_text(fresh / "state.json", json.dumps({"step": step, "place": asdict(place)}))
            shutil.rmtree(target, ignore_errors=True)
            os.replace(fresh, target)
        except (OSError, MasqueradeError) as error:
            shutil.rmtree(fresh, ignore_errors=True)
            reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
            last = self.latest()
            kept = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
            raise MasqueradeError(f"The checkpoint of step {step} cannot be written ({reason}); {kept}.") from error
        for old in sorted(self.folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def load(self, checkpoint: Path) -> tuple[dict[str, Model], dict[str, Any], int, Place]:
        """The networks, the optimizer's state, the step and the place of a checkpoint."""
        state = read_json(checkpoint / "state.json")
        optimizer = torch.load(checkpoint / "optimizer.pt", weights_only=True)
        networks = {"": load(checkpoint)}
        networks |= {path.parent.name: load(path.parent) for path in checkpoint.glob("*/config.json")}
        return networks, optimizer, int(state["step"]), Place(**state["place"])

    def record(self, entry: dict[str, Any]) -> None:
        """Add a line to the log."""
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def history(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        if not self.log.is_file():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line.strip()]

    def rewind(self, step: int) -> None:
        """Forget what was logged after a step, since it will be done again."""
        kept = [entry for entry in self.history() if entry["step"] <= step]
        write_text(self.log, "".join(json.dumps(entry) + "\n" for entry in kept))
