"""What a caller of the library may have set for all of torch, and what zoo computes alike whatever it is."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def ordinary_tensors() -> Iterator[None]:
    """Within it, a tensor lies on the CPU unless its maker says otherwise, and may be trained and written to.

    A notebook may have called `torch.set_default_device`, where small tensors are built on the CPU and sent from pinned
    memory; and weights that are loaded under `torch.inference_mode` count no changes, so that no copy of them is kept.
    """
    with ExitStack() as stack:
        if torch.get_default_device().type != "cpu":  # a mode costs something with every call of torch
            stack.enter_context(torch.device("cpu"))
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        yield
