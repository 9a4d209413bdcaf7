"""Linked texts as examples for training: mentions, candidates, blanks, and what is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from masquerade.data.examples import Example, Extra, PerExample, TokenIndex
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.memory.entity.aliases import Mention
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.linked import MOST, candidates, lay_out
from masquerade.memory.entity.linked_records import LinkedRecord
from masquerade.text.tokenizer import Tokenizer

NULL = 0  # the key of reading no fact


class LinkedExamples:
    """Makes examples of linked texts. Fields are named ``memory.…``: mentions, candidates, priors, blanks, subjects and
    hidden are inputs of the network; gold (entities of the mentions), gold_candidate (their places among the
    candidates), answer (entities of the blanks) and fact (keys of the facts behind them) are labels, IGNORE where not
    known."""

    def __init__(
        self, tokenizer: Tokenizer, memory: FactMemory, length: int, masked: float = 0.0, forgotten: float = 0.0
    ) -> None:
        """``masked`` is the share of mentions that are masked, as blanks and as tokens to predict, in texts that have
        no blank of their own. ``forgotten`` is the share of blanks that may not read the fact behind them, so that the
        network learns to read none."""
        self.tokenizer, self.memory, self.length = tokenizer, memory, length
        self.masked, self.forgotten = masked, forgotten
        entities = memory.store.rows("SELECT key, number FROM entity WHERE NOT removed")
        self.number: dict[str, int] = dict(entities)
        self.relation = {each.key: each.number for each in memory.relations()}

    def __call__(self, record: LinkedRecord, rng: Rng) -> Example:
        """The example of a record."""
        given = [(span.start, span.end, self.number.get(span.key, IGNORE)) for span in record.mentions]
        found = self.memory.find(record.text)
        mentions = [
            Mention(start, end, name := record.text[start:end], self.memory.candidates(name)) for start, end, _ in given
        ]
        gold = [number for _, _, number in given]
        for mention in found:  # names that are not linked are mentions too
            if all(mention.end <= start or mention.start >= end for start, end, _ in given):
                mentions.append(mention)
                gold.append(IGNORE)
        linked = lay_out(record.text, self.tokenizer, mentions, self.length)
        place = [mentions.index(mention) for mention in linked.mentions]
        gold, spans = [gold[index] for index in place], list(linked.spans)
        ids, label = list(linked.ids), [IGNORE] * len(linked.ids)
        blanks = list(linked.blanks)[:1] if record.answer else []
        answers = [self.number.get(record.answer, IGNORE)] if blanks else []
        subject = place.index(record.subject) if record.subject is not None and record.subject in place else None
        subjects = [spans[subject] if subject is not None else (0, 0)] if blanks else []
        facts = [self._fact(gold[subject] if subject is not None else IGNORE, record.relation)] if blanks else []
        if not linked.blanks and self.masked:
            for index, (first, last) in enumerate(spans):
                if gold[index] != IGNORE and rng.random() < self.masked:
                    label[first : last + 1] = ids[first : last + 1]
                    ids[first : last + 1] = [self.tokenizer.special("mask")] * (last + 1 - first)
                    other = next((each for each in range(len(spans)) if each != index and gold[each] != IGNORE), None)
                    blanks.append((first, last))
                    answers.append(gold[index])
                    subjects.append((0, 0) if other is None else spans[other])
                    facts.append(self._fact(IGNORE if other is None else gold[other], record.relation))
        hidden = [fact if rng.random() < self.forgotten else NULL for fact in facts]
        facts = [NULL if key else fact for key, fact in zip(hidden, facts, strict=True)]
        numbers, priors = candidates(linked.mentions)
        right = [row.index(entity) if entity in row and entity >= 0 else IGNORE
                 for row, entity in zip(numbers, gold, strict=True)]  # fmt: skip
        extra: dict[str, Extra] = {
            "memory.mentions": TokenIndex(_whole(spans, 2)),
            "memory.candidates": PerExample(_whole(numbers, MOST)),
            "memory.priors": PerExample(torch.tensor(priors, dtype=torch.float).view(-1, MOST)),
            "memory.blanks": TokenIndex(_whole(blanks, 2)),
            "memory.subjects": TokenIndex(_whole(subjects, 2)),
            "memory.hidden": PerExample(_whole(hidden)),
            "memory.gold": PerExample(_whole(gold)),
            "memory.gold_candidate": PerExample(_whole(right)),
            "memory.answer": PerExample(_whole(answers)),
            "memory.fact": PerExample(_whole(facts)),
        }
        return Example(bidirectional(ids).replace(label=label), extra=extra)

    def _fact(self, subject: int, relation: str) -> int:
        """The key of the fact behind a blank: that of subject and relation; NULL if the memory has no such fact."""
        if subject == IGNORE or relation not in self.relation:
            return NULL
        row = self.memory.row(subject, self.relation[relation])
        return NULL if row is None else row + 1


def batch_inputs(extra: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The fields of a batch that the network reads, without labels."""
    names = ("mentions", "candidates", "priors", "blanks", "subjects", "hidden")
    return {f"memory.{name}": extra[f"memory.{name}"] for name in names if f"memory.{name}" in extra}


def _whole(values: Sequence[Any], *width: int) -> Tensor:
    """Integers as a tensor (m, *width), also if there are none."""
    return torch.tensor(values, dtype=torch.long).view(-1, *width)
