"""REALM: a masked text or a question is read together with each passage that a retriever finds, and answered by the
spans of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from masquerade.checkpoints.folders import load, locate
from masquerade.data.examples import Example, Extra, PerExample, TokenIndex
from masquerade.data.packing import Row, collate
from masquerade.errors import MasqueradeError
from masquerade.files import read_json
from masquerade.layout import IGNORE, Layout
from masquerade.memory.retrieval.encoder import Encoder, grouped_vectors
from masquerade.memory.retrieval.index_refresh import RefreshedIndex
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import RagAnswer
from masquerade.memory.retrieval.realm_loss import RETRIEVER, RealmLoss, masked_ids, span_grid
from masquerade.memory.retrieval.search import Found, Score
from masquerade.memory.retrieval.store import Stored
from masquerade.nn.model import Model

FURTHER = 4  # passages that are searched beyond those needed, since the text's own is left out


@dataclass(frozen=True)
class RealmSettings:
    """How passages are found and put together with a text."""

    documents: int = 4  # passages for a text
    temperature: float = 0.05  # dot products are divided by it
    query: int = 64  # tokens of a text or question
    length: int = 192  # tokens of a text with one passage


@dataclass(frozen=True)
class Masked:
    """A text, and the characters in it that are masked."""

    text: str
    place: tuple[int, int]


class Realm:
    """A reader, a retriever, and the collection that it searches; through ``index``, if there is one, else through the
    collection's own."""

    def __init__(
        self, model: Model, encoder: Encoder, kb: KnowledgeBase, settings: RealmSettings, index: RefreshedIndex | None
    ) -> None:
        self.model, self.encoder, self.kb, self.settings, self.index = model, encoder, kb, settings, index

    @staticmethod
    def load(run: str | Path, kb: KnowledgeBase) -> Realm:
        """The result of ``masquerade train realm`` with task=answers, for a collection that was indexed with the
        retriever of this run, or with the encoder that it began with."""
        folder = locate(str(run))
        recipe = folder.parent / "recipe.json"
        if not (folder / RETRIEVER).is_dir() or not recipe.is_file():
            raise MasqueradeError(
                f"'{run}' is no run of 'masquerade train realm'; train one, and give its 'out' folder."
            )
        said = read_json(recipe)
        if said["task"] != "answers":
            raise MasqueradeError(
                f"'{run}' has learned from masked texts only; train it on questions, by task=answers."
            )
        settings = RealmSettings(said["documents"], said["temperature"], said["query"], said["length"])
        return Realm(load(folder).eval(), Encoder.load(folder / RETRIEVER), kb, settings, None)

    def query(self, text: str, place: tuple[int, int] = (0, 0)) -> list[int]:
        """The retriever's ids of a text, masked from character to character, between its special tokens."""
        tokenizer, before = self.encoder.model.tokenizer, self.encoder.pooling.query
        shifted = (place[0] + len(before), place[1] + len(before)) if place[1] else place
        ids, _ = masked_ids(tokenizer, before + text, shifted, self.settings.query)
        return [tokenizer.special("cls"), *ids, tokenizer.special("sep")]

    @torch.no_grad()
    def candidates(self, queries: Sequence[list[int]], texts: Sequence[str] | None = None) -> list[list[Stored]]:
        """The passages for each query, the best first. Passages that hold one of the ``texts``, those that the queries
        are made of, are left out: they would give the masked words away."""
        most = self.settings.documents + (FURTHER if texts else 0)
        pairs = [(ids, [0] * len(ids)) for ids in queries]
        vectors = grouped_vectors(self.encoder.model, pairs, self.encoder.pooling).cpu().numpy()
        if self.index is not None and self.index.name:
            ranked = self.index.search(vectors, most)
        else:
            ranked = [[id for id, _ in self.kb.vectors.search(vector, most)] for vector in vectors]
        made = list[list[Stored]]()
        for row, ids in enumerate(ranked):
            stored, own = self.kb.store.passages(ids), "".join(texts[row].split()) if texts else ""
            kept = [stored[id] for id in ids if id in stored and not (own and own in _letters(stored[id]))]
            made.append(kept[: self.settings.documents])
        return made

    def masked_row(self, masked: Masked, query: list[int], found: Sequence[Stored]) -> Row:
        """A masked text with each of its passages, and with the empty one."""
        tokenizer = self.model.tokenizer
        ids, _ = tokenizer.encode_places([masked.text])[0]
        shown, masks = masked_ids(tokenizer, masked.text, masked.place, self.settings.query)
        if not masks:  # the name lies beyond the first tokens: another word is predicted
            masks = [len(shown) - 1]
            shown[-1] = tokenizer.special("mask")
        row = list[Example]()
        for number, passage in enumerate([*(each.passage.joined.text for each in found), ""]):
            layout = self._layout(shown, self._passage_ids(passage, len(shown))[0])
            label = torch.full_like(layout.ids, IGNORE)
            label[torch.tensor(masks) + 1] = torch.tensor([ids[index] for index in masks])
            about: dict[str, Extra] = {}
            if number == 0:
                about = {**self._about(query, found, empty=True), "realm.masks": PerExample(len(masks))}
            row.append(Example(layout.replace(label=label), extra=about))
        return row

    def answer_row(self, question: str, accepted: Sequence[str], query: list[int], found: Sequence[Stored]) -> Row:
        """A question with each of its passages."""
        asked = self.model.tokenizer.encode(question)[: self.settings.query]
        row = list[Example]()
        for number, stored in enumerate(found):
            passage = stored.passage.joined.text
            inner, offsets = self._passage_ids(passage, len(asked))
            extra: dict[str, Extra] = {
                "realm.tokens": TokenIndex(torch.arange(len(inner)) + len(asked) + 2),
                "realm.words": PerExample(len(inner)),
                "realm.right": PerExample(right_spans(passage, offsets, accepted)),
            }
            row.append(
                Example(
                    self._layout(asked, inner), extra=extra | ({} if number else self._about(query, found, empty=False))
                )
            )
        return row

    @torch.inference_mode()
    def answer(self, question: str, copies: int = 1) -> list[RagAnswer]:
        """The most probable answers, the best first: Σ p(span | z, x) · p(z | x) over the spans of equal text."""
        query = self.query(question)
        found = self.candidates([query])[0]
        if not found:
            raise MasqueradeError("The collection is empty; add files with 'masquerade index'.")
        row = self.answer_row(question, (), query, found)
        batch = collate([row], self.model.spec.pad).to(self.model.device)
        loss = RealmLoss(self.model, self.encoder.model, self.encoder.pooling, self.settings.temperature, True).eval()
        prior = loss.priors(batch, [len(found)])[0]
        shares = dict[str, float]()
        for scores, share, stored, example in zip(loss.span_scores(batch), prior, found, row, strict=True):
            passage, grid = stored.passage.joined.text, span_grid(example.count("realm.tokens"))
            _, offsets = self.model.tokenizer.encode_places([passage])[0]
            for index, probability in zip(*_best(scores.log_softmax(0) + share), strict=True):
                first, last = grid[index].tolist()
                text = passage[offsets[first][0] : offsets[last][1]]
                shares[text] = shares.get(text, 0.0) + probability
        passages = tuple(
            (Found(Score(weight, None, weight), stored), weight)
            for stored, weight in zip(found, prior.exp().tolist(), strict=True)
        )
        best = sorted(shares.items(), key=lambda each: -each[1])[:copies]
        return [RagAnswer(text, float(torch.tensor(share).log()), passages) for text, share in best]

    def _passage_ids(self, passage: str, before: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids and characters of as much of a passage as has room after ``before`` tokens."""
        room = max(1, self.settings.length - before - 3)
        ids, offsets = self.model.tokenizer.encode_places([passage])[0]
        return ids[:room], offsets[:room]

    def _layout(self, first: Sequence[int], second: Sequence[int]) -> Layout:
        tokenizer = self.model.tokenizer
        cls, sep = tokenizer.special("cls"), tokenizer.special("sep")
        segment = [0] * (len(first) + 2) + [int(self.model.spec.segments > 1)] * (len(second) + 1)
        return Layout.of([cls, *first, sep, *second, sep], segment=segment)

    def _about(self, query: list[int], found: Sequence[Stored], empty: bool) -> dict[str, Extra]:
        """What belongs to a whole row: the retriever's ids of the query and of the passages."""
        before, longest = self.encoder.pooling.passage, min(self.encoder.longest, self.settings.length)
        texts = [before + each.passage.searched(each.title) for each in found] + [before] * empty
        read = self.encoder.model.tokenizer.encode_pairs([(text, None) for text in texts], longest)
        ids = [query, *(ids for ids, _ in read)]
        return {
            "realm.ids": PerExample([id for each in ids for id in each]),
            "realm.lengths": PerExample([len(each) for each in ids]),
            "realm.candidates": PerExample(len(texts)),
        }


def right_spans(passage: str, offsets: Sequence[tuple[int, int]], accepted: Sequence[str]) -> torch.Tensor:
    """Which spans of ``span_grid`` are accepted answers, in any case: 0 or 1, (spans,)"""
    grid, folded = span_grid(len(offsets)), passage.casefold()
    right = torch.zeros(len(grid), dtype=torch.long)
    number = {tuple(pair): index for index, pair in enumerate(grid.tolist())}
    first = {start: index for index, (start, _) in reversed(list(enumerate(offsets)))}
    last = {end: index for index, (_, end) in enumerate(offsets)}
    for answer in {each.casefold() for each in accepted if len(folded) == len(passage)}:
        place = folded.find(answer)
        while place >= 0 and answer:
            pair = (first.get(place, -1), last.get(place + len(answer), -1))
            if pair in number:
                right[number[pair]] = 1
            place = folded.find(answer, place + 1)
    return right


def _best(logs: torch.Tensor, most: int = 20) -> tuple[list[int], list[float]]:
    """The indices and probabilities of the best spans."""
    top = logs.topk(min(most, len(logs)))
    return top.indices.tolist(), top.values.exp().tolist()


def _letters(stored: Stored) -> str:
    return "".join(stored.passage.joined.text.split())
