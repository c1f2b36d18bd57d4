"""Where the time of a turn goes on a GPU: kernels by kind, recorded by torch's profiler."""

from collections import Counter
from collections.abc import Iterable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rows.figures import Figures, shares_by_kind

LISTED = 40  # kernels listed by name
LONG_GAP = 10.0  # us; a longer gap between kernels is more than launch overhead
KERNEL_KINDS = {  # kind -> pattern; the first match counts
    "attention": r"flash|fmha|flex_attention|sdpa|cudnn::fusion",
    "matrix products": r"gemm|gemv|nvjet|cutlass|xmma|splitK|dot_kernel",
    "optimizer": r"multi_tensor|adam|lpnorm",
    "compiled: norms, activations, loss": r"^triton",
    "copies and casts": r"memcpy|memset|copy|CatArray|index|gather|scatter",
    "loss and choice": r"softmax|nll_loss|argmax|cross_entropy|sort|topk|score_row",
    "activations, norms, sums": r"elementwise|layer_norm|rms|reduce|gelu|dropout|fill",
    "all else": "",
}
IDLE = "no kernel"  # time in which the GPU is idle


class KernelRecorder:
    """Records the kernels of a turn."""

    def __init__(self) -> None:
        # without a GPU the profiler records the CPU's events, which `stop` ignores
        activity = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
        self.profiler, self.error = profile(activities=[activity], acc_events=True), ""
        try:
            self.profiler.start()
        except RuntimeError as error:  # the row's figures do not need the profiler
            self.error = str(error)

    def stop(self, seconds: float) -> Figures:
        """Stop recording; returns the shares of a turn's time by kind of kernel, and the kernels that took longest.

        Profiling slows each kernel launch, so the idle share is larger than without it.
        """
        if not self.error:
            self.profiler.stop()
        shares: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        spans = []
        for event in () if self.error else self.profiler.events() or ():
            if event.device_type == DeviceType.CUDA:
                spans.append((event.time_range.start, event.time_range.end))
                shares[event.name] += event.time_range.elapsed_us() / 1e6 / seconds
                counts[event.name] += 1
        if not spans:
            return {"kinds": {}, "fault": self.error or "no kernel was recorded"}
        longest = [f"{share:.2%}, {counts[name]:,} times: {name[:200]}" for name, share in shares.most_common(LISTED)]
        found = {"kinds": shares_by_kind(shares, KERNEL_KINDS, IDLE), "kernels": sum(counts.values())}
        waits = {name: f"{us / 1e6 / seconds:.1%}" for name, us in idle_time(spans).items()}
        return {**found, "longest": longest, "waits": waits}


def idle_time(spans: Iterable[tuple[float, float]]) -> dict[str, float]:
    """The idle time between kernels (us): in short gaps (launch overhead) and long ones (the CPU was late).

    Args:
        spans: start and end of each kernel (us).
    """
    gaps, last = {"short": 0.0, "long": 0.0}, None
    for began, ended in sorted(spans):
        if last is not None and began > last:
            gaps["long" if began - last > LONG_GAP else "short"] += began - last
        last = ended if last is None else max(last, ended)
    return gaps
