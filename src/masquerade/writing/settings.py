"""The settings of a writer, kept in its configuration, and how its sources are encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.writing.prompts import Blank, Continue, Decode, Frame, frame_for
from masquerade.writing.spelling import CASINGS

TRAININGS = {  # of a single BERT → the frame that it writes in
    "shifted": "shifted",  # each token predicts the next one
    "masked": "prefix",  # UniLM: masked tokens of the target, its end among them
    "both": "prefix",  # two masks at once: one token after another, and all tokens in parallel
}
UNBOUNDED = 1024  # tokens of a source for models without a table of positions
PUBLISHED = {  # keys of published configurations → settings
    "num_beams": "beams", "length_penalty": "length_penalty", "no_repeat_ngram_size": "no_repeat",
    "min_length": "least", "early_stopping": "early_stopping",
}  # fmt: skip


@dataclass(frozen=True)
class WritingSettings:
    """How a model writes. All lengths are in tokens, special ones included."""

    training: str = ""  # one of TRAININGS; empty for models that are trained in one way only
    length: int = 0  # of a source; 0: as many as fit
    target_length: int = 64  # of a text
    least: int = 0  # the fewest tokens of a text
    prefixes: Mapping[str, str] = field(default_factory=dict)  # the text before the sources of each task, by its name
    separator: str = ""  # between source and text, for models that continue a text (GPT)
    casing: str = "none"  # how capitals are restored, one of CASINGS; for models that know only lower case
    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    no_repeat: int = 0  # n-grams of this length occur once in a text; 0: as often as the model wants

    def __post_init__(self) -> None:
        if self.casing not in CASINGS:
            raise MasqueradeError(f"There is no casing '{self.casing}'; choose from {', '.join(CASINGS)}.")

    @staticmethod
    def of(model: Model) -> WritingSettings:
        """The settings of a model: those it was trained with, or those of a published checkpoint."""
        said = model.config.get("writing")
        if isinstance(said, dict):
            if unknown := set(said) - {each.name for each in fields(WritingSettings)}:
                raise MasqueradeError(f"There is no setting '{min(unknown)}' under 'writing' in the configuration.")
            return WritingSettings(**said)
        return WritingSettings.published(model)

    @staticmethod
    def published(model: Model) -> WritingSettings:
        """The settings of a published checkpoint, from its configuration. Its lengths count the tokens that a decoder
        starts with, ours do not."""
        config = model.config
        found: dict[str, Any] = {ours: config[key] for key, ours in PUBLISHED.items() if config.get(key) is not None}
        frame = frame_for(model)
        begun = len(frame.start) if isinstance(frame, Decode) else 0
        if "least" in found:
            found["least"] = max(0, found["least"] - begun)
        if isinstance(config.get("max_length"), int) and config["max_length"] > begun + 1:
            found["target_length"] = config["max_length"] - begun
        tasks = config.get("task_specific_params") or {}
        found["prefixes"] = {name: each["prefix"] for name, each in tasks.items() if each.get("prefix")}
        return WritingSettings(**found)

    def put(self, model: Model) -> Model:
        """The model with these settings in its configuration."""
        model.config["writing"] = asdict(self)
        return model


@dataclass(frozen=True)
class SourceTemplate:
    """The frame of a writer, with the special tokens before and after a source, and the room between them."""

    frame: Frame
    end: int  # the token that ends a text
    before: tuple[int, ...]
    after: tuple[int, ...]
    room: int  # the most tokens of a source, without special ones

    @staticmethod
    def of(model: Model, settings: WritingSettings) -> SourceTemplate:
        """The template of a model with these settings; an error if the model cannot write, or not so long a text."""
        frame = frame_for(model, TRAININGS.get(settings.training))
        if frame.end is None:
            raise MasqueradeError("This model has no end token, so its texts would never end; name its 'eos_token_id'.")
        tokenizer = model.tokenizer
        whole, inside = frame.encode(tokenizer, "a"), tokenizer.encode("a")
        at = next(n for n in range(len(whole)) if whole[n : n + len(inside)] == inside)
        before, after = tuple(whole[:at]), tuple(whole[at + len(inside) :])
        if isinstance(frame, Continue):
            after += tuple(tokenizer.encode(settings.separator)) if settings.separator else ()
        room = _positions(model, frame, settings.target_length) - len(before) - len(after)
        if settings.length:
            room = min(room, settings.length - len(before) - len(after))
        if room < 1:
            raise MasqueradeError(
                f"A text of {settings.target_length} tokens leaves no room for a source in this model's "
                f"{model.spec.longest} positions; ask for shorter texts or longer sources."
            )
        return SourceTemplate(frame, frame.end, before, after, room)

    def enclose(self, ids: Sequence[int]) -> list[int]:
        """The ids of a source between the special tokens."""
        return [*self.before, *(int(number) for number in ids), *self.after]


def _positions(model: Model, frame: Frame, target_length: int) -> int:
    """The most tokens of a source, special ones included, that leave room for a text."""
    spec = model.spec
    if "learned" not in spec.positions:
        return UNBOUNDED
    longest = spec.longest - spec.position_offset
    if isinstance(frame, Decode):
        writer = spec.decoder or spec
        if "learned" in writer.positions and target_length > writer.longest - writer.position_offset:
            raise MasqueradeError(
                f"A text of {target_length} tokens is longer than the decoder, which has "
                f"{writer.longest - writer.position_offset} positions; ask for shorter texts."
            )
        return longest
    return longest - 1 if isinstance(frame, Blank) else longest - target_length
