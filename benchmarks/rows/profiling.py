"""Where the time of a side goes on a CPU: its operators by kind, each timed by itself.

torch's profiler would tell more, but its records are allocated between large tensors and keep glibc from reusing their
memory: a step of BERT takes 3.2 s under it instead of 2.0, mostly page faults in operators that allocate.
"""

import json
import os
import time
from collections import defaultdict
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from rows.figures import by_kind
from rows.turns import Turn

WARM, TIMED, CLOCKED = 3, 3, 3  # units of work: warm-up, timed as a whole, timed per operator
KINDS = {  # kind -> pattern; the first match counts
    "attention": r"scaled_dot_product|flash_attn|flex_attention",
    "matrix products": r"aten::(add)?b?add?b?mm|aten::b?mm|mkldnn::_linear_pointwise",
    "copies and casts": r"copy_|_to_copy|clone|aten::cat|index_select|gather|contiguous",
    "softmax, loss, choice": r"softmax|exp_|topk|argmax|sort",
    "optimizer": r"adam|_foreach|linalg_vector_norm",
    "activations, norms, dropout": r"gelu|relu|silu|tanh|layer_norm|rsqrt|random_|bernoulli|dropout",
}
REST = "all else"  # small operators, and Python


class Clock(TorchDispatchMode):
    """Sums the seconds of each operator by name."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.perf_counter()
        said = func(*args, **(kwargs or {}))
        self.seconds[func._schema.name] += time.perf_counter() - began
        return said


class ProfiledTurn(Turn):
    """A turn without a program: after a few units it prints the operators' shares of the time as JSON, and exits.

    The fastest unit of each kind counts, since other programs may take the machine for a moment: a slow unit's
    operators, divided by a fast unit's time, would add up to more than 100 %.
    """

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.clock, self.began = Clock(), 0.0
        self.timed: list[float] = []
        self.clocked: list[dict[str, float]] = []

    def done(self, units: float, **more: float) -> None:
        self.calls += 1
        if WARM < self.calls <= WARM + TIMED:
            self.timed.append(time.perf_counter() - self.began)
        if self.calls == WARM + TIMED:
            self.clock.__enter__()
        elif self.calls > WARM + TIMED:
            self.clocked.append(dict(self.clock.seconds))
            self.clock.seconds.clear()
        if len(self.clocked) == CLOCKED:
            fastest = min(self.clocked, key=lambda seconds: sum(seconds.values()))
            shares = {name: seconds / min(self.timed) for name, seconds in fastest.items()}
            print(json.dumps(by_kind(shares, KINDS, REST)), flush=True)
            os._exit(0)
        self.began = time.perf_counter()
