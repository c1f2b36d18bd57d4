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

from rows.figures import shares_by_kind
from rows.side_process import TurnReporter

WARM_UP_UNITS, TIMED_UNITS, PROFILED_UNITS = 3, 3, 3  # units of work: warm-up, timed as a whole, timed per operator
OPERATOR_KINDS = {  # kind -> pattern; the first match counts
    "attention": r"scaled_dot_product|flash_attn|flex_attention",
    "matrix products": r"aten::(add)?b?add?b?mm|aten::b?mm|mkldnn::_linear_pointwise",
    "copies and casts": r"copy_|_to_copy|clone|aten::cat|index_select|gather|contiguous",
    "softmax, loss, choice": r"softmax|exp_|topk|argmax|sort",
    "optimizer": r"adam|_foreach|linalg_vector_norm",
    "activations, norms, dropout": r"gelu|relu|silu|tanh|layer_norm|rsqrt|random_|bernoulli|dropout",
}
OTHER = "all else"  # small operators, and Python


class OperatorTimer(TorchDispatchMode):
    """Sums the seconds of each operator by name."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.perf_counter()
        output = func(*args, **(kwargs or {}))
        self.seconds[func._schema.name] += time.perf_counter() - began
        return output


class ProfilingReporter(TurnReporter):
    """A reporter without a program: after a few units it prints the operators' shares of the time as JSON, and exits.

    The fastest unit of each kind counts, since other programs may take the machine for a moment: a slow unit's
    operators, divided by a fast unit's time, would add up to more than 100 %.
    """

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.timer, self.began = OperatorTimer(), 0.0
        self.unit_seconds: list[float] = []
        self.operator_seconds: list[dict[str, float]] = []

    def report(self, units: float, **figures: float) -> None:
        self.calls += 1
        if WARM_UP_UNITS < self.calls <= WARM_UP_UNITS + TIMED_UNITS:
            self.unit_seconds.append(time.perf_counter() - self.began)
        if self.calls == WARM_UP_UNITS + TIMED_UNITS:
            self.timer.__enter__()
        elif self.calls > WARM_UP_UNITS + TIMED_UNITS:
            self.operator_seconds.append(dict(self.timer.seconds))
            self.timer.seconds.clear()
        if len(self.operator_seconds) == PROFILED_UNITS:
            fastest = min(self.operator_seconds, key=lambda seconds: sum(seconds.values()))
            shares = {name: seconds / min(self.unit_seconds) for name, seconds in fastest.items()}
            print(json.dumps(shares_by_kind(shares, OPERATOR_KINDS, OTHER)), flush=True)
            os._exit(0)
        self.began = time.perf_counter()
