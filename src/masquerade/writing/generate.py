"""Text generation: from prompts to texts, by any decoding method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from inspect import signature
from itertools import count, takewhile
from typing import Any, Protocol

from masquerade.decoding.autoregressive import Greedy, Sample
from masquerade.decoding.beam import Beam
from masquerade.decoding.canvas import NO_TOKEN, Canvas
from masquerade.decoding.constraints import Constraint
from masquerade.decoding.logits import Processor, forced, no_repeat, repetition
from masquerade.decoding.loop import Commit, DecodingRun, DecodingTask, Hypothesis, Session, write
from masquerade.decoding.mixture import Mixture
from masquerade.decoding.plans import blocks, diffusion, mask_predict, parallel
from masquerade.decoding.rerank import Rerank
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.writing.prompts import Frame, Ids, frame_for

Prompt = str | Ids
USUAL = 64  # the most tokens written if no number is given


class Method(Protocol):
    """A decoding method with its settings."""

    def start(self, task: DecodingTask) -> DecodingRun: ...


DECODING_METHODS: dict[str, Callable[..., Method]] = {
    "greedy": Greedy,
    "sample": Sample,
    "beam": Beam,
    "parallel": parallel,
    "mask-predict": mask_predict,
    "diffusion": diffusion,
    "blocks": blocks,
    "mixture": Mixture,
    "rerank": Rerank,
}


@dataclass(frozen=True)
class GeneratedText:
    """A text that a model generated for a prompt."""

    text: str  # empty where the model has no tokenizer
    ids: list[int]  # without the end token
    score: float  # its log-probability; in beam search divided by a power of its length
    ended: bool  # it has an end token, and was not truncated
    trace: list[Commit]  # the step that wrote each token
    alternatives: list[GeneratedText]  # the other texts for the prompt, if copies > 1


@dataclass(frozen=True)
class Rules:
    """Rules for all methods."""

    max_new: int | None = None  # the most tokens, the end token included; None: 64 or min_new, or as many as fit
    min_new: int = 0  # the fewest tokens before the end token
    no_repeat: int = 0  # forbid n-grams of this length to occur twice; 0: allow all
    repetition: float = 1.0  # penalty for tokens that have occurred; 1: none
    constraint: Constraint | Sequence[Constraint] | None = None  # one for all prompts, or one for each

    def __post_init__(self) -> None:
        if self.max_new is not None and self.max_new < 1:
            raise MasqueradeError(f"'max_new' is {self.max_new}; give at least 1.")
        if self.min_new < 0 or (self.max_new is not None and self.min_new > self.max_new):
            raise MasqueradeError(
                f"'min_new' is {self.min_new} and 'max_new' {self.max_new}; give 0 ≤ min_new ≤ max_new."
            )
        self.processors()

    def processors(self) -> list[Processor]:
        """The processors for these rules."""
        made = [repetition(self.repetition)] if self.repetition != 1.0 else []
        return [*made, no_repeat(self.no_repeat)] if self.no_repeat != 0 else made

    def constraints(self, prompts: int) -> list[Constraint | None]:
        """The constraint of each prompt."""
        if not isinstance(self.constraint, Sequence):
            return [self.constraint] * prompts
        if len(self.constraint) != prompts:
            raise MasqueradeError(
                f"There are {len(self.constraint)} constraints for {prompts} prompts; give one, or one for each."
            )
        return list(self.constraint)


def generate(
    model: Model,
    prompts: str | Sequence[Prompt],
    method: str | Method = "greedy",
    *,
    frame: str | Frame | None = None,
    rules: Rules | None = None,
    cache: bool = True,
    batch: int = 32,
    **settings: Any,
) -> list[GeneratedText]:
    """The text generated for each prompt, given as text or ids; ``batch`` prompts are decoded at a time.

    The settings are those of the Rules (max_new, min_new, no_repeat, repetition, constraint) and those of the method:
    of "sample" temperature, top_k, top_p, seed and copies; of "beam" beams, length_penalty, early_stopping and copies;
    of the parallel ones rounds, lengths, size and more: see DECODING_METHODS.
    """
    return list(one_by_one(model, prompts, method, frame=frame, rules=rules, cache=cache, batch=batch, **settings))


def one_by_one(
    model: Model,
    prompts: str | Sequence[Prompt],
    method: str | Method = "greedy",
    *,
    frame: str | Frame | None = None,
    rules: Rules | None = None,
    cache: bool = True,
    batch: int = 32,
    together: int | None = None,
    **settings: Any,
) -> Iterator[GeneratedText]:
    """The texts of ``generate``, one by one in the order of the prompts. ``together`` prompts (None: all) are decoded
    before the first of them is returned, in batches of similar length."""
    way, rules = _settled(method, rules, settings)
    frame = frame_for(model, frame) if frame is None or isinstance(frame, str) else frame
    ids = encode(model, frame, prompts)
    constraints = rules.constraints(len(ids))
    if batch < 1:
        raise MasqueradeError(f"A batch of {batch} prompts is empty; give at least 1.")
    together = together or len(ids)
    for begin in range(0, len(ids), together):
        some = range(begin, min(begin + together, len(ids)))
        order = sorted(some, key=lambda number: len(ids[number]))  # similar lengths need little padding
        written: dict[int, GeneratedText] = {}
        with _evaluating(model):
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                task = _task(model, frame, [ids[number] for number in chosen], rules, cache, chosen, constraints)
                before = _before(task.session.canvas)
                writing = way.start(task)
                for _ in write(task.session, writing):
                    pass
                for number, continued, found in zip(chosen, before, writing.results(), strict=True):
                    written[number] = _generated(model, number, continued, found)
        yield from (written[number] for number in some)


def stream(
    model: Model,
    prompt: Prompt,
    method: str | Method = "greedy",
    *,
    frame: str | Frame | None = None,
    rules: Rules | None = None,
    cache: bool = True,
    **settings: Any,
) -> Iterator[str]:
    """The text for one prompt in pieces as it is generated; the settings are those of ``generate``.

    Only final text is returned: a character of several tokens comes whole, and a token that is written out of order
    waits for the tokens before it.
    """
    way, rules = _settled(method, rules, settings)
    frame = frame_for(model, frame) if frame is None or isinstance(frame, str) else frame
    ids = encode(model, frame, [prompt])
    if not model.has_tokenizer:
        raise MasqueradeError("This model came without a tokenizer, so it has no text to stream; use generate.")
    if getattr(way, "copies", 1) > 1:
        raise MasqueradeError("A stream is one text, but 'copies' is above 1; use generate.")
    with _evaluating(model):
        task = _task(model, frame, ids, rules, cache, [0], rules.constraints(1))
    return _pieces(model, way, task)


def _pieces(model: Model, way: Method, task: DecodingTask) -> Iterator[str]:
    before, writing, given = _before(task.session.canvas)[0], way.start(task), ""
    known: dict[int, int] = {}
    with _evaluating(model):
        for commits in write(task.session, writing):
            known |= {commit.index: commit.id for commit in commits}
            ready = (known[index] for index in takewhile(known.__contains__, count()))
            text = _text(model, before, list(takewhile(lambda number: number != task.end, ready)))
            text = text.rstrip("\ufffd")  # bytes of an incomplete character
            if len(text) > len(given):
                yield text[len(given) :]
                given = text
        last = _text(model, before, writing.results()[0][0].ids)[len(given) :]
        if last:
            yield last


@contextmanager
def _evaluating(model: Model) -> Iterator[None]:
    """The model in evaluation mode, without dropout."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _settled(method: str | Method, rules: Rules | None, settings: Mapping[str, Any]) -> tuple[Method, Rules]:
    """The method and the rules with these settings."""
    ruled = {each.name for each in fields(Rules)}
    own = {name: value for name, value in settings.items() if name not in ruled}
    rules = replace(rules or Rules(), **{name: value for name, value in settings.items() if name in ruled})
    if not isinstance(method, str):
        if own:
            raise MasqueradeError(f"'{min(own)}' belongs to the method; set it where the method is made.")
        return method, rules
    if method not in DECODING_METHODS:
        raise MasqueradeError(f"There is no method '{method}'; choose from {', '.join(DECODING_METHODS)}.")
    known = [*signature(DECODING_METHODS[method]).parameters, *sorted(ruled)]
    if unknown := own.keys() - known:
        raise MasqueradeError(f"'{min(unknown)}' is no setting of the method '{method}'; it has {', '.join(known)}.")
    return DECODING_METHODS[method](**own), rules


def encode(model: Model, frame: Frame, prompts: str | Sequence[Prompt]) -> list[list[int]]:
    """The ids of every prompt."""
    given = [prompts] if isinstance(prompts, str) else list(prompts)
    if not given:
        raise MasqueradeError("The list of prompts is empty; give at least one.")
    found = []
    for prompt in given:
        if isinstance(prompt, int):
            raise MasqueradeError(
                "A prompt is a text or a list of ids, not one id; put the ids of a prompt into a list of their own."
            )
        if not isinstance(prompt, str):
            found.append([int(number) for number in prompt])
        elif not model.has_tokenizer:
            raise MasqueradeError("This model came without a tokenizer, so it cannot read text; give it ids.")
        else:
            found.append(frame.encode(model.tokenizer, prompt))
    return found


def _task(
    model: Model,
    frame: Frame,
    prompts: list[list[int]],
    rules: Rules,
    cache: bool,
    numbers: Sequence[int],
    constraints: Sequence[Constraint | None],
) -> DecodingTask:
    """A decoding task for one batch of prompts; ``numbers`` index the prompts."""
    canvas = frame.canvas(prompts)
    check_fit(model, canvas, numbers)  # before a source is encoded
    return task_of(Session(model, canvas, cache), frame.end, rules, numbers, constraints)


def check_fit(model: Model, canvas: Canvas, numbers: Sequence[int]) -> None:
    """An error for a prompt that is longer than the model's positions."""
    for number, room in zip(numbers, canvas.room(model.spec), strict=True):
        if room < 1:
            raise MasqueradeError(f"Prompt {number + 1} does not fit: it is longer than the model's positions; cut it.")


def task_of(
    session: Session,
    end: int | None,
    rules: Rules,
    numbers: Sequence[int],
    constraints: Sequence[Constraint | None],
) -> DecodingTask:
    """A decoding task for the texts of a session, limited by the model's positions; ``numbers`` index the prompts."""
    model, canvas, limits = session.model, session.canvas, list[int]()
    check_fit(model, canvas, numbers)
    for number, room in zip(numbers, canvas.room(model.spec), strict=True):
        if canvas.places is not None:
            if rules.max_new not in (None, room):
                raise MasqueradeError(
                    f"Prompt {number + 1} has {room} [MASK]s, all of which are filled; leave 'max_new' out."
                )
            limits.append(room)
            continue
        asked = rules.min_new if rules.max_new is None else rules.max_new
        if asked > room:
            raise MasqueradeError(
                f"Behind prompt {number + 1} the model's positions leave room for {room} tokens, not for {asked}; "
                "shorten the prompt or ask for fewer."
            )
        limits.append(min(room, max(USUAL, asked)) if rules.max_new is None else rules.max_new)
    own, processors = [constraints[number] for number in numbers], rules.processors()
    closing = model.config.get("forced_eos_token_id")
    if isinstance(closing, int) and canvas.source is not None and rules.min_new < max(limits):
        processors.append(forced(closing, canvas.history.shape[1] + max(limits) - 1))  # room is alike for all
    called = [number + 1 for number in numbers]
    return DecodingTask(session, end, limits, rules.min_new, processors, own, called)


def _before(canvas: Canvas) -> list[list[int]]:
    """The tokens that each text continues, without padding."""
    return [[number for number in row if number != NO_TOKEN] for row in canvas.history.tolist()]


def _generated(model: Model, prompt: int, before: list[int], found: Sequence[Hypothesis]) -> GeneratedText:
    """The generated text of a prompt, from its hypotheses."""
    texts = []
    for each in found:
        trace = [replace(commit, prompt=prompt) for commit in each.trace]
        texts.append(GeneratedText(_text(model, before, each.ids), each.ids, each.score, each.ended, trace, []))
    return replace(texts[0], alternatives=texts[1:])


def _text(model: Model, before: list[int], ids: list[int]) -> str:
    """The ids as text, decoded after the tokens they continue, so that a space between them is kept."""
    if not model.has_tokenizer:
        return ""
    opening, whole = model.tokenizer.decode(before), model.tokenizer.decode([*before, *ids])
    return whole[len(opening) :] if whole.startswith(opening) else model.tokenizer.decode(ids)
