"""Compile blocks of every kind with torch's compiler for a pretended GPU, down to the machine code of their kernels.

`pretend` of pretended_gpu.py must have been called before this is imported.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._functorch import config as functions
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers
from torch._inductor.scheduler import BaseSchedulerNode, ExternKernelSchedulerNode
from torch._subclasses.fake_tensor import FakeTensorMode

from rows.pretended_gpu import Written
from zoo.blocks.activation import activations
from zoo.blocks.attention import attentions
from zoo.blocks.backends import flex
from zoo.blocks.block import SourceView, blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.norm import norms
from zoo.blocks.position import positions
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility
from zoo.models.attention_backend import layers_of
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.training.devices.attention_backend import use_backends
from zoo.training.settings import Training

CUDA, LENGTH = torch.device("cuda"), 64
GROUPED = {"name": "grouped", "n_kv_heads": 2}
SINKS = {"sinks": 2, "window": 5}
KERNEL = re.compile(r"async_compile\.triton\('(\w+)', \'\'\'(.*?)\'\'\', device_str", re.S)
SHARED = 232_448  # bytes of shared memory per thread block on an H100
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
written: list[str] = []
kernels: list[list["Kernel"]] = []  # per graph


class Kernel(NamedTuple):
    """A compiled kernel or an external call (a matrix product) of a graph: its operators, and the bytes it moves."""

    operators: str
    moved: int
    kind: str


def note(graph: GraphLowering) -> Any:
    """Record the kernels' source and the bytes they move; replaces the compiled graph by one that raises `Written`."""
    written.append(graph.codegen()[0].value)
    kernels.append([kernel_of(node) for node in graph.scheduler.nodes])

    def call(given: list[Any]) -> None:
        raise Written

    return SimpleNamespace(call=call, __file__="", key="", runner=None)


def kernel_of(node: BaseSchedulerNode) -> Kernel:
    """The kernel of a scheduled node."""
    origins = [origin for one in node.get_nodes() for origin in getattr(one.node, "origins", ())]
    named = dict.fromkeys(str(getattr(one.target, "overloadpacket", one.target)).rpartition(".")[2] for one in origins)
    kind = "written by the compiler"
    if isinstance(node, ExternKernelSchedulerNode):
        kind = "products" if PRODUCTS & {*named} else "attention"
    return Kernel(" ".join(named), node.get_read_write_buffers_sizes(), kind)


GraphLowering.compile_to_module = note  # type: ignore[method-assign]
triton_helpers.set_driver_to_gpu = lambda: None  # keep the driver of `pretend`, which compiles but cannot load
flex.with_fallback = lambda compiled, plain: compiled  # no fallback: a failure must be reported
functions.force_non_lazy_backward_lowering = True  # compile the backward now: the backward pass is never run


@dataclass(frozen=True)
class Case:
    """A compilation: the last block of a model's encoder or decoder, on rows of `length` positions.

    Args:
        alone: run the block uncompiled, so that only flex attention's kernels are compiled.
        full: number of full rows of two documents; 0: three rows, one of them with a gap and one empty.
    """

    name: str
    model: str
    sets: Sequence[tuple[tuple[str, ...], Any]]
    part: str = "decoder"
    length: int = LENGTH
    alone: bool = False
    full: int = 0


def cases() -> Iterator[Case]:
    """Yield a case for every variant of every slot in a block; those of attention with and without dropout."""
    for share in (0.0, 0.1):
        for name in positions.names():
            yield of_gpt(f"position {name}", share, "position", name)
        for name in attentions.names():
            yield of_gpt(f"attention {name}", share, "attention", GROUPED if name == "grouped" else name)
        yield of_gpt("attention with all options", share, "attention", {**GROUPED, **SINKS, "qk_norm": True})
        yield of_gpt("score additive", share, "attention", {"name": "full", "score": "additive"})
        for model in ("transformer-nano", "t5-nano", "bert-modern-nano", "electra-nano"):
            for part in ("encoder", "decoder") if model in ("transformer-nano", "t5-nano") else ("encoder",):
                yield Case(f"{part} of {model}, dropout {share}", model, [(("dropout",), share)], part)
    for slot, known in (("norm", norms), ("feed_forward", feed_forwards), ("block", blocks)):
        for name in known.names():
            yield of_gpt(f"{slot} {name}", 0.1, slot, name)
    for name in activations.names():
        yield of_gpt(f"activation {name}", 0.1, "feed_forward", {"name": "mlp", "activation": name})
    for more in ({}, {"depthwise": True, "dilation": 2}):
        yield of_gpt(f"mixer convolution {more or ''}".strip(), 0.1, "mixer", {"name": "convolution", **more})
    for heads in (1, 2):
        for length in (48, 80, 96, 128, 160, 512):
            shared = (("decoder", "attention"), {**GROUPED, **SINKS, "n_kv_heads": heads})
            name = f"flex, {length} places, {heads} of 4 heads have keys"
            yield Case(name, "gpt-modern-nano", [shared], length=length, alone=True)
    for width in (64, flex.WIDEST):
        shared = (("decoder", "attention"), {**GROUPED, **SINKS, "d_key": width, "d_value": width})
        yield Case(f"flex, heads {width} wide", "gpt-modern-nano", [shared], length=512, alone=True)


def of_gpt(name: str, share: float, slot: str, choice: Any) -> Case:
    """The case of a GPT with a variant in one slot."""
    return Case(f"{name}, dropout {share}", "gpt2-nano", [(("dropout",), share), (("decoder", slot), choice)])


def tell(case: Case) -> bool:
    """Compile a case and print the numbers of kernels or the error; returns whether forward and backward compiled."""
    torch._dynamo.reset()
    written.clear()
    kernels.clear()
    error = stopped(case)
    if len(written) >= 2:  # forward and backward
        try:
            counts = [compile_kernels(source) for source in written]
        except Exception as failure:
            error = failure
        else:
            print(f"{case.name}: kernels: {counts}", flush=True)
            return True
    fault = "it ran" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    print(f"{case.name}: {fault}", flush=True)
    return False


def tell_moved(model: str, full: int, length: int, dropout: float) -> None:
    """Print the bytes that the kernels of a model's last block read and write, forward and backward, on full rows.

    Raises:
        ValueError: there is no such model, it has no blocks, or there are no rows.
    """
    settings = load_settings(model, [])
    part, choice = ("decoder", settings.decoder) if settings.decoder is not None else ("encoder", settings.encoder)
    if choice is None or choice.kind != "transformer":
        raise ValueError(f"--moved: {model} has no blocks in its {part}; allowed: models whose {part} is a transformer")
    if full < 1 or length < 2:
        raise ValueError(f"--moved: {full} rows of {length} places; allowed: 1 row or more, of 2 places or more")
    error = stopped(Case(model, model, [(("dropout",), dropout)], part, length, full=full))
    if len(kernels) < 2:
        raise SystemExit(f"{model}: {type(error).__name__}: {error}")
    for name, graph in zip(("forward", "backward"), kernels, strict=True):
        for kernel in graph:
            if kernel.moved >= 1e6:
                print(f"{name:9} {kernel.moved / 1e6:7.1f} MB  {kernel.kind}: {kernel.operators[:120]}")
        for kind in dict.fromkeys(kernel.kind for kernel in graph):
            print(f"{name}, {kind}: {sum(kernel.moved for kernel in graph if kernel.kind == kind) / 1e6:,.0f} MB")


def compile_kernels(source: str) -> int:
    """Compile the kernels of a graph for an H100; returns their number.

    Raises:
        ValueError: a kernel needs more shared memory than there is, in all of its configurations.
    """
    found = KERNEL.findall(source)
    for name, text in found:
        kernel = getattr(PyCodeCache.load(text), name)
        kernel.precompile(warm_cache_only=True)
        # torch launches kernels itself, but leaves those with many arguments to triton, which stores the size elsewhere
        ready = [result.kernel for result in kernel.compile_results]
        shared = min(one.metadata.shared if hasattr(one, "metadata") else one.shared for one in ready)
        if shared > SHARED:
            raise ValueError(f"{name} needs {shared:,} bytes of shared memory, and an H100 has {SHARED:,}")
    return len(found)


def stopped(case: Case) -> Exception | None:
    """The exception that ended the forward pass: `Written`, wrapped by the compiler, or an error."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast("cuda", torch.bfloat16):
        with CUDA:
            model = Model(load_settings(case.model, list(case.sets))).train()
        use_backends(model, Training(precision="bfloat16"), CUDA)
        part = getattr(model, case.part)
        documents, x = rows(case), vectors(case, part.d_model)
        view = part.stack.views(Visibility(documents, documents, causal=part.stack.causal))[-1]
        source = None
        if part.stack.blocks[-1].cross is not None:
            source = SourceView(vectors(case, part.d_model), View(Visibility(documents, documents)))
        block = part.stack.blocks[-1]
        try:
            with mock.patch.object(flex, "compiled", apart):
                block.prepare(view, source, torch.bfloat16)
            kinds = {type(attention.backend).__name__ for attention, _ in layers_of(model)}
            assert not case.alone or kinds == {"Flex"}, kinds
            (block if case.alone else torch.compile(block.forward, fullgraph=True))(x, view, source)
        except Exception as error:
            return error
    return None


def apart(function: Any, graphs: int, **options: Any) -> Any:
    """Replaces `compiled`: masks are computed uncompiled, since their kernels would raise `Written` too early."""
    return function


def rows(case: Case) -> Documents:
    """The documents of a case (see `Case.full`)."""
    length = case.length
    packed = [[length // 2, length - length // 2]] * case.full or [[length // 2, length // 4], [length], []]
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (length - sum(row)) for row in packed]
    documents = Documents.packed(packed, torch.tensor(numbers, device="cpu")).to(CUDA)
    assert documents.positions is not None  # compute them before compiling
    return documents


def vectors(case: Case, width: int) -> torch.Tensor:
    """Random hidden states of a case, (rows, length, width)."""
    return torch.randn(case.full or 3, case.length, width, device=CUDA, requires_grad=True)
