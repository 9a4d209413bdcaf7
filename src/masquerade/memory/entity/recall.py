"""[MASK]s filled with the help of a memory: the answers, and which entities and facts they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.facts import FactsAsExperts
from masquerade.memory.entity.linked import LinkedText, link
from masquerade.memory.entity.networks import attach, parts
from masquerade.nn.model import Model
from masquerade.text.tokenizer import ROLES

LEAST = 0.001  # the weight from which a fact is shown
NAME = "memory"  # under which the parts of a network know the knowledge base


@dataclass(frozen=True)
class LinkedMention:
    """A name in the text and the entity that the network takes it for."""

    text: str
    start: int  # in characters
    end: int
    key: str
    label: str
    probability: float  # by the network if it links mentions, else the prior


@dataclass(frozen=True)
class UsedFact:
    """A fact that a blank read, and how much it counted."""

    fact: str
    weight: float


@dataclass(frozen=True)
class Proposal:
    """An answer for a blank: an entity if the network has a memory of facts, else a token."""

    text: str
    probability: float
    key: str = ""  # of the entity


@dataclass(frozen=True)
class FilledBlank:
    """The answers for one blank, the best first, and the facts behind them."""

    answers: list[Proposal]
    subject: str = ""  # the mention that the blank was read with
    facts: list[UsedFact] = field(default_factory=list)
    no_fact: float = 1.0  # the weight of reading no fact


@dataclass(frozen=True)
class Recalled:
    """A text with its blanks filled."""

    text: str
    blanks: list[FilledBlank]
    links: list[LinkedMention]


@torch.inference_mode()
def fill_with_memory(model: Model, memory: FactMemory, text: str, top: int = 5) -> Recalled:
    """Fill the [MASK]s of a text by a network with a memory between its layers, and a knowledge base as it is now."""
    if not parts(model, NAME):
        raise MasqueradeError(
            "This model has no memory between its layers; train one with 'masquerade train entities', or leave "
            "--memory out."
        )
    if top < 1:
        raise MasqueradeError(f"The best {top} answers cannot be listed; ask for at least one.")
    attach(model, memory, NAME)
    linked = link(text, model.tokenizer, memory, model.spec.longest)
    if not linked.blanks and any(name in text for name in ROLES["mask"]):
        raise MasqueradeError(
            f"The [MASK] comes after the {model.spec.longest} tokens that the model reads; shorten the text before it."
        )
    if not linked.blanks:
        raise MasqueradeError("The text has no [MASK] to fill; put [MASK] where a word or a name is missing.")
    inputs = linked.inputs(NAME)
    owner, subjects = _pairs(linked)
    spans = torch.tensor([linked.blanks[blank] for blank in owner], dtype=torch.long)
    starts = [linked.spans[mention] if mention >= 0 else (0, 0) for mention in subjects]
    inputs |= {f"{NAME}.blanks": spans, f"{NAME}.subjects": torch.tensor(starts, dtype=torch.long)}
    layout = bidirectional(linked.ids).to(model.device).batched()
    flow = model.flow(layout, inputs={name: value.to(model.device) for name, value in inputs.items()})
    if any(isinstance(part, FactsAsExperts) for part in parts(model, NAME)):
        blanks = _entities(memory, linked, flow.outputs, owner, subjects, top)
    else:
        blanks = [_words(model, flow.states[0, first : last + 1], top) for first, last in linked.blanks]
    filled = text
    for blank in blanks:  # runs of [MASK] are one blank
        filled = _replaced(filled, blank.answers[0].text if blank.answers else "")
    return Recalled(filled, blanks, _links(memory, linked, flow.outputs))


def _pairs(linked: LinkedText) -> tuple[list[int], list[int]]:
    """Every blank with every mention as its subject: the numbers of both, −1 for no mention."""
    mentions = list(range(len(linked.spans))) or [-1]
    both = [(blank, mention) for blank in range(len(linked.blanks)) for mention in mentions]
    return [blank for blank, _ in both], [mention for _, mention in both]


def _entities(
    memory: FactMemory,
    linked: LinkedText,
    outputs: Mapping[str, Tensor],
    owner: list[int],
    subjects: list[int],
    top: int,
) -> list[FilledBlank]:
    """The entities that fill each blank, with the subject for which a fact counts most."""
    null, found = outputs[f"{NAME}.null"].tolist(), []
    for blank in range(len(linked.blanks)):
        pair = min((index for index, number in enumerate(owner) if number == blank), key=lambda index: null[index])
        scores = outputs[f"{NAME}.answers"][pair].clone()
        gone = memory.removed()
        scores[gone] = float("-inf")
        values, numbers = scores.softmax(-1).topk(min(top, len(scores) - len(gone)))
        named = [memory.entity(number) for number in numbers.tolist()]
        answers = [Proposal(each.label, value, each.key) for each, value in zip(named, values.tolist(), strict=True)]
        weights, keys = outputs[f"{NAME}.fact_weights"][pair].sort(descending=True)
        read = outputs[f"{NAME}.facts"][pair][keys].tolist()
        used = [UsedFact(str(memory.fact(key - 1)), weight)
                for key, weight in zip(read, weights.tolist(), strict=True) if key > 0 and weight >= LEAST]  # fmt: skip
        subject = linked.mentions[subjects[pair]].text if subjects[pair] >= 0 else ""
        found.append(FilledBlank(answers, subject, used[:top], null[pair]))
    return found


def _words(model: Model, states: Tensor, top: int) -> FilledBlank:
    """The best tokens for each [MASK] of a blank, (masks, width), joined in the order of their rank."""
    best = model.head("lm", states).softmax(-1).topk(min(top, model.spec.vocab))
    tokens, values = best.indices.T.tolist(), best.values.prod(0).tolist()
    return FilledBlank([Proposal(model.tokenizer.decode(ids), value)
                        for ids, value in zip(tokens, values, strict=True)])  # fmt: skip


def _links(memory: FactMemory, linked: LinkedText, outputs: Mapping[str, Tensor]) -> list[LinkedMention]:
    """The entity of each mention: by KnowBERT's scores or those of the entity memory, else by the prior."""
    found = []
    for row, mention in enumerate(linked.mentions):
        number, probability = mention.candidates[0]
        if f"{NAME}.candidate_scores" in outputs:
            scores = outputs[f"{NAME}.candidate_scores"][row].softmax(-1)
            place = int(scores.argmax())
            number, probability = mention.candidates[place][0], float(scores[place])
        elif f"{NAME}.entities" in outputs:
            number = int(outputs[f"{NAME}.entities"][row, 0])
            probability = float(outputs[f"{NAME}.weights"][row, 0])
        entity = memory.entity(number)
        found.append(LinkedMention(mention.text, mention.start, mention.end, entity.key, entity.label, probability))
    return found


def _replaced(text: str, answer: str) -> str:
    """The text with its first run of [MASK]s replaced."""
    start = min(place for name in ("[MASK]", "<mask>") if (place := text.find(name)) >= 0)
    end = start
    while True:
        gap = len(text[end:]) - len(text[end:].lstrip())
        name = next((name for name in ("[MASK]", "<mask>") if text.startswith(name, end + gap)), None)
        if name is None:
            return text[:start] + answer + text[end:]
        end += gap + len(name)
