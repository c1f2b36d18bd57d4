"""Load a pretended CUDA device; a program imports this before torch.

A process so loaded believes that it has a GPU, so it is one of its own. Fake tensors on `cuda` have shapes, dtypes and
devices there, and nothing is computed: whatever asks for a number of such a tensor raises.
"""

import ctypes
import importlib
import importlib.util
import os
from pathlib import Path

LIBRARY = "PRETENDED_CUDA"  # the variable that names what was compiled
found = importlib.util.find_spec("torch")
assert found is not None and found.origin is not None
TORCH = Path(found.origin).parent

if LIBRARY in os.environ:
    ctypes.CDLL(str(TORCH / "lib" / "libtorch_cpu.so"))
    ctypes.CDLL(os.environ[LIBRARY])
    fakes = importlib.import_module("torch._subclasses.fake_impls")
    # pinned memory is memory of the CPU; torch has no rule for fake tensors in it
    pin = importlib.import_module("torch").ops.aten._pin_memory.default
    fakes.op_implementations_dict[pin] = lambda mode, func, tensor, device=None: tensor
