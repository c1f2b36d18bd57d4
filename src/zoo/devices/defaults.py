"""What a caller of the library may have set for all of torch, and what zoo computes alike whatever it is."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

BACKENDS = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
HIGHEST = "highest"  # torch's word for float32 that keeps all bits
UNROUNDED = ("ieee", "none")  # how a backend multiplies float32; none: as torch does by default


@contextmanager
def ordinary_tensors() -> Iterator[None]:
    """Within it, a tensor lies on the CPU unless its maker says otherwise, may be trained and written to, and is not
    rounded in products of float32.

    A notebook may have called `torch.set_default_device`, where small tensors are built on the CPU and sent from pinned
    memory; and weights that are loaded under `torch.inference_mode` count no changes, so that no copy of them is kept.
    """
    with ExitStack() as stack:
        if torch.get_default_device().type != "cpu":  # a mode costs something with every call of torch
            stack.enter_context(torch.device("cpu"))
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(exact_products())
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """Within it, products of float32 matrices keep all bits, whatever `torch.set_float32_matmul_precision` says.

    With "medium", which is common in notebooks, CPUs and GPUs that multiply bfloat16 in hardware keep 8 to 11 of 24.
    """
    before = [(backend, backend.fp32_precision) for backend in BACKENDS]
    rough = [(backend, precision) for backend, precision in before if precision not in UNROUNDED]
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # each backend was told by itself: the two ways must not be mixed
        precision = HIGHEST
    # what was told in one way is changed in that way
    by_backend = rough if precision == HIGHEST else []
    try:
        if precision != HIGHEST:
            torch.set_float32_matmul_precision(HIGHEST)
        for backend, _ in by_backend:
            backend.fp32_precision = UNROUNDED[0]
        yield
    finally:
        if precision != HIGHEST:
            torch.set_float32_matmul_precision(precision)
        # each by itself, too: torch.backends.cuda.matmul.allow_tf32 is said of one, and read as if it were of all
        for backend, found in before if precision != HIGHEST else by_backend:
            backend.fp32_precision = found
