"""The judge of CogLTX: a network that scores how relevant each token of a window is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load, locate
from masquerade.errors import MasqueradeError
from masquerade.labelling.predict import predict
from masquerade.layout import Layout
from masquerade.masks import bidirectional
from masquerade.memory.working.networks import on_encoder
from masquerade.memory.working.recall import Ids
from masquerade.nn.model import Model

HEAD = "detect"  # two dense layers and one score a token
FOLDER = "judge"  # where a run keeps its judge, inside the folder of its task model
QUERY = 64  # tokens of a query at most; longer ones are cut


class Judge:
    """A model with a head of one score a token, and the windows that it reads: [CLS] query [SEP] block [SEP] …"""

    def __init__(self, model: Model) -> None:
        if HEAD not in model.spec.all_heads:
            raise MasqueradeError("This model scores no tokens, so it is no judge; train one with 'train cogltx'.")
        self.model, self.tokenizer = model, model.tokenizer
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
        return [torch.sigmoid(scores[:, 0]) for scores in predict(self.model, layouts, HEAD)]


def window_layout(model: Model, blocks: Sequence[Ids]) -> Layout:
    """The layout of a query and the blocks behind it, (n,): the query is segment 0, blocks are segment 1 where the
    network has one."""
    ids = [number for block in blocks for number in block]
    second = int(model.spec.segments > 1)
    segments = [0] * len(blocks[0]) + [second] * (len(ids) - len(blocks[0]))
    return bidirectional(ids).replace(segment=segments)


def new_judge(model: Model, window: int = 0) -> Model:
    """A network with a fresh head for token scores on an encoder; ``window`` is the length it is trained with."""
    made = on_encoder(model, (HEAD,))
    made.config = {"judge_window": window} if window else {}
    return made
