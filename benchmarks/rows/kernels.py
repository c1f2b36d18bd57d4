"""Where the time of a turn goes on a GPU: kernels by kind, recorded by torch's profiler."""

from collections import Counter
from collections.abc import Iterable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rows.figures import Figures, by_kind

MOST = 40  # kernels listed by name
LATE = 10.0  # us; a longer gap between kernels is more than launch overhead
KINDS = {  # kind -> pattern; the first match counts
    "attention": r"flash|fmha|flex_attention|sdpa|cudnn::fusion",
    "matrix products": r"gemm|gemv|nvjet|cutlass|xmma|splitK|dot_kernel",
    "optimizer": r"multi_tensor|adam|lpnorm",
    "compiled: norms, activations, loss": r"^triton",
    "copies and casts": r"memcpy|memset|copy|CatArray|index|gather|scatter",
    "loss and choice": r"softmax|nll_loss|argmax|cross_entropy|sort|topk|score_row",
    "activations, norms, sums": r"elementwise|layer_norm|rms|reduce|gelu|dropout|fill",
    "all else": "",
}
REST = "no kernel"  # time in which the GPU is idle


class Kernels:
    """Records the kernels of a turn."""

    def __init__(self) -> None:
        here = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU  # whose events are ignored
        self.recorder, self.fault = profile(activities=[here], acc_events=True), ""
        try:
            self.recorder.start()
        except RuntimeError as error:  # the row's figures do not need the profiler
            self.fault = str(error)

    def stop(self, seconds: float) -> Figures:
        """The shares of a turn's time by kind of kernel, and the kernels that took longest.

        Profiling slows each kernel launch, so the idle share is larger than without it.
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
    """The idle time between kernels (us): in short gaps (launch overhead) and long ones (the CPU was late).

    Args:
        spans: start and end of each kernel (us).
    """
    found, last = {"short": 0.0, "long": 0.0}, None
    for began, ended in sorted(spans):
        if last is not None and began > last:
            found["long" if began - last > LATE else "short"] += began - last
        last = ended if last is None else max(last, ended)
    return found
