"""The training loop. Losses do not depend on the number of processes or on interruptions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from masquerade import kernels
from masquerade.data.packing import DataCursor, Row, collate
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.training.checkpoints import RunState, Store
from masquerade.training.recipe import Recipe
from masquerade.training.report import Report


class TrainingJob(ABC):
    """What a run trains: its networks, its data, its loss and its evaluation."""

    recipe: Recipe
    every: int = 0  # steps between two calls of ``refresh``; 0: it is never called
    kept: dict[str, Any]  # what checkpoints keep for the job: tensors and plain values, by name; empty at the start

    @abstractmethod
    def begin(self) -> dict[str, Model]:
        """The networks of a fresh run, named as in ``Loss.networks``."""

    @abstractmethod
    def read(self, model: Model, folder: Path) -> None:
        """Read the data; large files made from it go into the run's folder."""

    @abstractmethod
    def loss(self, networks: dict[str, Model]) -> Loss:
        """The loss that is minimised."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of optimizer steps; known once the data is read."""

    @abstractmethod
    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        """The packed rows of each optimizer step from a cursor on, and the cursor after them, without end."""

    @abstractmethod
    def evaluate(self, loss: Loss) -> dict[str, float]:
        """The scores on the held-out data; empty if there is none."""

    def collect(self, loss: Loss, process: int, processes: int) -> dict[str, Any]:
        """What a checkpoint keeps, ``kept`` by default. Called in every process, since each may have a part of it."""
        return self.kept

    def refresh(self, model: Model, step: int) -> None:
        """Called before every ``every``-th step, from step 0 on, with the model in evaluation mode and without
        gradients: the place to rebuild what depends on the weights, such as an index."""
        raise NotImplementedError("a job that sets 'every' defines 'refresh'")


class Run:
    """One run of a job: its networks and its progress."""

    def __init__(self, job: TrainingJob, resume: bool = False) -> None:
        from accelerate import Accelerator, PartialState
        from accelerate.utils import broadcast_object_list

        kernels.use()
        self.job, self.recipe, self.store = job, job.recipe, Store(Path(job.recipe.out))
        self.store.make_folder()
        checkpoint = self.store.latest()
        measured = self.store.precision(checkpoint) if checkpoint is not None and job.recipe.precision == "auto" else ""
        # several processes without a GPU would otherwise each train alone, on all of the data
        device = PartialState(cpu=not torch.accelerator.is_available()).device.type
        precision = [measured or kernels.mixed_precision(job.recipe.precision, device)]
        broadcast_object_list(precision)  # what one process measures holds for all, and for the run after a resume
        self.accelerator = Accelerator(mixed_precision=precision[0])
        if checkpoint is not None and not resume:
            out = self.recipe.out
            raise MasqueradeError(f"{out} already holds a run; continue it with --resume, or choose another 'out'.")
        torch.manual_seed(self.recipe.seed)
        networks, saved, state = (job.begin(), None, RunState()) if checkpoint is None else self.store.load(checkpoint)
        self.step, self.cursor, job.kept = state.step, state.cursor, dict(state.kept)
        with self.accelerator.main_process_first():
            job.read(networks[""], self.store.folder)
        loss = job.loss(networks)
        for network in loss.networks.values():
            network.stack.recompute = self.recipe.recompute
        groups = _decayed(loss, self.recipe.decay)
        optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6, fused=True)
        if saved is not None:
            optimizer.load_state_dict(saved)
        self.loss, self.optimizer = self.accelerator.prepare(loss, optimizer)

    @property
    def bare(self) -> Loss:
        """The loss without the wrapper of data-parallel training."""
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
            batches = self.job.batches(self.cursor)
            while self.step < steps:
                if self.job.every and self.step % self.job.every == 0:
                    with report.aside():
                        self._refresh()
                rows, cursor = next(batches)
                values = self._step(rows)
                self.step, self.cursor = self.step + 1, cursor
                last = self.step == steps
                self._check(values["loss"])
                report.advance(self.step, values, log=last or self.step % recipe.log_every == 0)
                with report.aside():
                    if recipe.held_out and (last or self.step % recipe.evaluate_every == 0):
                        report.note(self.step, self.evaluate())
                    if last or self.step % recipe.save_every == 0:
                        self._save()
                self.accelerator.wait_for_everyone()
        if main:
            report.plot()

    def _save(self) -> None:
        """Write a checkpoint, in the main process."""
        self.job.kept = self.job.collect(self.bare, self.accelerator.process_index, self.accelerator.num_processes)
        if self.accelerator.is_main_process:
            precision = str(self.accelerator.mixed_precision)
            state = RunState(self.step, self.cursor, self.job.kept, precision)
            self.store.save(self.bare.networks, self.optimizer, state)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """The scores on the held-out data: the same examples and the same random numbers every time."""
        torch.manual_seed(0)
        self.loss.eval()
        return self.job.evaluate(self.bare)

    @torch.no_grad()
    def _refresh(self) -> None:
        self.loss.eval()
        self.job.refresh(self.bare.model, self.step)

    def _step(self, rows: Sequence[Row]) -> dict[str, float]:
        """One optimizer step. Every process is given all rows and computes its share of them. Losses are summed and
        divided by the number of predictions in all rows, so the result depends neither on the number of processes nor
        on the size of micro-batches."""
        accelerator, recipe = self.accelerator, self.recipe
        rank, world = accelerator.process_index, accelerator.num_processes
        torch.manual_seed((recipe.seed * 1_000_003 + self.step) * 1_009 + rank)  # dropout, the same after a resume
        self.loss.train()
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * factor(recipe, self.step, self.job.steps)
        counts, mine = self.bare.counts(rows), rows[rank::world]
        micro = [mine[start : start + recipe.micro] for start in range(0, len(mine), recipe.micro)] or [rows[:1]]
        share = float(bool(mine))  # with fewer rows than processes, the idle ones compute a row that counts 0
        summed = torch.zeros(2, device=accelerator.device)  # the loss, and the number of tokens
        for number, part in enumerate(micro, start=1):
            batch = collate(part, self.bare.model.spec.pad).to(accelerator.device)
            alone = accelerator.no_sync(self.loss) if number < len(micro) else nullcontext()
            with alone:
                with accelerator.autocast():
                    parts = self.loss(batch)
                loss = self.bare.total(parts, counts) * share
                accelerator.backward(loss * world)  # gradients are averaged over processes and have to be summed
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
                f"The loss of step {self.step} is {loss}; lower the 'rate' or raise 'warmup', and continue from "
                f"{self.store.latest() or 'the start'}."
            )


def factor(recipe: Recipe, step: int, steps: int) -> float:
    """The factor of the learning rate at a step: it rises during the warm-up, then follows the schedule."""
    warmup = recipe.warmup * steps if recipe.warmup < 1 else recipe.warmup
    if step < warmup:
        return min(1.0, (step + 1) / warmup)
    done = (step - warmup) / max(1.0, steps - warmup)
    if recipe.schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if recipe.schedule == "cosine" else 1.0


def mean_loss(loss: Loss, rows: Sequence[Row], micro: int) -> dict[str, float]:
    """The loss of some rows as ``held_out``, and term by term if there are several."""
    counts, values = loss.counts(rows), dict[str, float]()
    whole = 0.0
    for start in range(0, len(rows), micro):
        parts = loss(collate(rows[start : start + micro], loss.model.spec.pad).to(loss.model.device))
        whole += float(loss.total(parts, counts))
        for name, value in parts.items():
            values[name] = values.get(name, 0.0) + float(value) / max(counts[name], 1)
    return {"held_out": whole} | (values if len(values) > 1 else {})


def _decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Parameters in two groups: weight matrices decay, biases and norms do not."""
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, weight in model.named_parameters():
        if weight.requires_grad:  # Transformer-XL's biases have two dimensions
            groups[weight.dim() > 1 and not name.endswith("bias")].append(weight)
    return [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]
