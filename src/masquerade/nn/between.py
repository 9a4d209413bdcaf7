"""Parts that run between two layers of a stack: a fork, an entity memory, the pruning of passages.

A ``Spec`` names them by layer: ``between={4: ("fork", {})}`` runs a fork before layer 4. Layer n of n layers, counted
from 0, means after the last one. The stack passes a ``Flow`` through them and knows nothing of what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module

from torch import Tensor, nn

from masquerade.errors import LayoutError, SpecError
from masquerade.layout import Layout, visible
from masquerade.masks import forked, opened
from masquerade.nn.blocks import BlockScorer, block_numbers
from masquerade.nn.spec import Spec


@dataclass(frozen=True)
class Flow:
    """What goes through a stack, and what comes out of it."""

    states: Tensor  # (rows, n, width); (m, width) at the end of a pass that asks for m tokens alone
    layout: Layout  # (rows, n), of these states
    keys: Layout  # (rows, k), all tokens that the layers see: those of a cache, then the layout's own
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # extra inputs by name, of the layout that went in
    outputs: dict[str, Tensor] = field(default_factory=dict)  # extra outputs by name
    cached: bool = False  # whether a cache keeps this pass; rows and tokens must then stay where they are


class Between(nn.Module):
    """A part that runs before a layer of the stack. It is given a Flow and returns one; states, layout and keys may
    change together, and extra results go to ``outputs``."""

    moves_tokens = False  # whether tokens change their places, so that the caller cannot name them beforehand

    def forward(self, flow: Flow) -> Flow:
        """The flow with which the next layer goes on."""
        raise NotImplementedError


Maker = Callable[..., Between]  # called with the spec, the layer, and the options as keywords

_MAKERS: dict[str, Maker] = {}
_HOMES = {  # modules that register the kinds of later stages, imported when a spec names one
    "elmo": "masquerade.nn.features",
    "knowbert": "masquerade.memory.entity.knowbert",
    "entities": "masquerade.memory.entity.experts",
    "facts": "masquerade.memory.entity.facts",
    "graph": "masquerade.memory.working.graph_network",
    "sentences": "masquerade.memory.working.sentence_numbers",
}


def register(kind: str, make: Maker) -> None:
    """Make a kind of part known: ``make(spec, layer, **options)`` builds one for a spec that names the kind."""
    if _MAKERS.setdefault(kind, make) is not make:
        raise SpecError(f"The kind '{kind}' of parts between layers is registered twice; choose another name.")


def make_between(spec: Spec) -> nn.ModuleDict:
    """The parts that a spec names, by the layer before which they run."""
    parts = nn.ModuleDict()
    for layer, (kind, options) in spec.between.items():
        if kind not in _MAKERS and kind in _HOMES:
            import_module(_HOMES[kind])
        if kind not in _MAKERS:
            known = ", ".join(sorted({*_MAKERS, *_HOMES}))
            raise SpecError(
                f"There is no part '{kind}' to run before layer {layer}; known are {known}. "
                "Import the module that registers it first."
            )
        try:
            parts[str(layer)] = _MAKERS[kind](spec, layer, **options)
        except TypeError as error:
            raise SpecError(f"The options {dict(options)} do not fit the part '{kind}': {error}.") from error
    return parts


class Fork(Between):
    """A passage is shared by its questions up to here; then every question gets a row with its own copy of the
    passage, which sees the question from here on. With a cache a row has one question, so no row is copied.

    With ``block``, every block of that many tokens of the passage is scored against the question: ``outputs["blocks"]``
    (branches, blocks), so that a reader can leave out the tokens of all others (``masquerade.reading.blocks``)."""

    moves_tokens = True

    def __init__(self, spec: Spec, layer: int, block: int = 0) -> None:
        super().__init__()
        self.last = layer == len(spec.order)
        self.blocks = BlockScorer(spec, block) if block else None

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → (branches, longest, width), with the layout that ``forked`` makes."""
        if not flow.cached:
            layout, index = forked(flow.layout)
            if index is None:
                return replace(flow, layout=layout, keys=layout)
            states, outputs = flow.states.flatten(0, 1)[index], flow.outputs
            if self.blocks is not None:
                passage = (flow.layout.batched().branch.flatten()[index] == 0) & layout.real
                numbers = block_numbers(layout.position, passage, self.blocks.block)
                outputs = {**outputs, "blocks": self.blocks(states, numbers)}
            return replace(flow, states=states, layout=layout, keys=layout, outputs=outputs)
        if self.last:  # no layer follows, so a passage need not see its question
            return flow
        new, keys = opened(flow.layout), opened(flow.keys)
        old = keys[: len(keys) - len(new)]
        if bool((flow.keys.branch > 1).any()) or bool(visible(old, new).any()):
            raise LayoutError(
                "A passage that is no longer shared sees its question, so a cache of all layers begins with both, "
                "a question a row; or keep only the layers through which the passage is shared."
            )
        return replace(flow, layout=new, keys=keys)


register("fork", Fork)
