"""What the passes of a head's loss over its logits read and write on a GPU, counted on a machine without one.

    python benchmarks/gpu_kernels.py [--classes 50257] [--rows 4096] [--label-smoothing 0] [--guess] [--source]

Needs g++ and the package triton, which writes kernels for a GPU that is not there. Operator by operator, the bytes of
tensors with one entry a logit are those that torch's operators take and return. Compiled, they are those that the
kernels load and store by their source, here for one number of rows. Caches are not counted, nor is time.
"""

import argparse
import importlib
import importlib.util
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PRETENDED = Path(__file__).parents[1] / "tests" / "pretended"
WIDTHS = {"*bf16": 2, "*fp16": 2, "*fp32": 4, "*i64": 8, "*i1": 1}  # bytes, by Triton's names
H100 = {"name": "H100", "major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 80 << 30}
H100 |= {"max_threads_per_multi_processor": 2048, "regs_per_multiprocessor": 65536, "warp_size": 32}
H100 |= {"L2_cache_size": 50 << 20, "gcnArchName": ""}
KERNEL = re.compile(r"^def (triton_\w+)\(.*?(?=^'''|^def )", re.M | re.S)
ACCESS = re.compile(r"tl\.(load|store)\((\w+) \+ \(")


class Written(Exception):
    """The source is there; there is no GPU to run it on."""


def pretend(folder: Path) -> Any:
    """torch with a GPU that only tensors without numbers can be on, of which it knows what its compiler asks."""
    sys.path.insert(0, str(PRETENDED))
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    torch_folder, library = Path(found.origin).parent, folder / "cuda.so"
    includes = [f"-I{torch_folder / 'include' / part}" for part in ("", "torch/csrc/api/include")]
    flags = ["-std=c++20", "-O0", "-shared", "-fPIC", *includes, f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu"]
    subprocess.run(["g++", str(PRETENDED / "cuda.cpp"), *flags, "-o", str(library)], check=True)
    os.environ["PRETENDED_CUDA"] = str(library)
    os.environ |= {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "written")}
    importlib.import_module("load")
    driver = importlib.import_module("triton.runtime.driver").driver
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    driver.set_active(SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0))
    torch = importlib.import_module("torch")
    told = SimpleNamespace(**H100)
    own = {"is_available": True, "current_device": 0, "device_count": 1, "get_device_properties": told}
    own |= {"get_device_capability": (9, 0), "_exchange_device": 0, "_maybe_exchange_device": 0, "_lazy_init": None}
    own |= {"get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None}
    for name, value in own.items():
        setattr(torch.cuda, name, lambda *given, value=value, **named: value)
    torch.version.cuda = "13.0"
    interface = importlib.import_module("torch._dynamo.device_interface").CudaInterface
    for owner in (interface, interface.Worker):
        owner.get_device_properties = staticmethod(lambda device=None: told)
    passes = importlib.import_module("torch._inductor.fx_passes.joint_graph")
    passes.lazy_init = lambda *given, **named: None  # it makes tensors with numbers on the device
    importlib.import_module("torch._inductor.config").joint_graph_constant_folding = False
    return torch


def refuse_without_triton(parser: argparse.ArgumentParser) -> None:
    """End with a message where what writes kernels is missing."""
    if shutil.which("g++") is None or importlib.util.find_spec("triton") is None:
        parser.error("g++ and the package triton are needed; install both")


def compiled_source(torch: Any, score: Any, logits: Any, targets: Any) -> str:
    """The source of the kernels for a chunk of logits."""
    graphs = importlib.import_module("torch._inductor.graph").GraphLowering
    written: list[str] = []

    def stop(graph: Any) -> None:
        written.append(graph.codegen()[0].value)
        raise Written

    graphs.compile_to_module = stop
    try:
        with torch.no_grad():
            torch.compile(score)(logits, targets)
    except Exception:  # the compiler wraps what is raised in it
        if not written:
            raise
    return written[0]


def accesses(source: str, logits: int) -> dict[str, list[tuple[str, float]]]:
    """By kernel, what it loads and stores, in bytes a logit, the numbers of a row included."""
    found: dict[str, list[tuple[str, float]]] = {}
    for kernel in KERNEL.finditer(source):
        head, body = source[: kernel.start()], kernel[0]
        signature = dict(re.findall(r"'(\w+)': '(\*\w+)'", head[head.rindex("'signature'") :]))
        found[kernel[1]] = [
            (access[1], WIDTHS[signature[access[2]]] * entries(index_at(body, access.end()), body) / logits)
            for access in ACCESS.finditer(body)
        ]
    return found


def index_at(body: str, start: int) -> str:
    """What stands in the parentheses that were opened before a place."""
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(body[end], 0)
        end += 1
    return body[start : end - 1]


def entries(index: str, body: str) -> int:
    """How many entries an access by such an index touches: those of all loops whose variables stand in it."""
    touched = 1
    for side in ("x", "r0_"):
        size = re.search(rf"^ +{side}numel = (\d+)$", body, re.M)
        if size is None:
            continue
        names = sorted(set(re.findall(rf"\b{side}\d+\b", index)))
        formulas = (re.search(rf"^ +{name} = (.*)$", body, re.M) for name in names)
        values = math.prod(span(formula[1], int(size[1])) for formula in formulas if formula)
        touched *= min(values, int(size[1]))
    return touched


def span(formula: str, size: int) -> int:
    """How many values a variable has that is made of an index below `size`."""
    if divided := re.search(r"// (\d+)", formula):
        size = -(-size // int(divided[1]))
    if wrapped := re.search(r"% (\d+)", formula):
        size = min(size, int(wrapped[1]))
    return size


def moved_by_operators(torch: Any, score: Any, logits: Any, targets: Any) -> dict[str, int]:
    """By operator, the bytes a logit that it takes and returns."""
    modes, numbers = importlib.import_module("torch.utils._python_dispatch"), logits.numel()
    moved: dict[str, int] = {}

    class Counting(modes.TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            said = function(*given, **(named or {}))
            name, views = str(function), function.is_view
            tensors = [] if views else [x for x in (*given, said) if isinstance(x, torch.Tensor)]
            width = sum(x.element_size() for x in tensors if x.numel() == numbers)
            if width and not any(word in name for word in ("gather", "scatter", "device")):  # one entry a row, or none
                moved[name] = moved.get(name, 0) + width - (given[0].element_size() if "copy_" in name else 0)
            return said

    with torch.no_grad(), Counting():
        score(logits, targets)
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=50257)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--guess", action="store_true", help="the likeliest classes are wanted, too")
    parser.add_argument("--source", action="store_true", help="print the kernels")
    options = parser.parse_args()
    refuse_without_triton(parser)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        tell(pretend(Path(folder)), options)


def tell(torch: Any, options: argparse.Namespace) -> None:
    """Print what is counted."""
    logging.getLogger("torch._inductor").setLevel(logging.CRITICAL)  # of `Written`
    fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    loss = importlib.import_module("zoo.models.heads.cross_entropy")
    wanted = loss.Wanted(torch.bfloat16, label_smoothing=options.label_smoothing, guess=options.guess, gradient=True)

    def score(logits: Any, targets: Any) -> Any:
        return loss.score_(logits, targets, wanted)

    with fake:
        logits = torch.empty(options.rows, options.classes, device="cuda", dtype=torch.bfloat16)
        targets = torch.zeros(options.rows, device="cuda", dtype=torch.long)
        moved = moved_by_operators(torch, score, logits, targets)
    for name, width in moved.items():
        print(f"operator {name}: {width} bytes a logit")
    source = compiled_source(torch, score, logits, targets)
    kernels = accesses(source, logits.numel())
    for name, moves in kernels.items():
        print(f"kernel {name}: " + ", ".join(f"{way} {width:.3g}" for way, width in moves) + " bytes a logit")
    if options.source:
        print(source)
    print(f"operators together: {sum(moved.values())} bytes a logit")
    print(f"compiled together: {sum(width for moves in kernels.values() for _, width in moves):.3g} bytes a logit")


if __name__ == "__main__":
    main()
