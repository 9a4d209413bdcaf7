"""Networks without random weights, for checkpoints that overwrite every weight anyway."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

RANDOM = {nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.kaiming_uniform_, nn.init.xavier_uniform_}


class NoInit(TorchFunctionMode):
    """A context in which new weights are not initialised. Random numbers for 23 million weights take longer than
    reading them from a file."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
