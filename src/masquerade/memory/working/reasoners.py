"""Task models over long texts: a reader, a classifier and a tagger that read what a judge keeps (CogLTX). The task
models themselves are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier, Prediction
from masquerade.labelling.records import Entity
from masquerade.labelling.tagger import Tagger
from masquerade.memory.working.selection import ShortText, WorkingMemory
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader

SPECIALS = 3  # special tokens of a text or a pair


class MemoryReader:
    """A reader that answers from the blocks a judge keeps."""

    def __init__(self, reader: Reader, memory: WorkingMemory) -> None:
        self.reader, self.memory = reader, memory

    def ask(
        self,
        question: str,
        passages: str | Sequence[str],
        n_best: int = 1,
        decoder: str = "parallel",
        threshold: float | None = None,
    ) -> tuple[Answer, ShortText]:
        """The answer to a question, placed in the passage that it stands in, and what was read for it."""
        given = (passages,) if isinstance(passages, str) else tuple(passages)
        if not question.strip():
            raise MasqueradeError("The question is empty; ask something.")
        short = self.memory.select(question, given, self.reader.layout.room)
        if not short.text.strip():
            raise MasqueradeError("There is no text to read the answer from; give a passage with words in it.")
        found = self.reader.ask(question, short.text, n_best=n_best, decoder=decoder, windows=0, threshold=threshold)
        others = tuple(_placed(each, short, given) for each in found.alternatives)
        return replace(_placed(found, short, given), alternatives=others), short


class MemoryClassifier:
    """A classifier that reads the blocks a judge keeps."""

    def __init__(self, classifier: Classifier, memory: WorkingMemory) -> None:
        self.classifier, self.memory = classifier, memory

    def __call__(
        self, texts: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[tuple[Prediction, ShortText]]:
        """The prediction for each text, and what was read for it."""
        if not all(text.strip() for text in texts):
            raise MasqueradeError("An empty text cannot be classified; give one with words in it.")
        found = []
        for text in texts:
            short = self.memory.select("", text, self.classifier.length - SPECIALS)
            found.append((self.classifier([short.text or text])[0], short))
            done(1)
        return found


class MemoryTagger:
    """A tagger that reads, with each part of a text, the blocks that a judge keeps for it."""

    def __init__(self, tagger: Tagger, memory: WorkingMemory) -> None:
        self.tagger, self.memory = tagger, memory

    def __call__(self, texts: Sequence[str], done: Callable[[int], None] = lambda count: None) -> list[list[Entity]]:
        """The entities of each text, in reading order."""
        found = []
        for text in texts:
            found.append(self._entities(text))
            done(1)
        return found

    def _entities(self, text: str) -> list[Entity]:
        room, found = self.tagger.length - SPECIALS, list[Entity]()
        if not self.memory.blocks((text,)):
            return found
        for first, last in self.memory.groups(text):
            short = self.memory.around(text, first, last, room)
            if short.whole:
                return self.tagger([text])[0]
            part = self.memory.blocks((text,))[first:last]
            for each in self.tagger([short.text])[0]:
                _, start, end = short.original(each.start, each.end)
                if part[0].start <= start and end <= part[-1].end:
                    found.append(Entity(each.kind, start, end))
        return found


def _placed(answer: Answer, short: ShortText, texts: Sequence[str]) -> Answer:
    """An answer in the short text as one in the text that it comes from."""
    if answer.start < 0:
        return answer
    number, start, end = short.original(answer.start, answer.end)
    return replace(answer, passage=number, start=start, end=end, text=texts[number][start:end])
