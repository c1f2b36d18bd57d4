"""Compile what pretends to be a GPU: `python device.py LIBRARY`. Needs g++."""

import re
import subprocess
import sys
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
TORCH = Path(torch.__file__).parent


def compile_device(library: Path) -> None:
    """Compile hooks of torch where it is built for CPUs, else a driver and a runtime."""
    includes = [f"-I{TORCH / 'include' / part}" for part in ("", "torch/csrc/api/include")]
    source = [*includes, str(FOLDER / "cuda.cpp"), "-std=c++20", "-O0", f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
    if torch.version.cuda is not None:
        # torch opens the driver by this name, and takes what is open under it
        source = ["-x", "c", str(written_driver(library.with_name("driver.c"))), "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["g++", *source, "-shared", "-fPIC", "-o", str(library)], check=True)


def written_driver(file: Path) -> Path:
    """The source of a driver and a runtime with all functions that torch's libraries look for in them."""
    libraries = [str(TORCH / "lib" / f"lib{name}.so") for name in ("torch_cuda", "c10_cuda", "caffe2_nvrtc")]
    listed = subprocess.run(["nm", "-D", "--undefined-only", *libraries], capture_output=True, text=True, check=True)
    text = (FOLDER / "driver.c").read_text()
    names = set(re.findall(r" U (cu(?:da)?[A-Z]\w*)", listed.stdout)) - set(re.findall(r"int (cu\w+)\(", text))
    file.write_text(text + "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names)))
    return file


if __name__ == "__main__":
    compile_device(Path(sys.argv[1]))
