"""The training loop, for one process or many: the same losses either way, and after any interruption."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from masquerade import kernels
from masquerade.data.examples import Example
from masquerade.data.packing import Place, collate
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.nn.model import Model
from masquerade.training.checkpoints import Store
from masquerade.training.loss import Loss
from masquerade.training.recipe import Recipe
from masquerade.training.report import Report

Rows = list[list[Example]]


class Job(ABC):
    """What a run is about: where it begins, what it reads, what that costs, and how well it does."""

    recipe: Recipe

    @abstractmethod
    def begin(self) -> dict[str, Model]:
        """The networks that a fresh run begins with, as ``Loss.networks`` names them."""

    @abstractmethod
    def read(self, model: Model, folder: Path) -> None:
        """Make the data ready, in the run's folder if it is large."""

    @abstractmethod
    def loss(self, networks: dict[str, Model]) -> Loss:
        """What is to be made small."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many optimizer steps there are; known once the data is read."""

    @abstractmethod
    def batches(self, place: Place) -> Iterator[tuple[Rows, Place]]:
        """The packed rows of each optimizer step from a place on, and the place behind them, without end."""

    @abstractmethod
    def evaluate(self, loss: Loss) -> dict[str, float]:
        """How well the networks do on what was held out; nothing if there is none."""


class Run:
    """One run of a job: its networks, and how far it has come."""

    def __init__(self, job: Job, resume: bool = False) -> None:
        from accelerate import Accelerator, PartialState
        from accelerate.utils import broadcast_object_list

        kernels.use()
        precision = [kernels.mixed_precision(job.recipe.precision, PartialState().device.type)]
        broadcast_object_list(precision)  # what one process measures holds for all
        self.job, self.recipe, self.store = job, job.recipe, Store(Path(job.recipe.out))
        self.accelerator = Accelerator(mixed_precision=precision[0])
        checkpoint = self.store.latest()
        if checkpoint is not None and not resume:
            out = self.recipe.out
            raise MasqueradeError(f"{out} already holds a run; go on with --resume, or choose another 'out'.")
        torch.manual_seed(self.recipe.seed)
        networks, state, self.step, self.place = (
            (job.begin(), None, 0, Place()) if checkpoint is None else self.store.load(checkpoint)
        )
        with self.accelerator.main_process_first():
            job.read(networks[""], self.store.folder)
        loss = job.loss(networks)
        for network in loss.networks.values():
            network.stack.recompute = self.recipe.recompute
        groups = _decayed(loss, self.recipe.decay)
        optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6, fused=True)
        if state is not None:
            optimizer.load_state_dict(state)
        self.loss, self.optimizer = self.accelerator.prepare(loss, optimizer)

    @property
    def bare(self) -> Loss:
        """The loss without what data-parallel training wraps around it."""
        loss: Loss = self.accelerator.unwrap_model(self.loss)
        return loss

    def train(self) -> None:
        """Run to the end of the recipe."""
        recipe, main, steps = self.recipe, self.accelerator.is_main_process, self.job.steps
        if main:
            write_text(self.store.folder / "recipe.json", recipe.json())
            self.store.rewind(self.step)
        with Report(self.store, steps, self.step, shown=main) as report:
            if recipe.held_out and self.step == 0:
                with report.aside():
                    report.note(0, self.evaluate())
            for rows, place in islice(self.job.batches(self.place), max(0, steps - self.step)):
                values = self._step(rows)
                self.step, self.place = self.step + 1, place
                last = self.step == steps
                self._check(values["loss"])
                report.advance(self.step, values, log=last or self.step % recipe.log_every == 0)
                with report.aside():
                    if recipe.held_out and (last or self.step % recipe.evaluate_every == 0):
                        report.note(self.step, self.evaluate())
                    if main and (last or self.step % recipe.save_every == 0):
                        self.store.save(self.step, self.bare.networks, self.optimizer, self.place)
                self.accelerator.wait_for_everyone()
        if main:
            report.plot()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """How well the networks do on what was held out: always the same text, made examples by the same chance."""
        torch.manual_seed(0)
        self.loss.eval()
        return self.job.evaluate(self.bare)

    def _step(self, rows: Rows) -> dict[str, float]:
        """One optimizer step over rows that every process knows and shares the work of. Losses are summed and divided
        by what all of the rows predict, so neither processes nor micro-batches change the result."""
        accelerator, recipe = self.accelerator, self.recipe
        rank, world = accelerator.process_index, accelerator.num_processes
        torch.manual_seed((recipe.seed * 1_000_003 + self.step) * 1_009 + rank)  # dropout, the same after a resume
        self.loss.train()
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * factor(recipe, self.step, self.job.steps)
        counts, mine = self.bare.counts(rows), rows[rank::world]
        micro = [mine[start : start + recipe.micro] for start in range(0, len(mine), recipe.micro)] or [rows[:1]]
        share = float(bool(mine))  # with fewer rows than processes, some compute a row for nothing
        summed = torch.zeros(2, device=accelerator.device)  # the loss, and how many tokens were read
        for number, part in enumerate(micro, start=1):
            batch = collate(part, self.bare.model.spec.pad).to(accelerator.device)
            alone = accelerator.no_sync(self.loss) if number < len(micro) else nullcontext()
            with alone:
                with accelerator.autocast():
                    parts = self.loss(batch)
                loss = self.bare.total(parts, counts) * share
                accelerator.backward(loss * world)  # processes are averaged, and are to be summed
            summed += torch.stack([loss.detach(), torch.tensor(batch.tokens * share, device=loss.device)])
        norm = accelerator.clip_grad_norm_(self.loss.parameters(), recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss_value, tokens = accelerator.reduce(summed, "sum").tolist()
        rate = self.optimizer.param_groups[0]["lr"]
        return {"loss": loss_value, "tokens": tokens, "rate": rate, "gradient": float(norm)}

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise MasqueradeError(
                f"The loss of step {self.step} is {loss}; lower the 'rate' or raise 'warmup', and go on from "
                f"{self.store.latest() or 'the start'}, which is still good."
            )


def factor(recipe: Recipe, step: int, steps: int) -> float:
    """How much of the learning rate a step has: it rises during the warm-up, then falls as the schedule says."""
    warmup = recipe.warmup * steps if recipe.warmup < 1 else recipe.warmup
    if step < warmup:
        return min(1.0, (step + 1) / warmup)
    done = (step - warmup) / max(1.0, steps - warmup)
    if recipe.schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if recipe.schedule == "cosine" else 1.0


def mean_loss(loss: Loss, rows: Rows, micro: int) -> dict[str, float]:
    """The loss of some rows as ``held_out``; and part by part, where it has several."""
    counts, values = loss.counts(rows), dict[str, float]()
    whole = 0.0
    for start in range(0, len(rows), micro):
        parts = loss(collate(rows[start : start + micro], loss.model.spec.pad).to(loss.model.device))
        whole += float(loss.total(parts, counts))
        for name, value in parts.items():
            values[name] = values.get(name, 0.0) + float(value) / max(counts[name], 1)
    return {"held_out": whole} | (values if len(values) > 1 else {})


def _decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Parameters in two groups: matrices decay, biases and norms do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
