"""Where the time of a turn goes on a GPU: its kernels by kind, as torch's profiler records them there."""

from collections import Counter
from collections.abc import Iterable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rows.figures import Figures, by_kind

MOST = 40  # kernels that are named
LATE = 10.0  # us: a longer gap is no mere start of a kernel
KINDS = {  # the first that matches
    "attention": r"flash|fmha|flex_attention|sdpa|cudnn::fusion",
    "matrix products": r"gemm|gemv|nvjet|cutlass|xmma|splitK|dot_kernel",
    "optimizer": r"multi_tensor|adam|lpnorm",
    "compiled: norms, activations, loss": r"^triton",
    "copies and casts": r"memcpy|memset|copy|CatArray|index|gather|scatter",
    "loss and choice": r"softmax|nll_loss|argmax|cross_entropy|sort|topk|score_row",
    "activations, norms, sums": r"elementwise|layer_norm|rms|reduce|gelu|dropout|fill",
    "all else": "",
}
REST = "no kernel"  # in which the GPU waits


class Kernels:
    """Records the kernels of a turn."""

    def __init__(self) -> None:
        here = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU  # whose operators are none
        self.recorder, self.fault = profile(activities=[here], acc_events=True), ""
        try:
            self.recorder.start()
        except RuntimeError as error:  # without it the row's figures are as right
            self.fault = str(error)

    def stop(self, seconds: float) -> Figures:
        """What the seconds of the turn were spent on: shares by kind, and the kernels that took longest.

        The recorder makes each start of a kernel slower, so the share without one is more than it is otherwise.
        """
        if not self.fault:
            self.recorder.stop()
        spent: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        spans = []
        for event in () if self.fault else self.recorder.events() or ():
            if event.device_type == DeviceType.CUDA:
                spans.append((event.time_range.start, event.time_range.end))
                spent[event.name] += event.time_range.elapsed_us() / 1e6 / seconds
                counts[event.name] += 1
        if not spans:
            return {"kinds": {}, "fault": self.fault or "no kernel was recorded"}
        longest = [f"{share:.2%}, {counts[name]:,} times: {name[:200]}" for name, share in spent.most_common(MOST)]
        told = {"kinds": by_kind(spent, KINDS, REST), "kernels": sum(counts.values()), "longest": longest}
        return {**told, "waits": {name: f"{us / 1e6 / seconds:.1%}" for name, us in waits(spans).items()}}


def waits(spans: Iterable[tuple[float, float]]) -> dict[str, float]:
    """How long (us) nothing ran between kernels: in short gaps, as between any two, and in long ones: the CPU was late.

    Args:
        spans: when each kernel began and ended (us).
    """
    found, last = {"short": 0.0, "long": 0.0}, None
    for began, ended in sorted(spans):
        if last is not None and began > last:
            found["long" if began - last > LATE else "short"] += began - last
        last = ended if last is None else max(last, ended)
    return found
