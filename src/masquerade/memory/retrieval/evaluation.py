"""How good a collection is: how often it finds the right passage, and how good its answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.search import Found
from masquerade.reading.records import QuestionRecord
from masquerade.reading.scores import METRICS, cmrc_normal, squad_normal

CUTS = (1, 5, 20)  # recall is measured among this many passages
TOGETHER = 16  # questions that are read at once


def evaluate(
    kb: KnowledgeBase,
    records: Sequence[QuestionRecord],
    k: int,
    dense: float | None = None,
    read: bool = True,
    done: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Recall and scores in percent: ``answer@n``, an accepted answer stands in one of the first n passages;
    ``passage@n``, one of them is a part of the question's own passage, if it has one; and with ``read`` the scores of
    the answers from the best ``k`` passages."""
    asked = [record for record in records if record.accepted]
    if not asked:
        raise MasqueradeError("None of the questions has an accepted answer; give questions with answers.")
    chinese = language(" ".join(record.question for record in asked)) == "zh"
    hits, golds, answers = dict.fromkeys(CUTS, 0), dict.fromkeys(CUTS, 0), dict[str, str]()
    for start in range(0, len(asked), TOGETHER):
        part = asked[start : start + TOGETHER]
        for record in part:
            found = kb.search(record.question, max(CUTS), dense=dense)
            for cut in CUTS:
                hits[cut] += any(has_answer(each.text, record.accepted) for each in found[:cut])
                golds[cut] += any(_is_gold(each, record) for each in found[:cut])
        if read:
            for record, answer in zip(part, kb.ask_many([each.question for each in part], k, dense=dense), strict=True):
                answers[record.id] = answer.text
        done(len(part))
    result: dict[str, Any] = {"questions": len(asked)}
    result |= {f"answer@{cut}": 100 * count / len(asked) for cut, count in hits.items()}
    if any(record.passages for record in asked):
        result |= {f"passage@{cut}": 100 * count / len(asked) for cut, count in golds.items()}
    if read:
        result |= METRICS["cmrc" if chinese else "squad"](answers, asked).total
    return result


def has_answer(text: str, accepted: Sequence[str]) -> bool:
    """Whether an accepted answer stands in a text, as a whole word where there are words."""
    if language(text, *accepted) == "zh":
        whole = cmrc_normal(text)
        return any(wanted in whole for wanted in map(cmrc_normal, accepted) if wanted)
    whole = f" {squad_normal(text)} "
    return any(f" {wanted} " in whole for wanted in map(squad_normal, accepted) if wanted)


def _is_gold(found: Found, record: QuestionRecord) -> bool:
    """Whether a passage is a part of one of the question's own passages, or holds it."""
    text = "".join(found.text.split())
    own = ["".join(passage.split()) for passage in record.passages]
    return any(passage and (text in passage or passage in text) for passage in own)
