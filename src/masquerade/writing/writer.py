"""The writer: texts from texts, such as titles and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade.checkpoints.folders import load, locate
from masquerade.decoding.loop import Commit
from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.files import read_json
from masquerade.nn.model import Model
from masquerade.writing.generate import GeneratedText, Method, one_by_one, stream
from masquerade.writing.mixture import AllSteps, mixture_of, with_gamma
from masquerade.writing.pairs import TextPair
from masquerade.writing.rouge import TextScores, score_texts
from masquerade.writing.settings import SourceTemplate, WritingSettings
from masquerade.writing.shipped import SHIPPED_WRITERS, shipped_writer
from masquerade.writing.spelling import tidy, with_capitals
from masquerade.writing.windows import cut_windows

ONE_WAY = ("parallel", "mask-predict", "diffusion", "mixture", "rerank")  # the source does not see their tokens
TOGETHER = 64  # texts that are written before the first of them is returned


@dataclass(frozen=True)
class WrittenText:
    """A text that was written for a source."""

    text: str
    score: float  # its log-probability; in beam search divided by a power of its length
    ended: bool  # it has an end, and was not cut at the greatest length
    unread: int = 0  # tokens at the end of the source that did not fit, and were not read
    unknown: float = 0.0  # the share of the source's characters that the vocabulary does not have
    alternatives: tuple[WrittenText, ...] = ()  # the next best texts
    trace: tuple[Commit, ...] = ()  # the step that wrote each token

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class EncodedSource:
    """A source as a model reads it."""

    ids: list[int]  # between special tokens, as many as fit
    unread: int  # tokens that do not fit
    unknown: float  # the share of its characters that the vocabulary does not have


class Writer:
    """A model that writes a text for a source."""

    def __init__(self, model: Model, settings: WritingSettings | None = None) -> None:
        self.model, self.settings = model, settings or WritingSettings.of(model)
        self.template, self.tokenizer = SourceTemplate.of(model, self.settings), model.tokenizer

    @staticmethod
    def load(source: str | Path) -> Writer:
        """A writer that comes with Masquerade ("title-en"), one in a folder, a run's folder, or under a hub id; also a
        published checkpoint that writes, such as T5, BART or PEGASUS, with the settings of its generation_config.json.
        """
        place = locate(str(shipped_writer(str(source)) if source in SHIPPED_WRITERS else source))
        model, folder = load(place), place if place.is_dir() else place.parent
        if "writing" not in model.config and (folder / "generation_config.json").is_file():
            said = read_json(folder / "generation_config.json")
            model.config |= {key: value for key, value in said.items() if model.config.get(key) is None}
        return Writer(model)

    def write(self, text: str, method: str | Method | None = None, **settings: Any) -> WrittenText:
        """The text for one source; the parameters are those of ``each``."""
        return self.write_many([text], method, **settings)[0]

    def write_many(
        self, texts: Sequence[str], method: str | Method | None = None, **settings: Any
    ) -> list[WrittenText]:
        """The text for each source, in the order of the sources; the parameters are those of ``each``."""
        return list(self.each(texts, method, **settings))

    def each(
        self,
        texts: Sequence[str],
        method: str | Method | None = None,
        *,
        task: str = "",
        prefix: str | None = None,
        n_best: int = 1,
        batch: int = 16,
        done: Callable[[int], None] = lambda count: None,
        **settings: Any,
    ) -> Iterator[WrittenText]:
        """The texts of ``write_many``, one by one.

        ``method`` is one of ``masquerade.writing.generate.DECODING_METHODS``; by default beam search as the writer's
        settings say. ``task`` is one of the tasks that the writer was trained for, and puts that task's prefix before
        each source; ``prefix`` is any such text. Further settings are those of ``generate``: max_new, min_new,
        constraint, beams, seed …
        """
        if isinstance(texts, str):
            raise MasqueradeError("'write_many' and 'each' take a list of texts; use 'write' for one text.")
        template = self._template(settings.get("max_new"))
        opening = self.prefix(task) if prefix is None else prefix
        gamma = settings.pop("gamma", None) if mixture_of(self.model) is not None else None
        sources = [self._source(template, opening, text, number) for number, text in enumerate(texts, start=1)]
        way, chosen = self._settled(method, n_best, settings)
        if not sources:
            return
        with with_gamma(self.model, 1.0 if isinstance(way, AllSteps) else gamma):
            given = [source.ids for source in sources]
            written = one_by_one(self.model, given, way, frame=template.frame, batch=batch, together=TOGETHER, **chosen)
            for text, source, found in zip(texts, sources, written, strict=True):
                done(1)
                yield replace(self._written(found, text), unread=source.unread, unknown=source.unknown)

    def stream(
        self,
        text: str,
        method: str | Method = "greedy",
        *,
        task: str = "",
        prefix: str | None = None,
        **settings: Any,
    ) -> Iterator[str]:
        """The text for one source in pieces, as it is written; the parameters are those of ``each``. Capitals are not
        restored, since they depend on words that are not yet written."""
        template = self._template(settings.get("max_new"))
        ids = self.read(text, task=task, prefix=prefix, max_new=settings.get("max_new")).ids
        gamma = settings.pop("gamma", None) if mixture_of(self.model) is not None else None
        way, chosen = self._settled(method, 1, settings)
        with with_gamma(self.model, gamma):
            yield from stream(self.model, ids, way, frame=template.frame, **chosen)

    def read(
        self, text: str, *, task: str = "", prefix: str | None = None, max_new: int | None = None
    ) -> EncodedSource:
        """A source as it is read to write at most ``max_new`` tokens for it; the parameters are those of ``each``."""
        return self._source(self._template(max_new), self.prefix(task) if prefix is None else prefix, text, 1)

    def write_windows(self, text: str, method: str | Method | None = None, **settings: Any) -> WrittenText:
        """The texts for all windows of a source that is longer than the model, one after the other; the score is their
        mean. The parameters are those of ``each``."""
        prefix = settings.get("prefix")
        prefix = self.prefix(settings.get("task", "")) if prefix is None else prefix
        room = self._template(settings.get("max_new")).room - len(self.tokenizer.encode(prefix))
        if room < 1:
            raise MasqueradeError("The prefix leaves no room for a source; give a shorter one.")
        written = self.write_many(cut_windows(self.tokenizer, text, room), method, **settings)
        between = "" if language(text) == "zh" else " "
        score, unknown = (
            sum(each) / len(written) for each in ([w.score for w in written], [w.unknown for w in written])
        )
        ended = all(each.ended for each in written)
        text = between.join(each.text for each in written if each.text)
        return WrittenText(text, score, ended, unknown=unknown)

    def prefix(self, task: str) -> str:
        """The text before the sources of a task."""
        prefixes = self.settings.prefixes
        if task and task not in prefixes:
            known = f"its tasks are {', '.join(prefixes)}" if prefixes else "it has none"
            raise MasqueradeError(f"This writer has no task '{task}'; {known}.")
        return prefixes[task] if task else ""

    def _template(self, asked: int | None) -> SourceTemplate:
        """The template for texts of at most the tokens asked for; a longer text leaves less room for its source."""
        if asked is None or asked == self.settings.target_length:
            return self.template
        return SourceTemplate.of(self.model, replace(self.settings, target_length=asked))

    def _source(self, template: SourceTemplate, prefix: str, text: str, number: int) -> EncodedSource:
        """A source as the model reads it, as much as fits."""
        if not text.strip():
            raise MasqueradeError(f"Text {number} is empty, so nothing can be written for it; give one with words.")
        (ids, places), strange = self.tokenizer.encode_places([prefix + text])[0], self.tokenizer.specials.get("unk")
        lost = sum(end - start for one, (start, end) in zip(ids, places, strict=True) if one == strange)
        unread = max(0, len(ids) - template.room)
        return EncodedSource(template.enclose(ids[: template.room]), unread, lost / len(prefix + text))

    def _settled(
        self, method: str | Method | None, n_best: int, settings: dict[str, Any]
    ) -> tuple[str | Method, dict[str, Any]]:
        """The decoding method, and the settings that are given or that the writer has."""
        own, chosen = self.settings, dict(settings)
        if chosen.get("max_new") is None:
            chosen["max_new"] = own.target_length
        if own.least and own.least <= chosen["max_new"]:
            chosen.setdefault("min_new", own.least)
        if own.no_repeat:
            chosen.setdefault("no_repeat", own.no_repeat)
        method = method or ("beam" if max(own.beams, n_best, chosen.get("beams", 1)) > 1 else "greedy")
        if method == "beam":
            chosen.setdefault("beams", max(own.beams, n_best))
            chosen.setdefault("length_penalty", own.length_penalty)
            chosen.setdefault("early_stopping", own.early_stopping)
        if method == "parallel" and mixture_of(self.model) is not None:
            return AllSteps(n_best), chosen
        if n_best > 1:
            chosen["copies"] = n_best
        if own.training == "both" and isinstance(method, str) and method in ONE_WAY:
            chosen.setdefault("both_ways", False)
        return method, chosen

    def _written(self, found: GeneratedText, source: str) -> WrittenText:
        """A generated text with its spaces and capitals restored."""
        text = tidy(found.text.strip()) if self.tokenizer.word_pieces else found.text.strip()
        text = with_capitals(text, source, self.settings.casing)
        others = tuple(self._written(each, source) for each in found.alternatives)
        return WrittenText(text, found.score, found.ended, alternatives=others, trace=tuple(found.trace))


def scored(pairs: Sequence[TextPair], texts: Sequence[str]) -> TextScores:
    """The scores of texts against the targets of pairs."""
    return score_texts(texts, [pair.target for pair in pairs], [pair.source for pair in pairs])
