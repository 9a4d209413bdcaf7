"""What a pretraining run has to beat, unigram and 5-gram floors at its own held-out labels, and further measures of it.
Used by pretraining_table.py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from masquerade.data.corpus import prepare
from masquerade.data.packing import DataCursor, Row, collate
from masquerade.files import write_text
from masquerade.layout import IGNORE, Layout
from masquerade.objectives.electra import ElectraLoss, replaced
from masquerade.objectives.loss import Loss, TermLoss, TokenTerm
from masquerade.objectives.recurrence import RecurrentLoss
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.checkpoints import Store
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining, read_recipe
from masquerade.writing.ngram import NGram
from masquerade.writing.segments import segment_losses

SHARES = (0.0, 0.02, 0.1, 0.3, 0.6, 0.9)  # of the labels' own frequencies, tried one after another
COPIES = tuple(step / 20 for step in range(20))  # how sure copying may be of the token shown
COUNTED = 150  # steps whose labels are counted
PAIRS = 1500  # held-out rows whose pairs are judged: with 1,500 pairs a share is known to ± 2.5 points
MEMORIES = (0, 16, 32, 64, 128)  # tokens that a Transformer-XL may remember
LEFT_TO_RIGHT, RIGHT_TO_LEFT = ("next",), ("backward",)


@torch.inference_mode()
def measure(words: Sequence[str], threads: int, out: Path, result: Path) -> None:
    """Write the measures of a finished run, given by the arguments of its command, to a JSON file."""
    torch.set_num_threads(threads)
    recipe = read_recipe(Path(words[0]), Pretraining, words[1:])
    store = Store(Path(recipe.out))
    checkpoint = store.latest()
    assert checkpoint is not None
    job = Pretrain(recipe)
    networks, _, state = store.load(checkpoint)
    job.kept = dict(state.kept)
    job.read(networks[""], store.folder)
    loss = job.loss(networks).eval()
    after = words_loss(job, loss)
    fixed, frequencies = floor(job, loss)
    rows = job.segments.held_out if job.segments is not None else job.held_out
    found: dict[str, Any] = {"floor": fixed, "copying": fixed - copying(job, loss, rows, frequencies)}
    found["after"] = after["words"]
    found["five"] = five_gram(job, out)
    found |= {name: value for name, value in after.items() if name != "words"}
    if "pair" in networks[""].spec.all_heads:
        found["pairs right, %"] = 100 * pair_accuracy(loss, more_rows(job, networks[""].tokenizer, PAIRS))
    if isinstance(loss, ElectraLoss):
        found["AUC"] = detector_auc(loss, rows)
    if isinstance(loss, RecurrentLoss) and networks[""].spec.mask == "causal":
        found |= memory_losses(job, loss)
    step = recipe.rows * (recipe.length if recipe.memory else recipe.row)
    key = "tokens" if "tokens" in store.history()[-1] else "held_out"
    found["curve"] = [(entry["step"] * step, entry[key]) for entry in store.history() if key in entry]
    found |= {"tokens": recipe.steps * step, "seed": recipe.seed}
    result.parent.mkdir(parents=True, exist_ok=True)
    write_text(result, json.dumps(found))


def words_loss(job: Pretrain, loss: Loss) -> dict[str, float]:
    """The held-out loss of predicted tokens as ``words``, and the other terms by name."""
    torch.manual_seed(0)
    scores = job.evaluate(loss)
    others = {name: value for name, value in scores.items() if name not in ("held_out", "tokens")}
    return {"words": scores.get("tokens", scores["held_out"]), **others}


def floor(job: Pretrain, loss: Loss) -> tuple[float, np.ndarray]:
    """The lowest held-out loss of fixed frequencies, those of the text mixed with those of the labels; and these
    frequencies, (vocab,)."""
    text, labels = text_counts(job), label_counts(job, loss.model.spec.vocab)
    found = list[tuple[float, np.ndarray]]()
    for share in SHARES:
        mixed = (1 - share) * text / text.sum() + share * labels / max(1.0, labels.sum())
        with predicting(loss, torch.from_numpy(np.log(mixed)).float()):
            found.append((words_loss(job, loss)["words"], mixed))
    return min(found, key=lambda each: each[0])


def copying(job: Pretrain, loss: Loss, rows: Sequence[Row], frequencies: np.ndarray) -> float:
    """How much lower a floor is if the token that is shown where one is to be predicted is given a fixed probability,
    the best for the held-out rows. Of BERT's labels 10 % are shown unchanged, and copying those is no language."""
    if not (isinstance(loss, TermLoss) and type(loss.terms.get("tokens")) is TokenTerm and loss.model.decoder is None):
        return 0.0
    layouts = [example.layout for row in rows for example in row]
    shown, label = (torch.cat([getattr(each, name) for each in layouts]).numpy() for name in ("ids", "label"))
    shown, label = shown[label != IGNORE], label[label != IGNORE]
    fixed, copied, told = frequencies[label], shown == label, shown != job.objective.vocabulary.mask
    gains = [np.where(told, np.log(sure * copied + (1 - sure) * fixed) - np.log(fixed), 0).mean() for sure in COPIES]
    return float(max(gains))


@contextmanager
def predicting(loss: Loss, scores: Tensor) -> Iterator[None]:
    """Inside, all language heads of a loss give the same scores, (vocab,), whatever the states are."""
    changed = [each for each in loss.networks.values() if "lm" in each.spec.all_heads]
    for network in changed:
        learnt = network.head

        def head(name: str, states: Tensor, learnt: Any = learnt) -> Tensor:
            return scores.expand(*states.shape[:-1], -1) if name == "lm" else learnt(name, states)

        def boundary(states: Tensor, left: Tensor, *_: Tensor) -> Tensor:
            return scores.expand(len(left), -1)

        network.head, network.boundary_scores = head, boundary  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for network in changed:
            del network.head, network.boundary_scores


def text_counts(job: Pretrain) -> np.ndarray:
    """How often each token occurs in the training text, plus one: (vocab,)"""
    recipe, vocabulary = job.recipe, job.objective.vocabulary
    tokens = _tokens(job, recipe.train, "train")
    counts = np.bincount(np.asarray(tokens.ids), minlength=vocabulary.size) + 1.0
    for special in (vocabulary.cls, vocabulary.sep):
        if special >= 0:
            counts[special] += len(tokens)
    return counts


def label_counts(job: Pretrain, vocab: int) -> np.ndarray:
    """How often each token is a label in the first steps: (vocab,)"""
    counts = np.zeros(vocab)
    for rows, _ in islice(job.batches(DataCursor()), COUNTED):
        for label in (example.layout.label for row in rows for example in row):
            counts += np.bincount(label[label != IGNORE].numpy(), minlength=vocab)
    return counts


def five_gram(job: Pretrain, out: Path) -> float | None:
    """The held-out loss of 5-grams that are counted in as much text as the run read; None where it is not defined."""
    recipe = job.recipe
    if recipe.objective not in (*LEFT_TO_RIGHT, *RIGHT_TO_LEFT):
        return None
    budget = recipe.steps * recipe.rows * recipe.row
    kept = out / "results" / f"five-{recipe.objective}-{budget}.json"
    if kept.is_file():
        return float(json.loads(kept.read_text()))
    pieces = job.objective.cut(_tokens(job, recipe.train, "train"), recipe.length)
    order = np.random.default_rng(0).permutation(len(pieces)).tolist()
    texts, total = list[list[int]](), 0
    for number in order:
        if total >= budget:
            break
        texts.append(_text(job.objective.enclosed(pieces, number), recipe.objective))
        total += len(texts[-1])
    model = NGram.train(texts, 5, job.objective.vocabulary.size)
    held = [_text(example.layout.ids.tolist(), recipe.objective) for row in job.held_out for example in row]
    value = -float(np.concatenate([model.log_probability(ids) for ids in held]).mean())
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(value))
    return value


def _text(ids: list[int], objective: str) -> list[int]:
    """The labels of a piece in the order in which they are predicted: all tokens but the first."""
    return ids[1:] if objective in LEFT_TO_RIGHT else ids[-2::-1]


def _tokens(job: Pretrain, sources: Sequence[str], part: str) -> Any:
    recipe = job.recipe
    folder = Path(recipe.out) / "tokens" / part
    tokenizer = Store(Path(recipe.out)).load(_latest(recipe.out))[0][""].tokenizer
    return prepare(sources, tokenizer, folder, recipe.text_field)


def _latest(out: str) -> Path:
    found = Store(Path(out)).latest()
    assert found is not None
    return found


def more_rows(job: Pretrain, tokenizer: Tokenizer, count: int) -> list[Row]:
    """The first ``count`` held-out rows, of which those that the run was evaluated on are the beginning."""
    folder = Path(job.recipe.out) / "tokens" / "held_out"
    stream = job._rows(job.recipe.held_out, folder, tokenizer, seed=0)(DataCursor())
    return [row for row, _ in islice(stream, count)]


def pair_accuracy(loss: Loss, rows: Sequence[Row]) -> float:
    """How many of the pairs of texts are told right."""
    right, total = 0, 0
    for start in range(0, len(rows), 16):
        batch = collate(rows[start : start + 16], loss.model.spec.pad)
        if "sentence_token" not in batch.extra:
            continue
        states = loss.model.hidden(batch.layout).flatten(0, 1)[batch.extra["sentence_token"]]
        guessed = loss.model.head("pair", states).argmax(-1)
        right += int((guessed == batch.extra["sentence_label"]).sum())
        total += len(guessed)
    return right / max(total, 1)


def detector_auc(loss: ElectraLoss, rows: Sequence[Row]) -> float:
    """How often a replaced token gets a higher score than one that is not (area under the ROC curve)."""
    torch.manual_seed(0)
    scores, truth = list[Tensor](), list[Tensor]()
    for start in range(0, len(rows), 16):
        layout: Layout = collate(rows[start : start + 16], loss.model.spec.pad).layout
        sampled = torch.multinomial(loss.generator.scores(layout, "lm", at=layout.label != IGNORE).softmax(-1), 1)
        shown, changed = replaced(layout, sampled.squeeze(-1))
        scores.append(loss.model.scores(shown, "detect", at=layout.real).flatten())
        truth.append(changed[layout.real])
    ranks = torch.cat(scores).argsort().argsort().double() + 1
    positive = torch.cat(truth)
    ones = int(positive.sum())
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * (len(positive) - ones)))


def memory_losses(job: Pretrain, loss: Loss) -> Mapping[str, float]:
    """The loss of the first held-out documents with memories of several sizes, at the same weights."""
    tokens = _tokens(job, job.recipe.held_out, "held_out")
    vocabulary = job.objective.vocabulary
    texts = [vocabulary.enclosed(tokens[number].tolist()) for number in range(min(40, len(tokens)))]
    found = dict[str, float]()
    for memory in MEMORIES:
        losses = torch.cat(segment_losses(loss.model, texts, job.recipe.length, memory))
        found[f"perplexity, memory {memory}"] = float(losses.double().mean().exp())
    return found


if __name__ == "__main__":
    raise SystemExit(f"{os.path.basename(__file__)} is used by pretraining_table.py")
