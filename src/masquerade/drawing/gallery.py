"""An example of every mask, for ``masquerade draw``."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from masquerade import masks
from masquerade.drawing.pictures import Picture, save, terminal
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import Kind, Layout, visible
from masquerade.text.chinese import is_wide


@dataclass
class ExampleVocabulary:
    """The tokens of the example texts, numbered in the order of their occurrence."""

    known: list[str] = field(default_factory=lambda: ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[START]", "[MEMORY]"])

    def ids(self, text: str) -> list[int]:
        """The ids of a text: Chinese characters, words of other scripts, punctuation and [SPECIAL] tokens."""
        found = re.findall(r"\[[A-Z]+\]|[^\W_]+|\S", text)
        tokens = [part for word in found for part in (word if any(map(is_wide, word)) else [word])]
        return [self.id(token) for token in tokens]

    def id(self, token: str) -> int:
        """The id of a token, which is added if it is new."""
        if token not in self.known:
            self.known.append(token)
        return self.known.index(token)


Parts = list[list[int]]  # the ids of each part of a text
PAD, CLS, SEP, MASK, START, MEMORY = range(6)


def _shuffled(n: int) -> list[int]:
    return random.Random(4).sample(range(n), n)


def _infill(ids: list[int]) -> Layout:
    """The infill mask with two blanks, the second filled first."""
    if len(ids) < 4:
        return masks.infill([*ids[:-1], MASK], [(len(ids) - 1, [START, ids[-1]])])
    third = len(ids) // 3
    first, second = ids[1 : 1 + third], ids[-third:]
    context = [ids[0], MASK, *ids[1 + third : -third], MASK]
    return masks.infill(context, [(len(context) - 1, [START, *second]), (1, [START, *first])])


def _pseudo(ids: list[int]) -> Layout:
    chosen = _shuffled(len(ids))[: max(2, len(ids) // 2)]
    return masks.pseudo(ids, [sorted(chosen[: len(chosen) // 2]), sorted(chosen[len(chosen) // 2 :])], mask=MASK)


SPECIAL = {"cls": CLS, "sep": SEP, "mask": MASK}

SENTENCE, PAIR = "the cat sat on the mat", "the cat sat | on the mat"
EXAMPLES: dict[str, tuple[str, int, Callable[[Parts], Layout]]] = {  # name → default text, least parts, its layout
    "bidirectional": (SENTENCE, 1, lambda parts: masks.bidirectional(parts[0])),
    "causal": (SENTENCE, 1, lambda parts: masks.causal(parts[0])),
    "backward": (SENTENCE, 1, lambda parts: masks.backward(parts[0])),
    "permuted": (SENTENCE, 1, lambda parts: masks.permuted(parts[0], _shuffled(len(parts[0])))),
    "prefix": (PAIR, 2, lambda parts: masks.prefix(parts[0], parts[1])),
    "infill": ("the cat sat on the warm mat .", 1, lambda parts: _infill(parts[0])),
    "two_stream": (SENTENCE, 1, lambda parts: masks.two_stream(parts[0], _shuffled(len(parts[0])), mask=MASK)),
    "compensated": (
        SENTENCE,
        1,
        lambda parts: masks.compensated(parts[0], _shuffled(len(parts[0])), known=len(parts[0]) // 2, mask=MASK),
    ),
    "pseudo": (SENTENCE, 1, lambda parts: _pseudo(parts[0])),
    "blocks": (SENTENCE, 1, lambda parts: masks.blocks(parts[0], 2, noisy=[MASK] * len(parts[0]))),
    "masked_answer": (
        "who sat ? | the cat sat on the mat",
        2,
        lambda parts: masks.masked_answer(parts[0], parts[1], 2, **SPECIAL),
    ),
    "shared_passage": (
        "the cat sat on the mat | who sat ? | where ?",
        2,
        lambda parts: masks.shared_passage(parts[0], parts[1:], 2, start=None, apart=False, **SPECIAL),
    ),
    "pack": ("the cat sat | on | the mat", 2, lambda parts: masks.pack([masks.bidirectional(part) for part in parts])),
    "window": (SENTENCE, 1, lambda parts: masks.window(masks.bidirectional(parts[0]), 1)),
    "with_memory": (SENTENCE, 1, lambda parts: masks.with_memory(masks.causal(parts[0]), 3, ids=[MEMORY] * 3)),
}


ANY_NUMBER = ("shared_passage", "pack")  # masks whose text may have more parts than the least


def picture(name: str, text: str | None = None) -> Picture:
    """The picture of a mask over a text; parts of a text are separated by ``|``."""
    if name not in EXAMPLES:
        raise LayoutError(f"There is no mask '{name}'; there are {', '.join(EXAMPLES)}.")
    usual, least, lay_out = EXAMPLES[name]
    words = ExampleVocabulary()
    parts = [words.ids(part) for part in (usual if text is None else text).split("|")]
    more = name in ANY_NUMBER
    if len(parts) < least or (len(parts) > least and not more) or not all(parts):
        raise LayoutError(
            f"The mask '{name}' needs a text of {least} part{'s' if least > 1 else ''}{' or more' * more}"
            + (f", with | between them, like '{usual}'." if least > 1 else f", like '{usual}'.")
        )
    layout = lay_out(parts)
    tokens = [words.known[number] for number in layout.ids.tolist()]
    kinds = [Kind(kind).name.lower() for kind in layout.kind.tolist()]
    about = " ".join((getattr(masks, name).__doc__ or "").split("\n\n")[0].replace("``", "").split())
    return Picture(
        title=name,
        seen=visible(layout).tolist(),
        rows=tokens,
        columns=tokens,
        row_kinds=kinds,
        column_kinds=kinds,
        caption=about,
    )


def show(name: str | None, text: str | None, out: Path | None, every: bool) -> None:
    """Print or save the picture of a mask, or of every mask."""
    if name is None and not every:
        raise MasqueradeError(f"Name a mask to draw, or --all of them: {', '.join(EXAMPLES)}.")
    if every and (name is not None or text is not None):
        raise MasqueradeError("--all draws every mask over its own example; leave out the name and --text, or --all.")
    if every and out is not None and out.suffix:
        raise MasqueradeError(f"--all draws many files, so --out has to be a folder, not the file '{out}'.")
    console = Console(highlight=False)
    for each in EXAMPLES if every else [str(name)]:
        drawn = picture(each, text)
        if out is None:
            console.print(terminal(drawn, colour=console.is_terminal))
            continue
        for path in [out / f"{each}.svg", out / f"{each}.png"] if every else [out]:
            save(drawn, path)
            console.print(Text(f"drawn: {path}"))
