"""Where the time of a side goes: its operators by kind, as torch's profiler counts them."""

import json
import os
import re
import time
from typing import Any

from torch.profiler import ProfilerActivity, profile

from rows.turns import Turn

WARM, PROFILED = 2, 2  # units of work
KINDS = {  # the first that matches
    "attention": r"scaled_dot_product|flash_attn|flex_attention",
    "matrix products": r"aten::(add)?b?add?b?mm|aten::b?mm|mkldnn::_linear_pointwise",
    "copies and casts": r"copy_|_to_copy|clone|aten::cat|index_select|gather|contiguous",
    "softmax, loss, choice": r"softmax|exp_|topk|argmax|sort",
    "optimizer": r"adam|_foreach|linalg_vector_norm",
    "activations, norms, dropout": r"gelu|relu|silu|tanh|layer_norm|rsqrt|random_|bernoulli|dropout",
}


class ProfiledTurn(Turn):
    """A turn that nobody asks for: after a few units it prints the shares of their time, as JSON, and ends."""

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.profile = profile(activities=[ProfilerActivity.CPU])
        self.started = 0.0

    def done(self, units: float, **more: float) -> None:
        self.calls += 1
        if self.calls == WARM:
            self.profile.start()
            self.started = time.perf_counter()
        if self.calls == WARM + PROFILED:
            seconds = time.perf_counter() - self.started
            self.profile.stop()
            print(json.dumps(shares_of(self.profile.key_averages(), seconds)), flush=True)
            os._exit(0)


def shares_of(events: Any, seconds: float) -> dict[str, str]:
    """The share of the time that each kind of operator takes; what is left is small operators and Python."""
    found = dict.fromkeys(KINDS, 0.0)
    for event in events:
        kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, event.key)), None)
        if kind is not None:
            found[kind] += event.self_cpu_time_total / 1e6 / seconds
    found["all else"] = 1 - sum(found.values())
    return {kind: f"{share:.0%}" for kind, share in found.items() if share >= 0.005}
