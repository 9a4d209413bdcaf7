"""``masquerade.pipeline("question-answering")``: the call that ``transformers`` had, with its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.pairs import pair_logits
from masquerade.reading.pointer_reader import PointerReader
from masquerade.reading.reader import Reader
from masquerade.reading.shipped import SHIPPED
from masquerade.text.tokenizer import Tokenizer

LONGEST, OVERLAP = 384, 128  # tokens of a window, and tokens that two windows share, unless said otherwise
SPARE = 8  # spans for each answer: several may have the same characters, where tokens are blanks or parts of characters

Found = dict[str, Any]  # score, start, end, answer


@dataclass(frozen=True)
class Asking:
    """How a question is asked; None is the usual value."""

    top_k: int = 1  # answers for each question
    handle_impossible_answer: bool = False  # an empty answer may be the best one
    doc_stride: int | None = None  # tokens that two windows of a long context share: 128, at most half of a window
    max_answer_len: int | None = None  # tokens of an answer: 15
    max_seq_len: int | None = None  # tokens of a window with its question: 384, at most what the model can read
    max_question_len: int | None = None  # tokens of a question: 64
    align_to_words: bool = True  # answers begin and end with whole words

    def changed(self, options: Mapping[str, Any]) -> Asking:
        """These settings with some others."""
        known = [field.name for field in fields(self)]
        for name in options:
            if name not in known:
                raise MasqueradeError(f"There is no option '{name}' of this pipeline; there are {', '.join(known)}.")
        made = replace(self, **{name: value for name, value in options.items() if value is not None})
        for name in ("top_k", "max_answer_len", "max_seq_len", "max_question_len"):
            value = getattr(made, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise MasqueradeError(f"'{name}' has to be a number from 1 on, but it is {value!r}.")
        if made.doc_stride is not None and (not isinstance(made.doc_stride, int) or made.doc_stride < 0):
            raise MasqueradeError(f"'doc_stride' has to be a number from 0 on, but it is {made.doc_stride!r}.")
        return made


class QuestionAnswering:
    """Questions and contexts in, dicts with ``score``, ``start``, ``end`` and ``answer`` out.

    ``model`` is a folder or hub id of a checkpoint with a span head, a model of that kind, or a reader of Masquerade's
    own; without it, the English or the Chinese reader that comes with Masquerade, as suits each question. ``options``
    are defaults for the calls: those of ``Asking``.
    """

    def __init__(self, model: str | Path | Model | Reader | None = None, **options: Any) -> None:
        self.asking = Asking().changed(options)
        self._readers: dict[str, Reader] = {}
        self.model: Model | None = None
        self.reader: Reader | None = None
        if isinstance(model, PointerReader):
            self._take(model.model)
        elif isinstance(model, Reader):
            self.reader = model
        elif isinstance(model, str) and model in SHIPPED:
            self.reader = Reader.load(model)
        elif model is not None:
            self._take(model if isinstance(model, Model) else load(model))

    def _take(self, model: Model) -> None:
        if "reading" in model.config:
            self.reader = Reader(model)
        else:
            pointer = PointerReader(model)
            self.model, self.template = pointer.model, pointer.template

    def __call__(self, *examples: Any, **options: Any) -> Found | list[Found] | list[Found | list[Found]]:
        """The answer to a question, or the answers to several.

        Called with ``question=`` and ``context=``, strings or lists of them, or with dicts of both. One question gives
        a dict, several a list of these; with ``top_k`` above 1 each is a list, the best answer first.
        """
        question, context = options.pop("question", None), options.pop("context", None)
        asking = self.asking.changed(options)
        pairs = _examples(examples, question, context)
        found = self._point(pairs, asking) if self.model is not None else self._ask(pairs, asking)
        results = [each if asking.top_k > 1 else each[0] for each in found]
        return results[0] if len(results) == 1 else results

    def _ask(self, pairs: Sequence[tuple[str, str]], asking: Asking) -> list[list[Found]]:
        """Answers of Masquerade's own readers, whose windows are a part of what they learned."""
        for name in ("doc_stride", "max_answer_len", "max_seq_len", "max_question_len"):
            if getattr(asking, name) is not None:
                raise MasqueradeError(
                    f"A reader of Masquerade has its own windows; leave '{name}' out, or give a model."
                )
        results = []
        for question, context in pairs:
            reader = self.reader or self._shipped(language(question, context))
            if not asking.handle_impossible_answer:
                reader = copy(reader)  # it shares the model and what is remembered
                reader.settings = replace(reader.settings, threshold=0.0, refuse=1.0)
            answer = reader.ask(question, context, n_best=asking.top_k)
            none = [] if answer else [_found("", answer.score, 0, 0)]
            others = ([answer] if answer else []) + list(answer.alternatives)
            results.append(
                (none + [_found(each.text, each.score, each.start, each.end) for each in others])[: asking.top_k]
            )
        return results

    def _shipped(self, name: str) -> Reader:
        """The reader of a language, loaded once."""
        if name not in self._readers:
            self._readers[name] = Reader.load(name)
        return self._readers[name]

    def _point(self, pairs: Sequence[tuple[str, str]], asking: Asking) -> list[list[Found]]:
        """Answers by the span head: the product of start and end probability in each window, the best ones of all."""
        if self.model is None:
            raise TypeError("no model to point with")
        tokenizer, jobs = self.model.tokenizer, list[tuple[int, list[int], list[int], int]]()
        questions = [ids for ids, _ in tokenizer.encode_places([question for question, _ in pairs])]
        contexts = [_Context.of(tokenizer, context) for _, context in pairs]
        for index, (question, context) in enumerate(zip(questions, contexts, strict=True)):
            asked = question[: asking.max_question_len or 64]
            for start, end in self._windows(len(asked), len(context.ids), asking):
                jobs.append((index, asked, context.ids[start:end], start))
        logits = pair_logits(self.model, self.template, [(asked, ids) for _, asked, ids, _ in jobs])
        results, none = [dict[tuple[int, int], float]() for _ in pairs], [1.0] * len(pairs)
        for (index, _, _, offset), (first, last) in zip(jobs, logits, strict=True):
            scores, nothing = _products(first, last, asking.max_answer_len or 15)
            none[index] = min(none[index], nothing)
            best, n = scores.flatten().topk(min(SPARE * asking.top_k, scores.numel())), len(scores)
            for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                if score > 0.0:
                    span = contexts[index].span(place // n + offset, place % n + offset, asking.align_to_words)
                    if span[0] < span[1]:  # no blank is an answer
                        results[index][span] = max(score, results[index].get(span, 0.0))
        answers = list[list[Found]]()
        for index, (_, text) in enumerate(pairs):
            found = [_found(text[start:end], score, start, end) for (start, end), score in results[index].items()]
            found += [_found("", none[index], 0, 0)] * asking.handle_impossible_answer
            answers.append(sorted(found, key=lambda each: -each["score"])[: asking.top_k])
        return answers

    def _windows(self, question: int, context: int, asking: Asking) -> list[tuple[int, int]]:
        """The token ranges (end not included) of a context's windows, beside a question of that many tokens."""
        if self.model is None:
            raise TypeError("no model to point with")
        spec = self.model.spec
        longest = asking.max_seq_len or LONGEST
        if "learned" in spec.positions:
            longest = min(longest, spec.longest - spec.position_offset)
        room = longest - question - self.template.size
        overlap = min(OVERLAP, longest // 2) if asking.doc_stride is None else asking.doc_stride
        if asking.doc_stride is None and overlap >= room > 1:  # the usual values have to work for any question
            overlap = room // 2
        if room < 1 or overlap >= room:
            raise MasqueradeError(
                f"A window of {longest} tokens has no room for a question of {question} tokens and a context that "
                f"overlaps by {overlap}; make 'max_seq_len' larger, or 'doc_stride' or 'max_question_len' smaller."
            )
        starts = range(0, max(1, context - overlap), room - overlap)
        return [(start, min(start + room, context)) for start in starts]


@dataclass(frozen=True)
class _Context:
    """The tokens of a context, and the characters of each token and of the word it belongs to."""

    ids: list[int]
    tokens: list[tuple[int, int]]
    words: list[tuple[int, int]]
    text: str

    @staticmethod
    def of(tokenizer: Tokenizer, text: str) -> _Context:
        made = tokenizer.backend.encode(text, add_special_tokens=False)
        tokens, numbers = list(made.offsets), list(made.word_ids)
        words = dict[int | None, tuple[int, int]]()
        for number, (start, end) in zip(numbers, tokens, strict=True):
            first, last = words.get(number, (start, end))
            words[number] = min(first, start), max(last, end)
        if not tokens:
            raise MasqueradeError("There are no words in the context; give a text to read the answer from.")
        whole = [each if number is None else words[number] for number, each in zip(numbers, tokens, strict=True)]
        return _Context(list(made.ids), tokens, whole, text)

    def span(self, first: int, last: int, whole_words: bool) -> tuple[int, int]:
        """The characters from one token to another, without blanks at the ends."""
        places = self.words if whole_words else self.tokens
        start, end = places[first][0], places[last][1]
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return start, end


def _products(start: Tensor, end: Tensor, longest: int) -> tuple[Tensor, float]:
    """The probability of each span of up to ``longest`` tokens as the product of those of its start and its end, (n,
    n), and that of no answer; of logits (1 + n,), the first of which stand for no answer."""
    begin, close = start.double().softmax(0), end.double().softmax(0)
    scores = (begin[1:, None] * close[None, 1:]).triu().tril(longest - 1)
    return scores, float(begin[0] * close[0])


def _found(answer: str, score: float, start: int, end: int) -> Found:
    return {"score": score, "start": start, "end": end, "answer": answer}


def _examples(given: Sequence[Any], question: Any, context: Any) -> list[tuple[str, str]]:
    """Pairs of a question and a context, however they were given."""
    listed = [each for one in given for each in (one if isinstance(one, list | tuple) else [one])]
    if question is not None or context is not None:
        if isinstance(question, list | tuple) and isinstance(context, str):
            context = [context] * len(question)
        both = isinstance(question, list | tuple) and isinstance(context, list | tuple)
        if both and len(question) != len(context):
            raise MasqueradeError(f"There are {len(question)} questions, but {len(context)} contexts; give as many.")
        pairs = zip(question, context, strict=True) if both else [(question, context)]
        listed += [{"question": each, "context": text} for each, text in pairs]
    if not listed:
        raise MasqueradeError("There is nothing to answer; give question= and context=, or dicts with both.")
    return [_checked(each) for each in listed]


def _checked(example: Any) -> tuple[str, str]:
    if not isinstance(example, Mapping):
        raise MasqueradeError("An example is a dict with a 'question' and a 'context'; give it so, or by name.")
    for name in ("question", "context"):
        if not isinstance(example.get(name), str):
            raise MasqueradeError(f"An example needs a '{name}' that is a text.")
        if not example[name].strip():
            raise MasqueradeError(f"The {name} is empty; give one with words in it.")
    return example["question"], example["context"]
