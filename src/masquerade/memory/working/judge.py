"""The judge of CogLTX: a network that scores how relevant each token of a window is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.checkpoints.folders import load, locate
from masquerade.errors import MasqueradeError
from masquerade.labelling.predict import predict
from masquerade.layout import Layout
from masquerade.masks import bidirectional
from masquerade.memory.working.networks import on_encoder
from masquerade.memory.working.recall import Ids
from masquerade.nn.model import Model
from masquerade.progress import progress_bar

HEAD = "detect"  # two dense layers and one score a token
FOLDER = "judge"  # where a run keeps its judge, inside the folder of its task model
LONG = 24  # windows; with at least this many, judging them takes long enough for a progress bar
QUERY = 64  # tokens of a query at most; longer ones are cut


class Judge:
    """A model with a head of one score a token, and the windows that it reads: [CLS] query [SEP] block [SEP] … With
    ``progress``, it shows how many of many windows are judged."""

    def __init__(self, model: Model, progress: bool = False) -> None:
        if HEAD not in model.spec.all_heads:
            raise MasqueradeError("This model scores no tokens, so it is no judge; train one with 'train cogltx'.")
        self.model, self.tokenizer, self.progress = model, model.tokenizer, progress
        self.cls, self.sep = (model.tokenizer.special(role) for role in ("cls", "sep"))
        longest = model.spec.longest - model.spec.position_offset
        self.window = min(longest, int(model.config.get("judge_window", longest)))

    @staticmethod
    def load(source: str | Path) -> Judge:
        """The judge in a folder, or the one beside the task model of a run."""
        folder = locate(str(source))
        return Judge(load(folder / FOLDER if (folder / FOLDER / "config.json").is_file() else folder))

    def query(self, text: str = "") -> tuple[int, ...]:
        """The ids of a query, long ones cut to a third of the window; without a text, the special tokens alone."""
        ids = self.tokenizer.encode_places([text])[0][0] if text else []
        return (self.cls, *ids[: min(QUERY, self.window // 3)], self.sep)

    def closed(self, ids: Ids) -> tuple[int, ...]:
        """A block with its separator."""
        return (*ids, self.sep)

    def __call__(self, windows: Sequence[Sequence[Ids]]) -> list[Tensor]:
        """The probability of each token of each window to be relevant, (n,) each."""
        layouts = [window_layout(self.model, blocks) for blocks in windows]
        together = max(1, kernels.batch_tokens(self.model.device) // self.window)  # windows
        with progress_bar("windows judged", len(layouts), shown=self.progress and len(layouts) >= LONG) as done:
            scores = list[Tensor]()
            for start in range(0, len(layouts), together):
                scores += predict(self.model, layouts[start : start + together], HEAD, done)
        return [torch.sigmoid(each[:, 0]) for each in scores]


def window_layout(model: Model, blocks: Sequence[Ids]) -> Layout:
    """The layout of a query and the blocks behind it, (n,): the query is segment 0, blocks are segment 1 where the
    network has one."""
    ids = [number for block in blocks for number in block]
    second = int(model.spec.segments > 1)
    segments = [0] * len(blocks[0]) + [second] * (len(ids) - len(blocks[0]))
    return bidirectional(ids).replace(segment=segments)


def new_judge(model: Model, window: int = 0, layers: int = 0) -> Model:
    """A network with a fresh head for token scores on the first ``layers`` layers of an encoder, 0: on all; ``window``
    is the length it is trained with."""
    had = model.spec.layers
    if not 0 <= layers <= had:
        raise MasqueradeError(f"A judge has 1 to {had} layers of this encoder, or 0 for all, not {layers}.")
    made = on_encoder(model, (HEAD,), layers=layers or had)
    made.config = {"judge_window": window} if window else {}
    return made
