"""The training loop, for one process or many: the same losses either way, and after any interruption."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from masquerade.checkpoint import load
from masquerade.data.rows import Place, Rows, collate
from masquerade.data.tokens import prepare
from masquerade.errors import MasqueradeError
from masquerade.families.own import mass
from masquerade.files import write_text
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.objectives import make_objective
from masquerade.objectives.base import Example, Terms
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.loss import Loss, counts
from masquerade.training.recipe import Recipe
from masquerade.training.report import Report
from masquerade.training.store import Store


class Run:
    """One run of a recipe: its data, its model, and how far it has come."""

    def __init__(self, recipe: Recipe, resume: bool = False) -> None:
        from accelerate import Accelerator

        self.recipe, self.store = recipe, Store(Path(recipe.out))
        self.accelerator = Accelerator(mixed_precision=recipe.precision)
        checkpoint = self.store.latest()
        if checkpoint is not None and not resume:
            raise MasqueradeError(f"{recipe.out} already holds a run; go on with --resume, or choose another 'out'.")
        torch.manual_seed(recipe.seed)
        model, state, self.step, self.place = (
            (_fresh(recipe), None, 0, Place()) if checkpoint is None else self.store.load(checkpoint)
        )
        if model.tokenizer is None:
            raise MasqueradeError("The model to train has no tokenizer; name one in the recipe: tokenizer = '…'.")
        self.train_rows = self._rows(recipe.train, "train", model.tokenizer)
        self.held_out = self._rows(recipe.held_out, "held_out", model.tokenizer) if recipe.held_out else None
        model.stack.recompute = recipe.recompute
        optimizer = torch.optim.AdamW(_decayed(model, recipe.decay), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-6)
        if state is not None:
            optimizer.load_state_dict(state)
        self.model = model
        self.loss, self.optimizer = self.accelerator.prepare(Loss(model), optimizer)

    def train(self) -> None:
        """Run to the end of the recipe."""
        recipe, main = self.recipe, self.accelerator.is_main_process
        if main:
            write_text(self.store.folder / "recipe.json", recipe.json())
            self.store.rewind(self.step)
        with Report(self.store, recipe.steps, self.step, shown=main) as report:
            for rows, place in islice(self._batches(), recipe.steps - self.step):
                values = self._step(rows)
                self.step, self.place = self.step + 1, place
                last = self.step == recipe.steps
                self._check(values["loss"])
                report.advance(self.step, values, log=last or self.step % recipe.log_every == 0)
                if self.held_out is not None and (last or self.step % recipe.evaluate_every == 0):
                    report.note(self.step, {"held_out": self.evaluate()})
                if main and (last or self.step % recipe.save_every == 0):
                    self.store.save(self.step, self.model, self.optimizer, self.place)
                self.accelerator.wait_for_everyone()
        if main:
            report.plot()

    @torch.no_grad()
    def evaluate(self) -> float:
        """The mean loss of the held-out text's first rows, always the same ones, made by the same chance."""
        if self.held_out is None:
            raise MasqueradeError("The recipe names no 'held_out' text to evaluate on.")
        self.loss.eval()
        rows = [row for row, _ in islice(self.held_out(Place()), self.recipe.held_out_rows)]
        total, value = counts(rows), 0.0
        for start in range(0, len(rows), self.recipe.micro):
            batch = collate(rows[start : start + self.recipe.micro], self.model.spec.pad).to(self.accelerator.device)
            parts = self.accelerator.unwrap_model(self.loss)(batch)
            value += sum(float(part) / max(total[name], 1) for name, part in parts.items())
        return value

    def _rows(self, sources: Sequence[str], name: str, tokenizer: Tokenizer) -> Rows:
        """The rows of some sources, tokenised once, by one process."""
        recipe, folder = self.recipe, self.store.folder / "tokens" / name
        with self.accelerator.main_process_first():
            tokens = prepare(sources, tokenizer, folder, recipe.text_field)
        objective = make_objective(recipe.objective, tokenizer, recipe.options)
        seed = recipe.seed if name == "train" else 0
        return Rows(tokens, objective, Terms.of(tokenizer), length=recipe.length, row=recipe.row, seed=seed)

    def _batches(self) -> Iterator[tuple[list[list[Example]], Place]]:
        """The rows of each optimizer step, and the place behind them."""
        stream = self.train_rows(self.place)
        while group := list(islice(stream, self.recipe.rows)):
            yield [row for row, _ in group], group[-1][1]

    def _step(self, rows: list[list[Example]]) -> dict[str, float]:
        """One optimizer step over rows that every process knows and shares the work of. Losses are summed and divided
        by what all of the rows predict, so neither processes nor micro-batches change the result."""
        accelerator, recipe = self.accelerator, self.recipe
        rank, world = accelerator.process_index, accelerator.num_processes
        torch.manual_seed((recipe.seed * 1_000_003 + self.step) * 1_009 + rank)  # dropout, the same after a resume
        self.loss.train()
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * factor(recipe, self.step)
        total, mine = counts(rows), rows[rank::world]
        micro = [mine[start : start + recipe.micro] for start in range(0, len(mine), recipe.micro)]
        summed = torch.zeros(2, device=accelerator.device)  # the loss, and how many tokens were read
        for number, part in enumerate(micro, start=1):
            batch = collate(part, self.model.spec.pad).to(accelerator.device)
            alone = accelerator.no_sync(self.loss) if number < len(micro) else nullcontext()
            with alone:
                with accelerator.autocast():
                    parts = self.loss(batch)
                loss = sum(value / max(total[name], 1) for name, value in parts.items())
                accelerator.backward(loss * world)  # processes are averaged, and are to be summed
            summed += torch.stack([loss.detach(), torch.tensor(float(batch.tokens), device=loss.device)])
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


def factor(recipe: Recipe, step: int) -> float:
    """How much of the learning rate a step has: it rises during the warm-up, then falls as the schedule says."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    if recipe.schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if recipe.schedule == "cosine" else 1.0


def _fresh(recipe: Recipe) -> Model:
    """The model a run begins with: a checkpoint, or fresh weights around a tokenizer."""
    if recipe.start:
        return load(recipe.start)
    tokenizer = Tokenizer.load(Path(recipe.tokenizer)) if recipe.tokenizer else None
    if tokenizer is None:
        raise MasqueradeError("Fresh weights need a tokenizer: name the folder of one, or make one with 'vocab'.")
    values = {"vocab": len(tokenizer), "pad": tokenizer.special("pad"), "outputs": ("lm",), **recipe.model}
    model = build(mass(**values) if recipe.encoder_decoder else Spec.of(values))
    model.tokenizer = tokenizer
    return model


def _decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Parameters in two groups: matrices decay, biases and norms do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
