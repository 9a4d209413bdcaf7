"""Why a reader gave an answer, for people: the parts of the texts that it read, and the answer of each of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

from masquerade.documents.document import language
from masquerade.reading.answers import Answer
from masquerade.reading.languages import LanguageReaders
from masquerade.reading.reader import WINDOWS, Reader
from masquerade.reading.traced import ReadPart, parts_read


@dataclass(frozen=True)
class Explanation:
    """What was read for a question, and what each head of the reader answers by itself."""

    parts: Sequence[ReadPart]
    heads: Mapping[str, Answer]  # by the names of ``Settings.parts``

    @property
    def characters(self) -> int:
        """The number of characters that were read."""
        return sum(part.end - part.start for part in self.parts)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        heads = {name: {"answer": answer.text, "score": answer.score} for name, answer in self.heads.items()}
        return {"read": [asdict(part) for part in self.parts], "heads": heads}


def explain(
    reader: Reader | LanguageReaders, question: str, passages: Sequence[str], windows: int = WINDOWS
) -> Explanation:
    """What a reader reads of some texts for a question, and the best span of each head whose weight is above 0."""
    if isinstance(reader, LanguageReaders):
        return _explain_best(reader, question, passages, windows)
    heads = dict[str, Answer]()
    for name in [name for name, weight in reader.settings.parts.items() if weight]:
        alone = copy(reader)  # the same network and memory
        alone.settings = replace(reader.settings, parts={name: 1.0}, calibration={})
        heads[name] = alone.ask(question, passages, windows=windows, threshold=0.0)
    return Explanation(parts_read(reader, question, passages, windows), heads)


def _explain_best(readers: LanguageReaders, question: str, passages: Sequence[str], windows: int) -> Explanation:
    """The explanation of the reader whose answer is the best, for the texts of its language."""
    best = readers.ask_many([(question, passages)], windows=windows, threshold=0.0)[0]
    name = language(question, passages[max(best.passage, 0)])
    numbers = [number for number, passage in enumerate(passages) if language(question, passage) == name]
    said = explain(readers.reader(name), question, [passages[number] for number in numbers], windows)
    return replace(said, parts=[replace(part, passage=numbers[part.passage]) for part in said.parts])
