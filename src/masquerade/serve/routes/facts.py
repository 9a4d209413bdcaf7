"""Routes of knowledge bases: facts that can be changed, and texts that are filled from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from masquerade.memory.entity.memories import Fact
from masquerade.memory.entity.recall import Recalled, fill_with_memory
from masquerade.serve.failures import documented
from masquerade.serve.models import ServedFacts, named
from masquerade.serve.replies import FactReply, FactsReply, RecallReply
from masquerade.serve.requests import FactRequest, RecallRequest
from masquerade.serve.service import service_of

MOST = 200  # facts that are listed

router = APIRouter(prefix="/v1/facts", responses=documented(400, 404, 408, 413, 422, 429, 504))
BaseName = Annotated[str, Path(description="A knowledge base of GET /v1/models.", max_length=200)]


@dataclass(frozen=True)
class FactsGroup:
    """What is done with one knowledge base, one after the other."""

    name: str
    facts: ServedFacts = field(compare=False)

    def run(self, payloads: Sequence[Callable[[ServedFacts], Any]]) -> list[Any]:
        """The result of each function."""
        return [function(self.facts) for function in payloads]


async def _do(request: Request, name: str, tokens: int, function: Callable[[ServedFacts], Any]) -> Any:
    service = service_of(request)
    facts = service.models.facts[named(service.models.facts, name, "knowledge base")]
    return await service.run(request, FactsGroup(name, facts), function, tokens)


@router.get("/{name}", summary="List facts")
async def list_facts(
    request: Request, name: BaseName, entity: Annotated[str | None, Query(max_length=200, min_length=1)] = None
) -> FactsReply:
    """The facts about an entity, or the first ones of the knowledge base."""

    def found(facts: ServedFacts) -> FactsReply:
        memory = facts.memory
        total = memory.count()
        listed = memory.facts(entity) if entity else [memory.fact(number) for number in range(min(total, MOST))]
        kept = service_of(request).sources.keep_facts
        return FactsReply(facts=[_plain(each) for each in listed[:MOST]], entities=len(memory), total=total, kept=kept)

    reply: FactsReply = await _do(request, name, 16, found)
    return reply


@router.post("/{name}", summary="Change a fact")
async def change_fact(request: Request, name: BaseName, body: FactRequest) -> FactReply:
    """Give a fact new objects. Subject, relation and objects have to be known to the knowledge base."""

    def changed(facts: ServedFacts) -> FactReply:
        return _plain(facts.memory.change(body.subject, body.relation, *body.objects))

    reply: FactReply = await _do(request, name, 16, changed)
    return reply


@router.post("/{name}/fill", summary="Fill [MASK]s from facts")
async def recall(request: Request, name: BaseName, body: RecallRequest) -> RecallReply:
    """A text with its [MASK]s filled by a network that reads the facts as they are now."""
    service = service_of(request)
    key = named(service.models.facts, name, "knowledge base")
    tokens = (await service.count("facts", key, [body.text]))[0]
    service.check_tokens(tokens)
    found: Recalled = await _do(
        request, name, tokens, lambda facts: fill_with_memory(facts.model, facts.memory, body.text, body.top)
    )
    blanks = [
        {
            "answers": [{"word": each.text, "probability": each.probability} for each in blank.answers],
            "subject": blank.subject,
            "facts": [{"word": each.fact, "probability": each.weight} for each in blank.facts],
            "no_fact": blank.no_fact,
        }
        for blank in found.blanks
    ]
    return RecallReply.model_validate({"text": found.text, "blanks": blanks})


def _plain(fact: Fact) -> FactReply:
    objects = [each.label for each in fact.objects]
    return FactReply(subject=fact.subject.label, relation=fact.relation.label, objects=objects)
