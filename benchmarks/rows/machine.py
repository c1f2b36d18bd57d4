"""The machine and the versions that figures were measured with."""

import importlib.metadata
import os
import platform
import re
import tomllib
from datetime import date
from pathlib import Path

import torch

import zoo
from zoo.devices.precision import has_bfloat16

PACKAGES = ("torch", "transformers", "accelerate")
FLAGS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 bf16", "avx512f": "AVX-512"}


def cpu_info() -> dict[str, str]:
    """The entries of the first processor in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
    except FileNotFoundError:
        return {"model name": platform.processor() or platform.machine(), "flags": ""}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def describe_machine(device: str, threads: int) -> str:
    """A description of the machine in one line: processor or GPU, instruction sets, cores, threads and versions."""
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(device)}, {package_versions()}"
    info = cpu_info()
    flags = [name for flag, name in FLAGS.items() if flag in info.get("flags", "").split()]
    name = info.get("model name", platform.machine())
    if "cpu family" in info:  # virtual machines hide more of the name: two kinds of EPYC differ by a factor of 2.4
        name += f", family {info['cpu family']}, model {info.get('model', '?')}"
    precision = "" if has_bfloat16(torch.device(device)) else "; all sides in float32"
    cpu = f"{name} ({', '.join(flags) or 'no AVX-512'}{precision})"
    return f"{cpu}, {usable_cores()} cores, {threads} threads, {package_versions()}"


def package_versions() -> str:
    """The versions of PACKAGES and of zoo, which may run from a checkout."""
    installed = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if is_installed(name))
    return f"{installed}, zoo {zoo.__version__}"


def missing_packages(extra: str) -> list[str]:
    """The packages that zoo and one of its extras require and that are not installed."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"][extra]]
    names = [re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in requirements]
    return [name for name in names if not is_installed(name)]


def is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def load_average() -> float:
    """The load average of the last minute; above about 0.3 before a run, other processes disturb the figures."""
    return os.getloadavg()[0]


def today() -> str:
    return date.today().isoformat()
