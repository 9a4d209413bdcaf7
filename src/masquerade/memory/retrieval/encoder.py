"""The encoder: a vector for each text, from any encoder checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from masquerade import kernels
from masquerade.checkpoints.folders import REALM, load, locate
from masquerade.checkpoints.weights import read_weights
from masquerade.errors import MasqueradeError
from masquerade.files import read_json
from masquerade.layout import PADDING, Layout
from masquerade.memory.retrieval.passage_parts import STOPS, clause_ends, part_ends, part_vectors
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.nn.model import Model

NAMED = {  # short names of published encoders: the hub id, and what its own files do not say
    "minilm": ("sentence-transformers/all-MiniLM-L6-v2", {}),
    "e5-small": ("intfloat/e5-small-v2", {"query": "query: ", "passage": "passage: "}),
    "bge-small-zh": ("BAAI/bge-small-zh-v1.5", {"query": "为这个句子生成表示以用于检索相关文章："}),
    "m3e-small": ("moka-ai/m3e-small", {}),
}


class Encoder:
    """A network with a pooling: texts in, vectors out."""

    def __init__(
        self,
        model: Model,
        pooling: Pooling | None = None,
        source: str = "",
        projection: Projection | None = None,
    ) -> None:
        if model.decoder is not None or model.spec.between:
            raise MasqueradeError("Sentence vectors need a plain encoder such as BERT, without a decoder or a fork.")
        self.model, self.pooling, self.source = model.eval(), pooling or Pooling(), source
        self.projection = projection
        room = model.spec.longest - model.spec.position_offset or 512  # relative positions have no end
        self.longest = min(self.pooling.longest or room, room)

    @staticmethod
    def load(source: str | Path, **settings: Any) -> Encoder:
        """An encoder by its folder, hub id or short name (NAMED). ``settings`` (pooling, normalize, longest, query,
        passage) replace those that its files name."""
        name, further = NAMED.get(str(source), (str(source), {}))
        folder = locate(name)
        pooling = replace(Pooling.load(folder if folder.is_dir() else folder.parent), **{**further, **settings})
        named = str(folder) if Path(name).exists() else str(source)
        return Encoder(load(folder), pooling, named, Projection.load(folder))

    @property
    def width(self) -> int:
        """The size of a vector."""
        return self.model.spec.width if self.projection is None else self.projection.dense.out_features

    def fingerprint(self) -> str:
        """A hash of the weights, the vocabulary and the pooling: vectors of equal fingerprints can be compared."""
        chosen = sorted((key, value) for key, value in asdict(self.pooling).items() if value or key != "part")
        made = hashlib.blake2b(repr(chosen).encode(), digest_size=12)
        if self.pooling.part:
            made.update(STOPS.encode())
        made.update(self.model.tokenizer.backend.to_str().encode())
        projected = {} if self.projection is None else self.projection.state_dict(prefix="projection.")
        for name, weight in {**self.model.state_dict(), **projected}.items():
            made.update(name.encode())
            made.update(weight.detach().cpu().contiguous().numpy().data)
        return made.hexdigest()

    def encode_queries(self, texts: Sequence[str]) -> Tensor:
        """The vectors of queries, with their prefix: (n, width)"""
        return self.encode([self.pooling.query + text for text in texts])

    def encode_passages(self, texts: Sequence[str]) -> Tensor:
        """The vectors of passages, with their prefix: (n, width)"""
        return self.encode([self.pooling.passage + text for text in texts])

    @torch.inference_mode()
    def encode_parts(self, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of the parts of each passage, with its prefix: (parts, width) each. There is one part unless the
        pooling says otherwise."""
        if not self.pooling.part:
            return list(self.encode_passages(texts)[:, None])
        pairs = [(self.pooling.passage + text, None) for text in texts]
        encoded = self.model.tokenizer.encode_pairs(pairs, self.longest)
        stops = clause_ends(self.model.tokenizer)
        ends = [part_ends(ids, stops, self.pooling.part) for ids, _ in encoded]
        return [each.cpu() for each in grouped_parts(self.model, encoded, ends, self.pooling)]

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], done: Callable[[int], None] = lambda count: None) -> Tensor:
        """The vectors of texts as they are, on the CPU: (n, width). ``done`` is called with the number of texts
        encoded since the last call."""
        out = torch.zeros(len(texts), self.width)
        encoded = self.model.tokenizer.encode_pairs([(text, None) for text in texts], self.longest)
        for group in by_length([len(ids) for ids, _ in encoded], kernels.batch_tokens(self.model.device)):
            out[torch.tensor(group)] = self._vectors([encoded[index] for index in group])
            done(len(group))
        return out

    def _vectors(self, texts: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """The vectors of a group of texts, given as ids and segments: (n, width)"""
        return self.vectors(text_layout(texts, self.model.spec.pad).to(self.model.device)).float().cpu()

    def vectors(self, layout: Layout) -> Tensor:
        """The vectors of texts that are laid out one a row: (n, longest) → (n, width)"""
        if self.projection is None or self.model.pooler is None:
            return sentence_vectors(self.model, layout, self.pooling)
        out: Tensor = self.projection(self.model.pooler(self.model.hidden(layout, at=layout.first)))
        return out


class Projection(nn.Module):
    """The layer behind REALM's embedders, which makes their vectors narrow."""

    def __init__(self, weights: Mapping[str, Tensor], epsilon: float) -> None:
        super().__init__()
        narrow, wide = weights["cls.dense.weight"].shape
        self.dense, self.norm = nn.Linear(wide, narrow), nn.LayerNorm(narrow, eps=epsilon)
        for part, name in ((self.dense, "cls.dense"), (self.norm, "cls.LayerNorm")):
            part.load_state_dict({kind: weights[f"{name}.{kind}"].float() for kind in ("weight", "bias")})
        self.requires_grad_(False)

    @staticmethod
    def load(folder: Path) -> Projection | None:
        """That of a RealmEmbedder's folder; None for other models."""
        config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        if (config.get("architectures") or [""])[0] != REALM:
            return None
        return Projection(read_weights(folder), float(config.get("layer_norm_eps", 1e-12)))

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) → (n, narrow)"""
        out: Tensor = self.norm(self.dense(x))
        return out


def by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Which texts go through the network together: texts of like lengths, so that there is little padding, of at most
    ``tokens`` tokens in all."""
    group = list[int]()
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if group and lengths[index] * (len(group) + 1) > tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def text_layout(texts: Sequence[tuple[Sequence[int], Sequence[int]]], pad: int) -> Layout:
    """Texts, given as ids and segments, one a row: (n, longest)"""
    shape = len(texts), max(len(ids) for ids, _ in texts)
    ids, segment = torch.full(shape, pad), torch.zeros(shape, dtype=torch.long)
    lengths = torch.tensor([len(each) for each, _ in texts])
    for row, (own, kinds) in enumerate(texts):
        ids[row, : len(own)], segment[row, : len(own)] = torch.tensor(own), torch.tensor(kinds)
    real = torch.arange(shape[1]) < lengths[:, None]
    return Layout.of(ids, segment=segment, document=torch.where(real, 0, PADDING))


def sentence_vectors(model: Model, layout: Layout, pooling: Pooling) -> Tensor:
    """The vectors of texts, one a row, with gradients: (n, longest) → (n, width)"""
    if pooling.pooling == "cls":
        vectors = model.hidden(layout, at=layout.first)
    else:
        states = model.hidden(layout)  # (n, longest, width)
        vectors = (states * layout.real[..., None]).sum(1) / layout.real.sum(1, keepdim=True)
    return normalize(vectors, dim=-1) if pooling.normalize else vectors


def grouped_vectors(model: Model, texts: Sequence[tuple[list[int], list[int]]], pooling: Pooling) -> Tensor:
    """The vectors of texts of different lengths, given as ids and segments, with gradients: (n, width). Texts of like
    lengths go through the network together."""
    return torch.cat(grouped_parts(model, texts, [[len(ids)] for ids, _ in texts], pooling))


def grouped_parts(
    model: Model, texts: Sequence[tuple[list[int], list[int]]], ends: Sequence[Sequence[int]], pooling: Pooling
) -> list[Tensor]:
    """The same for the parts of texts, which end after ``ends`` tokens: (parts, width) for each text"""
    made = [torch.zeros(0)] * len(texts)
    for group in by_length([len(ids) for ids, _ in texts], kernels.batch_tokens(model.device)):
        layout = text_layout([texts[index] for index in group], model.spec.pad).to(model.device)
        own = [ends[index] for index in group]
        whole = all(len(each) == 1 for each in own)
        vectors = (
            sentence_vectors(model, layout, pooling) if whole else part_vectors(model, layout, own, pooling.normalize)
        )
        for index, part in zip(group, torch.split(vectors.float(), [len(each) for each in own]), strict=True):
            made[index] = part
    return made
