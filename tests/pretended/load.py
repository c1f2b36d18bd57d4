"""Load a pretended CUDA device; a program imports this before torch.

A process so loaded believes that it has a GPU, so it is one of its own. Fake tensors on `cuda` have shapes, dtypes and
devices there, and nothing is computed: whatever asks for a number of such a tensor raises.
"""

import ctypes
import importlib
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

LIBRARY = "PRETENDED_CUDA"  # the variable that names what was compiled
found = importlib.util.find_spec("torch")
assert found is not None and found.origin is not None
TORCH = Path(found.origin).parent


def pretend_driver() -> None:
    """Keep a torch that is built for CUDA from what only a GPU can answer."""
    cuda = torch.cuda
    for module, name, said in (
        (fake_tensors, "init_gpu_context", None),
        (cuda, "_lazy_init", None),
        (cuda, "current_device", 0),
        (cuda, "get_rng_state", torch.zeros(16, dtype=torch.uint8)),
        (cuda, "set_rng_state", None),
        (cuda, "get_device_properties", SimpleNamespace(major=9, minor=0)),
    ):
        setattr(module, name, lambda *given, _said=said, **named: _said)


if LIBRARY in os.environ:
    if (TORCH / "lib" / "libtorch_cuda.so").exists():
        ctypes.CDLL(os.environ[LIBRARY], ctypes.RTLD_GLOBAL)  # found before the runtime that torch brings
    else:
        ctypes.CDLL(str(TORCH / "lib" / "libtorch_cpu.so"))
        ctypes.CDLL(os.environ[LIBRARY])
    torch = importlib.import_module("torch")
    fake_tensors = importlib.import_module("torch._subclasses.fake_tensor")
    fakes = importlib.import_module("torch._subclasses.fake_impls")
    # pinned memory is memory of the CPU; torch has no rule for fake tensors in it
    pin = torch.ops.aten._pin_memory.default
    fakes.op_implementations_dict[pin] = lambda mode, func, tensor, device=None: tensor
    if torch.version.cuda is not None:
        pretend_driver()
