"""What a judge is trained for: entities in long texts (CogLTX)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example
from masquerade.errors import MasqueradeError
from masquerade.labelling.predict import under_own_mask
from masquerade.labelling.records import Tagged, read_tagged
from masquerade.labelling.scores import entity_scores
from masquerade.labelling.tagger import Tagger, TagWindow, labelled, tag_names
from masquerade.labelling.training import with_labels
from masquerade.memory.working.blocks import TextBlock, block_groups, text_blocks
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.long_documents import LongDocument
from masquerade.memory.working.reasoners import MemoryTagger
from masquerade.memory.working.selection import WorkingMemory
from masquerade.memory.working.tasks import Reasoned, Task, best_blocks
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss, TermLoss, TokenTerm

if TYPE_CHECKING:
    from masquerade.memory.working.training import MemoryTraining


@dataclass(frozen=True)
class TagPart:
    """Some neighbouring blocks of a text, which are tagged, and its other blocks."""

    record: Tagged
    query: Sequence[TextBlock]
    others: Sequence[TextBlock]


class TagTask(Task):
    """Entities of long texts. Every part of a text is a query for its other blocks; training begins with those that
    share most words with it. Only the tokens of the part itself are tagged."""

    given = False

    def __init__(self, recipe: MemoryTraining) -> None:
        self.recipe = recipe
        train = [record for source in recipe.train for record in read_tagged(source)]
        self.train = [record for record in train if record.text.strip()][: recipe.limit or None]
        test = [record for source in recipe.held_out for record in read_tagged(source)]
        self.test = test[: recipe.held_out_documents or None]

    def reasoner(self) -> Model:
        kinds = sorted({entity.kind for record in self.train for entity in record.entities})
        if not kinds:
            raise MasqueradeError("There is no entity in the training records; a tagger needs some to learn from.")
        return with_labels(load(self.recipe.reasoner or self.recipe.start), "tag", tag_names(kinds))

    def documents(self, judge: Judge, model: Model) -> list[LongDocument]:
        self.parts, found = list[TagPart](), []
        nothing = TextBlock((judge.tokenizer.special("unk"),), 0, 0)  # stands for the others of a text of one part
        for record in self.train:
            blocks = text_blocks(judge.tokenizer, record.text, self.recipe.block)
            for first, last in block_groups([len(block.ids) for block in blocks], judge.window // 3):
                others = [*blocks[:first], *blocks[last:]] or [nothing]
                ids = [token for block in blocks[first:last] for token in block.ids]
                closed = [judge.closed(block.ids) for block in others]
                relevance = best_blocks(others, ids, self.recipe.first)
                self.parts.append(TagPart(record, blocks[first:last], others))
                found.append(LongDocument((judge.cls, *ids, judge.sep), closed, relevance, [0.0] * len(closed)))
        return found

    def example(self, model: Model, number: int, chosen: Sequence[int]) -> Reasoned:
        part, tokenizer = self.parts[number], model.tokenizer
        own, real = {block.start for block in part.query}, [part.others[each] for each in chosen]
        blocks = sorted([*part.query, *(block for block in real if block.end)], key=lambda block: block.start)
        ids, offsets = [tokenizer.special("cls")], list[tuple[int, int] | None]([None])
        places = dict[int, tuple[int, int]]()
        for block in blocks:
            places[block.start] = len(ids), len(ids) + len(block.ids)
            ids += block.ids
            shown = list[tuple[int, int] | None]([None] * len(block.ids))  # tokens that are not tagged
            if block.start in own:
                found = tokenizer.encode_places([part.record.text[block.start : block.end]])[0][1]
                if len(found) == len(block.ids):
                    shown = [(block.start + start, block.start + end) for start, end in found]
            offsets += shown
        layout = under_own_mask(model, [*ids, tokenizer.special("sep")])
        window = TagWindow(0, layout, [*offsets, None])
        hidden = tuple(places[block.start] if block.end else (0, 0) for block in real)
        return Reasoned(Example(labelled(window, part.record.entities, model.spec.labels)), hidden)

    def loss(self, model: Model) -> Loss:
        return TermLoss(model, {"tags": TokenTerm("tag")})

    def scores(self, model: Model, memory: WorkingMemory) -> dict[str, float]:
        if not self.test:
            return {}
        tagger = MemoryTagger(Tagger(model, self.recipe.window), memory)
        found = entity_scores(tagger([record.text for record in self.test]), [each.entities for each in self.test])
        return {"held_out": found["all"]["f1"], **found["all"]}
