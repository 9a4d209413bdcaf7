"""The pipelines ``summarization`` and ``text2text-generation`` that ``transformers`` had, with their arguments and
results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.writing.prompts import Decode
from masquerade.writing.writer import Writer, WrittenText

NAMED = {"summarization": "summary_text", "text2text-generation": "generated_text"}  # task → key of its results
OPTIONS = {  # names there → names here
    "max_new_tokens": "max_new", "min_new_tokens": "min_new", "num_beams": "beams", "length_penalty": "length_penalty",
    "early_stopping": "early_stopping", "no_repeat_ngram_size": "no_repeat", "repetition_penalty": "repetition",
    "num_return_sequences": "n_best", "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "seed": "seed",
    "batch_size": "batch", "prefix": "prefix",
}  # fmt: skip
SAMPLED = ("temperature", "top_k", "top_p", "seed")
IGNORED = ("truncation", "clean_up_tokenization_spaces", "return_text")  # texts are always cut and cleaned


class TextToText:
    """Texts in, dicts with ``summary_text`` or ``generated_text`` out."""

    def __init__(self, task: str, model: str | Path | Model | Writer | None, **options: Any) -> None:
        if task not in NAMED:
            raise MasqueradeError(f"There is no pipeline '{task}' of writers; there is {', '.join(NAMED)}.")
        if model is None:
            raise MasqueradeError(f"The pipeline '{task}' needs a model; give its folder or hub id.")
        self.key, self.options = NAMED[task], options
        if isinstance(model, str | Path):
            self.writer = Writer.load(model)
        else:
            self.writer = Writer(model) if isinstance(model, Model) else model
        self.prefix = self.writer.settings.prefixes.get(task, "")

    def __call__(self, texts: str | Sequence[str], **options: Any) -> list[Any]:
        """A list with a dict for each text; with ``num_return_sequences``, of several texts a list for each."""
        given = [texts] if isinstance(texts, str) else list(texts)
        found = self.writer.write_many(given, **self._settings({**self.options, **options}))
        rows = [[{self.key: each.text} for each in _all(text)] for text in found]
        if isinstance(texts, str):
            return rows[0]
        return [row[0] for row in rows] if all(len(row) == 1 for row in rows) else rows

    def _settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options under the names that a writer has."""
        chosen: dict[str, Any] = {"prefix": self.prefix}
        frame = self.writer.template.frame
        begun = len(frame.start) if isinstance(frame, Decode) else 0
        sampled = bool(options.pop("do_sample", False))
        for name, value in options.items():
            if name in ("max_length", "min_length"):
                chosen[f"{name[:3]}_new"] = max(value - begun, 0)
            elif name in OPTIONS and not (name in SAMPLED and not sampled):
                chosen[OPTIONS[name]] = value
            elif name not in (*IGNORED, *SAMPLED):
                known = ", ".join(["max_length", "min_length", "do_sample", *OPTIONS])
                raise MasqueradeError(f"There is no option '{name}' of this pipeline; there are {known}.")
        if sampled:
            chosen["method"] = "sample"
        elif chosen.get("beams") == 1 and chosen.get("n_best", 1) == 1:
            chosen["method"] = "greedy"
            for name in ("beams", "length_penalty", "early_stopping"):
                chosen.pop(name, None)
        return chosen


def _all(text: WrittenText) -> list[WrittenText]:
    return [text, *text.alternatives]
