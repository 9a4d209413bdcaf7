"""What the commands ``perplexity`` and ``ngram`` read and print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from masquerade.checkpoints.folders import load
from masquerade.data.corpus import read_documents
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.ngram import NGram
from masquerade.writing.perplexity import documents, first_tokens, ngram_perplexity, perplexity, show


def show_perplexity(sources: Sequence[str], model: str, length: int, stride: int | None, as_json: bool) -> None:
    """Print how well a language model predicts texts."""
    texts = (text for source in sources for text in read_documents(source))
    show({model: perplexity(load(model), texts, length=length, stride=stride)}, as_json)


def show_ngrams(
    train: Sequence[str], test: Sequence[str], tokenizer: Path, order: int, limit: int | None, as_json: bool
) -> None:
    """Print how well n-grams of every order up to this one predict texts."""
    cut = Tokenizer.load(tokenizer)
    if cut is None:
        raise MasqueradeError(f"{tokenizer} holds no tokenizer; make one with 'masquerade vocab'.")
    counted = first_tokens(documents((text for source in train for text in read_documents(source)), cut), limit)
    texts = [text for source in test for text in read_documents(source)]
    orders = range(min(1, order), order + 1)  # order 0 is asked for too, and refused with a sentence
    models = {f"{n}-gram": NGram.train(counted, n, len(cut)) for n in orders}
    show({name: ngram_perplexity(each, texts, cut) for name, each in models.items()}, as_json)
