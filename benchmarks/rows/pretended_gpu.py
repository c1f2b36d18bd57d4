"""A pretended GPU: torch's compiler and Triton compile kernels for it, but nothing runs. Needs g++."""

import argparse
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PRETENDED = Path(__file__).parents[2] / "tests" / "pretended"
H100 = {"name": "H100", "major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 80 << 30}
H100 |= {"max_threads_per_multi_processor": 2048, "regs_per_multiprocessor": 65536, "warp_size": 32}
H100 |= {"L2_cache_size": 50 << 20, "gcnArchName": ""}


class KernelsNotRun(Exception):
    """Raised instead of running compiled kernels, since there is no GPU."""


def pretend(folder: Path) -> Any:
    """Import torch with a pretended H100, which holds fake tensors only and answers the compiler's questions."""
    sys.path.insert(0, str(PRETENDED))
    library = folder / "cuda.so"
    subprocess.run([sys.executable, str(PRETENDED / "device.py"), str(library)], check=True)
    os.environ["PRETENDED_CUDA"] = str(library)
    os.environ |= {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "written")}
    importlib.import_module("load")
    driver = importlib.import_module("triton.runtime.driver").driver
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    driver.set_active(SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0))
    torch = importlib.import_module("torch")
    properties = SimpleNamespace(**H100)
    returned = {"is_available": True, "current_device": 0, "device_count": 1, "get_device_properties": properties}
    returned |= {"get_device_capability": (9, 0), "_exchange_device": 0, "_maybe_exchange_device": 0}
    returned |= {"_lazy_init": None, "get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None}
    for name, value in returned.items():
        setattr(torch.cuda, name, lambda *given, value=value, **named: value)
    torch.version.cuda = "13.0"
    interface = importlib.import_module("torch._dynamo.device_interface").CudaInterface
    for owner in (interface, interface.Worker):
        owner.get_device_properties = staticmethod(lambda device=None: properties)
    passes = importlib.import_module("torch._inductor.fx_passes.joint_graph")
    passes.lazy_init = lambda *given, **named: None  # it would create real tensors on the device
    importlib.import_module("torch._inductor.config").joint_graph_constant_folding = False
    return torch


def refuse_without_triton(parser: argparse.ArgumentParser) -> None:
    """Exit with a message if g++ or triton is missing."""
    if shutil.which("g++") is None or importlib.util.find_spec("triton") is None:
        parser.error("g++ and the package triton are needed; install both")
