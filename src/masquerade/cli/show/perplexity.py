"""What the commands ``perplexity`` and ``ngram`` read and print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from masquerade.checkpoints.folders import load
from masquerade.data.corpus import read_documents
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.ngram import NGram
from masquerade.writing.perplexity import documents, first_tokens, memory_perplexity, ngram_perplexity, perplexity, show


def show_perplexity(
    sources: Sequence[str],
    model: str,
    length: int,
    stride: int | None,
    memories: Sequence[int],
    same_length: bool,
    clamp: int | None,
    as_json: bool,
) -> None:
    """Print the perplexity of a language model on texts, in windows or with memories of given sizes."""
    texts = [text for source in sources for text in read_documents(source)]
    loaded = load(model)
    if not memories:
        if same_length or clamp is not None:
            raise MasqueradeError("--same-length and --clamp belong to a memory; give --memory too.")
        show({model: perplexity(loaded, texts, length=length, stride=stride)}, as_json)
        return
    if stride is not None:
        raise MasqueradeError("Segments with a memory do not overlap; leave --stride out.")
    found = {
        f"{model}, memory {each}": memory_perplexity(
            loaded, texts, length=length, memory=each, same_length=same_length, clamp=clamp
        )
        for each in memories
    }
    show(found, as_json)


def show_ngrams(
    train: Sequence[str], test: Sequence[str], tokenizer: Path, order: int, limit: int | None, as_json: bool
) -> None:
    """Print the perplexity of n-gram models of every order up to this one."""
    loaded = Tokenizer.load(tokenizer)
    if loaded is None:
        raise MasqueradeError(f"{tokenizer} holds no tokenizer; make one with 'masquerade vocab'.")
    counted = first_tokens(documents((text for source in train for text in read_documents(source)), loaded), limit)
    texts = [text for source in test for text in read_documents(source)]
    orders = range(min(1, order), order + 1)  # order 0 reaches NGram.train, which refuses it
    models = {f"{n}-gram": NGram.train(counted, n, len(loaded)) for n in orders}
    show({name: ngram_perplexity(each, texts, loaded) for name, each in models.items()}, as_json)
