"""What every test runs under: no network, a cache of its own, one thread, and checked shapes."""

import functools
import gc
import ipaddress
import os
import runpy
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ["TORCH_DYNAMO_RUN_GC_AFTER_COMPILE"] = "0"  # a tenth of a second for each graph
if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers of one run share its folder
    FOLDER = tempfile.TemporaryDirectory(prefix="zoo-tests-")
    os.environ |= {"ZOO_CACHE": f"{FOLDER.name}/zoo", "HF_HOME": f"{FOLDER.name}/hugging-face"}

at_once = jaxtyping.jaxtyped


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """As jaxtyping's, but a function is made ready for checks by its first call that is checked; most have none.

    One that stands in another is defined at each call of that: being made ready took half the time of decoding.
    """

    def decorate(defined: Any) -> Any:
        if not isinstance(defined, FunctionType):
            return at_once(defined, typechecker=typechecker)
        ready = functools.cache(lambda: at_once(defined, typechecker=typechecker))

        @functools.wraps(defined)
        def call(*given: Any, **named: Any) -> Any:
            return (defined if jaxtyping.config.jaxtyping_disable else ready())(*given, **named)

        return call

    return decorate


# before zoo is imported: every annotated shape in these packages can be checked at each call, which doubles its time
jaxtyping.jaxtyped = jaxtyped  # type: ignore[assignment]
jaxtyping.install_import_hook(["zoo.blocks", "zoo.models", "zoo.examples", "zoo.objectives"], "beartype.beartype")
SHAPES = ("blocks", "examples", "objectives", "test_shapes.py")  # with the tests marked `shapes` they call all of them

os.fsync = os.fstat  # type: ignore[assignment]  # waiting for the disk takes a tenth of all time, and no power is cut here

# garbage is looked for rarely, here and in every Python that a test starts: most get our path, the others the variable
STARTING = str(Path(__file__).parent / "starting")
runpy.run_path(f"{STARTING}/sitecustomize.py")
if STARTING not in sys.path:
    sys.path.insert(0, STARTING)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [STARTING, os.environ.get("PYTHONPATH")]))

settings.register_profile("zoo", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("zoo")
# it would read the source of all modules for constants to draw: seconds, and other draws in each process
providers._get_local_constants = lambda: providers._local_constants

opened: list[str] = []


def is_local(address: Any) -> bool:
    """Whether a socket's address stays on this machine: a path, or a loopback number."""
    if not isinstance(address, tuple):
        return True
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return address[0] in ("", "localhost")


def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A way to send something whose last argument is an address; a refusal is remembered even where it is caught.

    No audit hook: Python would ask it about every `id()`, which makes that seven times slower, and torch is full of it.
    """

    def send(sender: socket.socket, *given: Any) -> Any:
        if not is_local(given[-1]):
            opened.append(str(given[-1]))
            raise PermissionError(f"a test must not reach the network: {given[-1]}")
        return method(sender, *given)

    return send


for way in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, way, refusing(getattr(socket.socket, way)))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look at it."""
    gc.freeze()
    if "torch._dynamo.guards" in sys.modules:  # for each graph it empties the processor's caches, to log a time
        sys.modules["torch._dynamo.guards"].profile_guard_manager = lambda *given: 0.0  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Check shapes in the tests that call every annotated function, fixtures included, and in no others."""
    here = item.path.relative_to(Path(__file__).parent).parts[0]
    checked = here in SHAPES or item.get_closest_marker("shapes") is not None
    jaxtyping.config.update("jaxtyping_disable", not checked)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[list[str]]:
    """The addresses outside this machine that the test tried to reach; one of them fails it."""
    opened.clear()
    yield opened
    assert not opened, f"a test must not reach the network: {', '.join(opened)}"
