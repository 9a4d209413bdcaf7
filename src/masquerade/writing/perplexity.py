"""Perplexity of language models, comparable between tokenizers.

Every model predicts each token of each document once, and one end token a document. Perplexity per token depends on the
tokenizer: more tokens a word are easier to predict. Compare models per word or per character. Neither counts what a
tokenizer removes: capitals and accents that it folds, spaces, and unknown words.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise

import torch
from torch.nn import functional as F

from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, Layout, batch
from masquerade.masks import causal, pack
from masquerade.nn.model import Model
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.ngram import NGram
from masquerade.writing.segments import clamped, segment_losses

TOGETHER = 100  # documents tokenised in one batch
AT_ONCE = 2048  # tokens of a batch


@dataclass(frozen=True)
class Perplexity:
    """The loss of a text, and its size."""

    loss_per_token: float  # natural logarithm
    tokens: int  # with one end token a document
    words: int  # separated by spaces
    characters: int  # spaces included

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return _exp(self.loss_per_token)

    @property
    def word_perplexity(self) -> float:
        """Perplexity per word; infinite if it overflows. Not for Chinese, which has no spaces."""
        return _exp(self.loss_per_token * self.tokens / self.words)

    @property
    def bits_per_character(self) -> float:
        """Bits per character."""
        return self.loss_per_token * self.tokens / self.characters / math.log(2)

    def values(self) -> dict[str, float | None]:
        """All numbers by name, with None for infinite ones."""
        derived = ("perplexity", "word_perplexity", "bits_per_character")
        numbers = asdict(self) | {name: getattr(self, name) for name in derived}
        return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


def perplexity(
    model: Model,
    texts: Iterable[str],
    *,
    length: int,
    stride: int | None = None,
    start: int | None = None,
    end: int | None = None,
) -> Perplexity:
    """The perplexity of a network that was trained to predict the next token.

    Documents are read as the objective ``next`` lays them out, in windows of ``length`` tokens: the start token,
    ``length`` − 2 tokens of the text, and room for the end. A window moves on by ``stride`` tokens, half of its length
    if not given, and scores those that are new in it; the others are their context. With a stride of a whole length,
    documents are cut into independent pieces, as in training. The end token is scored only after the last token of a
    document, not after every piece. ``start`` and ``end`` are [CLS] and [SEP] if not given.
    """
    tokenizer = _tokenizer(model)
    stride = length // 2 if stride is None else stride
    if length < 3 or stride < 1:
        raise MasqueradeError(
            f"Windows of {length} tokens that move on by {stride} cannot be read; a window holds a start, an end and "
            "at least one token between them, and moves on by at least one."
        )
    if "learned" in model.spec.positions and length > model.spec.longest:
        raise MasqueradeError(
            f"Windows of {length} tokens are too long for this model, which has {model.spec.longest} positions."
        )
    start = tokenizer.special("cls") if start is None else start
    tally = _Tally()
    windows = (
        window
        for ids in documents(tally.watch(texts), tokenizer, end)
        for window in _windows(ids, start, length - 2, stride)
    )
    training = model.training
    model.eval()
    try:
        for layout in _batches(windows, length, model.spec.pad):
            tally.add(*_score(model, layout))
    finally:
        model.train(training)
    return tally.result()


def memory_perplexity(
    model: Model,
    texts: Iterable[str],
    *,
    length: int,
    memory: int,
    same_length: bool = False,
    clamp: int | None = None,
    start: int | None = None,
    end: int | None = None,
) -> Perplexity:
    """The perplexity of a network with relative positions that reads each document in segments of ``length`` tokens and
    remembers the last ``memory`` tokens before them; see ``segment_losses``. ``clamp`` is the greatest distance that is
    told apart, 0 for all of them."""
    tokenizer = _tokenizer(model)
    start = tokenizer.special("cls") if start is None else start
    tally = _Tally()
    training = model.training
    model.eval()
    try:
        with clamped(model, clamp):
            stream = ([start, *ids] for ids in documents(tally.watch(texts), tokenizer, end))
            while some := list(islice(stream, TOGETHER)):
                for losses in segment_losses(model, some, length, memory, same_length=same_length):
                    tally.add(float(losses.double().sum()), len(losses))
    finally:
        model.train(training)
    return tally.result()


def ngram_perplexity(model: NGram, texts: Iterable[str], tokenizer: Tokenizer, *, end: int | None = None) -> Perplexity:
    """The perplexity of an n-gram model, which reads whole documents and was trained on those of ``documents``."""
    if model.vocab != len(tokenizer):
        raise MasqueradeError(
            f"These n-grams are of {model.vocab} different tokens, but the tokenizer has {len(tokenizer)}; use the one "
            "they were counted with."
        )
    tally = _Tally()
    for ids in documents(tally.watch(texts), tokenizer, end):
        tally.add(-float(model.log_probability(ids).sum()), len(ids))
    return tally.result()


def documents(texts: Iterable[str], tokenizer: Tokenizer, end: int | None = None) -> Iterator[list[int]]:
    """The ids of texts, each followed by the end token ([SEP] if not given)."""
    end = tokenizer.special("sep") if end is None else end
    stream = iter(texts)
    while some := list(islice(stream, TOGETHER)):
        for ids in tokenizer.encode_all(some):
            yield [*ids, end]


def first_tokens(texts: Iterable[Sequence[int]], limit: int | None) -> list[list[int]]:
    """The documents of the first ``limit`` tokens, the last of them cut there; all documents if there is no limit."""
    kept: list[list[int]] = []
    left = sys.maxsize if limit is None else limit
    for ids in texts:
        if left <= 0:
            break
        kept.append(list(ids[:left]))
        left -= len(kept[-1])
    return kept


def show(measured: Mapping[str, Perplexity], as_json: bool = False) -> None:
    """Print the measures as a table, a row for each name; or as JSON, with null for infinite values."""
    if as_json:
        print(json.dumps({name: each.values() for name, each in measured.items()}, ensure_ascii=False, indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    for title in ("per token", "per word", "bits/character", "tokens", "words"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, each in measured.items():
        numbers = (f"{each.perplexity:,.2f}", f"{each.word_perplexity:,.1f}", f"{each.bits_per_character:.4f}")
        table.add_row(escape(name), *numbers, f"{each.tokens:,}", f"{each.words:,}")
    Console(highlight=False).print(table)


class _Tally:
    """Sums of losses, tokens, words and characters."""

    def __init__(self) -> None:
        self.loss, self.tokens, self.words, self.characters = 0.0, 0, 0, 0

    def watch(self, texts: Iterable[str]) -> Iterator[str]:
        """Count and yield the texts that have at least one word."""
        for text in texts:
            words = len(text.split())
            if words:
                self.words += words
                self.characters += len(text)
                yield text

    def add(self, loss: float, tokens: int) -> None:
        self.loss += loss
        self.tokens += tokens

    def result(self) -> Perplexity:
        if not self.words:
            raise MasqueradeError("There is no text to predict; give at least one word.")
        return Perplexity(self.loss / self.tokens, self.tokens, self.words, self.characters)


def _windows(ids: Sequence[int], start: int, room: int, stride: int) -> Iterator[Layout]:
    """A document, with its end token, as windows of at most ``room`` tokens of its text. Every token is a label in
    exactly one window."""
    text = len(ids) - 1
    if stride >= room:  # equal pieces, as data.tokens cuts them
        parts = max(1, -(-text // room))
        ends = [text * part // parts for part in range(1, parts + 1)]
    else:
        ends = [*range(min(room, text), text, stride), text]
    for done, upto in pairwise([0, *ends]):
        first = done if stride >= room else max(0, upto - room)
        label = [IGNORE] * (done - first) + list(ids[done:upto]) + [ids[text] if upto == text else IGNORE]
        yield causal([start, *ids[first:upto]]).replace(label=label)


def _batches(windows: Iterable[Layout], row: int, pad: int) -> Iterator[Layout]:
    """Windows packed into rows of up to ``row`` tokens, rows into batches of about AT_ONCE."""
    rows: list[list[Layout]] = []
    size = row  # of the last row; there is none yet, so it is full
    for window in windows:
        if size + len(window) > row:
            if (len(rows) + 1) * row > AT_ONCE and rows:
                yield batch([pack(each) for each in rows], pad)
                rows = []
            rows.append([])
            size = 0
        rows[-1].append(window)
        size += len(window)
    if rows:
        yield batch([pack(each) for each in rows], pad)


@torch.inference_mode()
def _score(model: Model, layout: Layout) -> tuple[float, int]:
    """The summed loss and the number of the labels of a batch."""
    layout = layout.to(model.device)
    asked = layout.label != IGNORE
    scores = model.scores(layout, "lm", at=asked).float()  # (labels, vocab)
    losses = F.cross_entropy(scores, layout.label[asked], reduction="none")
    return float(losses.cpu().double().sum()), len(losses)


def _tokenizer(model: Model) -> Tokenizer:
    if model.decoder is not None:
        raise MasqueradeError("An encoder–decoder predicts a text from another one; measure a model with one stack.")
    if model.spec.mask != "causal" and model.spec.fork is None:
        raise MasqueradeError(
            "This model was not trained to predict each next token from those before it, so it has no perplexity of "
            "this kind; measure one that was, such as a run of objective=next."
        )
    if model.spec.fork is not None:
        raise MasqueradeError("A reader predicts answers, not texts; score it with 'masquerade evaluate reader'.")
    return model.tokenizer


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
