"""ELMo's features: the states of a forward and a backward LSTM language model, mixed by learned weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from masquerade.errors import MasqueradeError
from masquerade.layout import Layout
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.documents import documents
from masquerade.nn.model import Model
from masquerade.nn.recurrent import RecurrentStack
from masquerade.nn.spec import Spec

KIND = "elmo"


class LanguageModelFeatures(Between):
    """Adds features to the token embeddings. A feature is the mean of the layers of two language models, with weights
    that add up to 1, times a scale; a linear map makes it as wide as the network. Layer 0 is the token embedding twice,
    layer j the states of both models' j-th LSTM. The language models are not trained any more; the weights, the scale
    and the map are."""

    def __init__(self, spec: Spec, layer: int, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(spec.vocab, width)
        self.ahead = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.back = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        for part in (self.words, self.ahead, self.back):
            part.requires_grad_(False)
        self.shares = nn.Parameter(torch.zeros(layers + 1))
        self.scale = nn.Parameter(torch.ones(()))
        self.map = nn.Linear(2 * width, spec.width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → the same shape"""
        mixed = (self.layers(flow.layout) * self.shares.softmax(0)[:, None, None, None]).sum(0) * self.scale
        return replace(flow, states=flow.states + self.map(self.dropout(mixed)))

    @torch.no_grad()
    def layers(self, layout: Layout) -> Tensor:
        """All layers of both models: (layers + 1, rows, n, 2 · width); zeros at padding"""
        found = documents(layout)
        x = found.gather(self.words(layout.ids))  # (documents, longest, width)
        place = torch.arange(x.shape[1], device=x.device)
        turned = torch.where(found.there, found.lengths[:, None] - 1 - place, place)  # each document reversed
        index = turned[..., None].expand_as(x)
        ahead, back, kept = x, x.gather(1, index), [torch.cat([x, x], -1)]
        for one, other in zip(self.ahead, self.back, strict=True):
            ahead, back = one(ahead)[0], other(back)[0]
            kept.append(torch.cat([ahead, back.gather(1, index)], -1))
        return torch.stack([found.scatter(each, layout.shape) for each in kept])

    def copy_from(self, ahead: Model, back: Model) -> None:
        """Take the weights of two language models of this size."""
        self.words.load_state_dict(ahead.words.table.state_dict())
        for own, stack in ((self.ahead, ahead.stack), (self.back, back.stack)):
            if not isinstance(stack, RecurrentStack) or not isinstance(stack.cells, nn.LSTM):
                raise MasqueradeError("ELMo's language models are LSTMs; pretrain them with objective=elmo.")
            weights = stack.cells.state_dict()
            for number, cells in enumerate(own):
                names = cells.state_dict()
                cells.load_state_dict({name: weights[name.replace("_l0", f"_l{number}")] for name in names})


def with_features(model: Model, ahead: Model, back: Model) -> Model:
    """A network that also reads the features of two language models of the same vocabulary, before its first layer."""
    if model.spec.vocab != ahead.spec.vocab:
        raise MasqueradeError(
            f"The features are of {ahead.spec.vocab:,} tokens, but the network has {model.spec.vocab:,}; both need the "
            "same vocabulary."
        )
    if ahead.spec.recurrent != "lstm" or ahead.spec.positions or ahead.spec.segments or ahead.spec.embedding_norm:
        raise MasqueradeError(
            "Features come from LSTMs over plain token embeddings; pretrain them with objective=elmo."
        )
    if model.spec.recurrent or model.spec.decoder is not None or 0 in model.spec.between:
        raise MasqueradeError("Features go before the first layer of a plain stack of attention layers.")
    options = {"width": ahead.spec.width, "layers": ahead.spec.layers}
    spec = replace(model.spec, between={**model.spec.between, 0: (KIND, options)})
    made = Model(spec, model.tokenizer if model.has_tokenizer else None, model.config)
    made.load_state_dict(made.state_dict() | model.state_dict())
    for part in made.modules():
        if isinstance(part, LanguageModelFeatures):
            part.copy_from(ahead, back)
    return made.to(model.device)


register(KIND, LanguageModelFeatures)
