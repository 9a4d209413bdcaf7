"""Questions of several steps with their paragraphs (HotpotQA, 2WikiMultihopQA), and what system 1 learns from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from masquerade.data.records import read_records
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.memory.working.paragraphs import DictParagraphs, sentences_of
from masquerade.memory.working.questions import SPAN, WHICH, YES_NO, kind_of
from masquerade.memory.working.titles import find_name, plain_name, similarity

FORMAT = "records with 'question', 'answer', 'context' (title and sentences) and 'supporting_facts' (title and number)"
YES, NO = ("yes", "是"), ("no", "否")
ALIKE = 0.65  # the least similarity of a compared title and an answer that has more or fewer names, "Paul Thomas Mann"
PLAIN = 0.25  # how often a paragraph that a hop leads to is read without its clue, as a search finds it

CharSpan = tuple[int, int, int]  # the number of a sentence, and the first character in it and the one after the last


@dataclass(frozen=True)
class HopRecord:
    """A question, its paragraphs by title, and the titles that are needed for its answer."""

    id: str
    question: str
    answer: str
    paragraphs: Mapping[str, tuple[str, ...]]
    gold: tuple[str, ...]
    facts: Mapping[str, tuple[int, ...]]  # the sentences that are needed, by title; none if only titles are known

    @property
    def source(self) -> DictParagraphs:
        """The paragraphs for ``CogQA.ask``."""
        return DictParagraphs(self.paragraphs)

    def needed(self, title: str) -> list[tuple[int, str]]:
        """The sentences of a gold paragraph that are needed, numbered; all where this is not known."""
        sentences = list(enumerate(self.paragraphs[title]))
        facts = self.facts.get(title, ())
        return [(number, text) for number, text in sentences if number in facts] or sentences


@dataclass(frozen=True)
class NodeTarget:
    """A paragraph for system 1 to learn from: its clues, and the spans that it should point at."""

    title: str
    clues: str = ""
    hops: tuple[CharSpan, ...] = ()
    answers: tuple[CharSpan, ...] = ()


def read_hops(source: str) -> list[HopRecord]:
    """The questions of a file or hub data set."""
    try:
        found = [_record(record, number) for number, record in enumerate(read_records(source))]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        said = f"A question of {source} has an unknown format ({type(error).__name__}: {error})"
        raise MasqueradeError(f"{said}; known are {FORMAT}.") from error
    if not found:
        raise MasqueradeError(f"There are no questions in {source}; known are {FORMAT}.")
    return found


def _record(record: Mapping[str, Any], number: int) -> HopRecord:
    paragraphs, gold, facts = dict[str, tuple[str, ...]](), list[str](), dict[str, tuple[int, ...]]()
    for title, text, *needed in record["context"]:
        paragraphs[str(title)] = sentences_of(text) if isinstance(text, str) else tuple(str(each) for each in text)
        if needed and needed[0]:
            gold.append(str(title))
    for title, sentence in record.get("supporting_facts", ()):
        facts[str(title)] = (*facts.get(str(title), ()), int(sentence))
    known = [title for title in dict.fromkeys([*gold, *facts]) if title in paragraphs]
    name = str(record.get("_id") or record.get("id") or number)
    return HopRecord(name, str(record["question"]), str(record["answer"]), paragraphs, tuple(known), facts)


def answer_kind(record: HopRecord, named: Sequence[str]) -> tuple[str, int]:
    """The kind of answer of a question that names these titles, and for a comparison its label: 1 for yes or the first
    title, 0 for no or the second."""
    answer = record.answer.strip().lower()
    if answer in (*YES, *NO):
        return YES_NO, int(answer in YES)
    if len(named) < 2:
        return SPAN, -1
    answer = plain_name(record.answer)
    first, second = (similarity(plain_name(title), answer) for title in named[:2])
    compared = kind_of(record.question, len(named)) == WHICH
    if max(first, second) == 1.0 or (compared and max(first, second) >= ALIKE):
        return WHICH, int(first >= second)
    return SPAN, -1


@dataclass(frozen=True)
class HopTargets:
    """What system 1 learns from a question: the paragraphs that are needed, with hops and answers in them; and the
    titles of the others, the one that shares most words with the question first."""

    gold: tuple[NodeTarget, ...]
    others: tuple[str, ...]

    @staticmethod
    def of(record: HopRecord) -> HopTargets:
        """The targets of a question."""
        source = record.source
        named = source.titles.named(record.question)
        kind, _ = answer_kind(record, named)
        ahead = [title for title in record.gold if title not in named]  # titles that hops should lead to
        hops = {title: _mentions(record, title, [each for each in ahead if each != title]) for title in record.gold}
        answers = {title: answer_spans(record, title) if kind == SPAN else [] for title in record.gold}
        late = {title for title in ahead if answers[title]}
        found = []
        for title in record.gold:
            said = [record.paragraphs[each][at[0]] for each in record.gold for name, at in hops[each] if name == title]
            clues = " ".join(dict.fromkeys(text.strip() for text in said))
            here = tuple(answers[title]) if title in late or not late else ()
            found.append(NodeTarget(title, clues, tuple(at for _, at in hops[title]), here))
        ranked = source.search(record.question, len(record.paragraphs))
        others = [title for title in dict.fromkeys([*ranked, *record.paragraphs]) if title not in record.gold]
        return HopTargets(tuple(found), tuple(others))

    def sample(self, rng: Rng, negatives: int) -> list[NodeTarget]:
        """The needed paragraphs, some without their clues, and ``negatives`` others: the first and random ones."""
        gold = [replace(each, clues="") if rng.random() < PLAIN else each for each in self.gold]
        rest = [self.others[1:][int(at)] for at in rng.permutation(len(self.others[1:]))]
        return [*gold, *(NodeTarget(title) for title in [*self.others[:1], *rest][:negatives])]


def _mentions(record: HopRecord, title: str, others: Sequence[str]) -> list[tuple[str, CharSpan]]:
    """Where the paragraph of a title first names others, in a sentence that is needed."""
    found = list[tuple[str, CharSpan]]()
    for other in others:
        for number, sentence in record.needed(title):
            place = find_name(other, sentence)
            if place is not None:
                found.append((other, (number, *place)))
                break
    return found


def answer_spans(record: HopRecord, title: str) -> list[CharSpan]:
    """Where the answer first stands in a sentence of a paragraph that is needed; at most one place."""
    for number, sentence in record.needed(title):
        place = sentence.find(record.answer)
        if place >= 0 and record.answer:
            return [(number, place, place + len(record.answer))]
    for number, sentence in record.needed(title):
        near = find_name(record.answer, sentence)
        if near is not None:
            return [(number, *near)]
    return []
