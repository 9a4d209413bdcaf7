"""``masquerade.pipeline``: the calls that ``transformers`` had and dropped, with their arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from masquerade.errors import MasqueradeError

if TYPE_CHECKING:
    from masquerade.reading.pipeline import QuestionAnswering
    from masquerade.writing.pipeline import TextToText

TASKS = ("question-answering", "summarization", "text2text-generation")


def pipeline(task: str, model: Any = None, **options: Any) -> QuestionAnswering | TextToText:
    """A callable for a task: ``question-answering``, ``summarization`` or ``text2text-generation``.

    ``model`` is a folder, a hub id or a model; for questions it may be left out. ``options`` are defaults for the
    calls.
    """
    if task not in TASKS:
        raise MasqueradeError(f"There is no pipeline '{task}' here; there is {', '.join(TASKS)}.")
    if task == "question-answering":
        from masquerade.reading.pipeline import QuestionAnswering

        return QuestionAnswering(model, **options)
    from masquerade.writing.pipeline import TextToText

    return TextToText(task, model, **options)
