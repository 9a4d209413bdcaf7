"""A run's folder: complete checkpoints and the log."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from masquerade.checkpoints.folders import load, save
from masquerade.data.packing import DataCursor
from masquerade.errors import MasqueradeError
from masquerade.files import read_json, write_text
from masquerade.nn.model import Model

KEPT = 2  # the number of checkpoints that are not deleted


@dataclass(frozen=True)
class RunState:
    """The progress of a run."""

    step: int = 0  # finished optimizer steps
    cursor: DataCursor = field(default_factory=DataCursor)
    kept: Mapping[str, Any] = field(default_factory=dict)  # ``TrainingJob.kept``
    precision: str = ""  # of matrix products, as Accelerate names it; empty if not known


class Store:
    """Checkpoints of a run. A checkpoint is a model folder that also holds helper networks, the optimizer, the step,
    the cursor in the data and the job's own state. It is written under another name and renamed, so a run can be
    killed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.jsonl"

    def make_folder(self) -> None:
        """Make the run's folder, or say in one sentence why that is impossible."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = f"The run's folder '{self.folder}' cannot be made ({error.strerror})"
            raise MasqueradeError(f"{said}; choose another 'out'.") from error

    def latest(self) -> Path | None:
        """The newest complete checkpoint."""
        found = [path for path in self.folder.glob("step-*") if (path / "state.json").is_file()]
        return max(found, key=lambda path: int(path.name.removeprefix("step-")), default=None)

    def save(self, networks: Mapping[str, Model], optimizer: torch.optim.Optimizer, state: RunState) -> Path:
        """Write a checkpoint: the model in its folder, its helpers in folders inside of it."""
        step = state.step
        fresh, target = self.folder / f".step-{step}.tmp", self.folder / f"step-{step}"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            for name, model in networks.items():
                save(model, fresh / name)
            torch.save(optimizer.state_dict(), fresh / "optimizer.pt")
            if state.kept:
                torch.save(dict(state.kept), fresh / "kept.pt")
            plain = {"step": step, "cursor": asdict(state.cursor), "precision": state.precision}
            write_text(fresh / "state.json", json.dumps(plain))
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

    def precision(self, checkpoint: Path) -> str:
        """The precision that a run was trained with; empty if the checkpoint does not say."""
        return str(read_json(checkpoint / "state.json").get("precision", ""))

    def load(self, checkpoint: Path) -> tuple[dict[str, Model], dict[str, Any], RunState]:
        """The networks, the optimizer's state and the run's state of a checkpoint."""
        state = read_json(checkpoint / "state.json")
        optimizer = torch.load(checkpoint / "optimizer.pt", weights_only=True)
        networks = {"": load(checkpoint)}
        networks |= {path.parent.name: load(path.parent) for path in checkpoint.glob("*/config.json")}
        kept = torch.load(checkpoint / "kept.pt", weights_only=True) if (checkpoint / "kept.pt").is_file() else {}
        cursor = state["cursor"] if "cursor" in state else state["place"]  # as older runs call it
        run = RunState(int(state["step"]), DataCursor(**cursor), kept, self.precision(checkpoint))
        return networks, optimizer, run

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
        """Remove what was logged after a step."""
        kept = [entry for entry in self.history() if entry["step"] <= step]
        write_text(self.log, "".join(json.dumps(entry) + "\n" for entry in kept))
