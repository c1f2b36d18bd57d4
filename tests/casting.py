"""How often weights are cast."""

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Casts(TorchDispatchMode):
    """Counts by name how often a parameter becomes another dtype."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {parameter.data_ptr(): name for name, parameter in model.named_parameters()}
        self.counts = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default and (name := self.names.get(args[0].data_ptr())):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))
