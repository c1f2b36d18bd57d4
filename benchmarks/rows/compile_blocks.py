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

from rows.pretended_gpu import KernelsNotRun
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
KERNEL_SOURCE = re.compile(r"async_compile\.triton\('(\w+)', \'\'\'(.*?)\'\'\', device_str", re.S)
SHARED_MEMORY = 232_448  # bytes per thread block on an H100
MATRIX_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
sources: list[str] = []  # of the compiled graphs: forward, backward
graph_kernels: list[list["Kernel"]] = []  # of each of these graphs


class Kernel(NamedTuple):
    """A compiled kernel or an external call (a matrix product) of a graph: its operators, and the bytes it moves."""

    operators: str
    bytes_moved: int
    kind: str


def record_graph(graph: GraphLowering) -> Any:
    """Record the source of a graph and its kernels; returns a compiled graph that raises `KernelsNotRun`."""
    sources.append(graph.codegen()[0].value)
    graph_kernels.append([describe_kernel(node) for node in graph.scheduler.nodes])

    def call(inputs: list[Any]) -> None:
        raise KernelsNotRun

    return SimpleNamespace(call=call, __file__="", key="", runner=None)


def describe_kernel(node: BaseSchedulerNode) -> Kernel:
    """The kernel of a scheduled node."""
    origins = [origin for part in node.get_nodes() for origin in getattr(part.node, "origins", ())]
    targets = [getattr(origin.target, "overloadpacket", origin.target) for origin in origins]
    named = dict.fromkeys(str(target).rpartition(".")[2] for target in targets)
    kind = "written by the compiler"
    if isinstance(node, ExternKernelSchedulerNode):
        kind = "products" if MATRIX_PRODUCTS & {*named} else "attention"
    return Kernel(" ".join(named), node.get_read_write_buffers_sizes(), kind)


GraphLowering.compile_to_module = record_graph  # type: ignore[method-assign]
triton_helpers.set_driver_to_gpu = lambda: None  # keep the driver of `pretend`, which compiles but cannot load
flex.with_fallback = lambda compiled, plain: compiled  # no fallback: a failure must be reported
functions.force_non_lazy_backward_lowering = True  # compile the backward now: the backward pass is never run


@dataclass(frozen=True)
class CompileCase:
    """A compilation: the last block of a model's encoder or decoder, on rows of `length` positions.

    Args:
        flex_only: run the block uncompiled, so that only flex attention's kernels are compiled.
        full_rows: number of full rows of two documents; 0: three rows, one of them with a gap and one empty.
    """

    name: str
    model: str
    sets: Sequence[tuple[tuple[str, ...], Any]]
    part: str = "decoder"
    length: int = LENGTH
    flex_only: bool = False
    full_rows: int = 0


def cases() -> Iterator[CompileCase]:
    """Yield a case for every variant of every slot in a block; those of attention with and without dropout."""
    for dropout in (0.0, 0.1):
        for name in positions.names():
            yield gpt_case(f"position {name}", dropout, "position", name)
        for name in attentions.names():
            yield gpt_case(f"attention {name}", dropout, "attention", GROUPED if name == "grouped" else name)
        yield gpt_case("attention with all options", dropout, "attention", {**GROUPED, **SINKS, "qk_norm": True})
        yield gpt_case("score additive", dropout, "attention", {"name": "full", "score": "additive"})
        for model in ("transformer-nano", "t5-nano", "bert-modern-nano", "electra-nano"):
            for part in ("encoder", "decoder") if model in ("transformer-nano", "t5-nano") else ("encoder",):
                yield CompileCase(f"{part} of {model}, dropout {dropout}", model, [(("dropout",), dropout)], part)
    for slot, variants in (("norm", norms), ("feed_forward", feed_forwards), ("block", blocks)):
        for name in variants.names():
            yield gpt_case(f"{slot} {name}", 0.1, slot, name)
    for name in activations.names():
        yield gpt_case(f"activation {name}", 0.1, "feed_forward", {"name": "mlp", "activation": name})
    for options in ({}, {"depthwise": True, "dilation": 2}):
        yield gpt_case(f"mixer convolution {options or ''}".strip(), 0.1, "mixer", {"name": "convolution", **options})
    for heads in (1, 2):
        for length in (48, 80, 96, 128, 160, 512):
            attention = (("decoder", "attention"), {**GROUPED, **SINKS, "n_kv_heads": heads})
            name = f"flex, {length} places, {heads} of 4 heads have keys"
            yield CompileCase(name, "gpt-modern-nano", [attention], length=length, flex_only=True)
    for width in (64, flex.WIDEST):
        attention = (("decoder", "attention"), {**GROUPED, **SINKS, "d_key": width, "d_value": width})
        yield CompileCase(f"flex, heads {width} wide", "gpt-modern-nano", [attention], length=512, flex_only=True)


def gpt_case(name: str, dropout: float, slot: str, choice: Any) -> CompileCase:
    """The case of a GPT with a variant in one slot."""
    sets = [(("dropout",), dropout), (("decoder", slot), choice)]
    return CompileCase(f"{name}, dropout {dropout}", "gpt2-nano", sets)


def try_case(case: CompileCase) -> bool:
    """Compile a case and print the numbers of kernels or the error; returns whether forward and backward compiled."""
    torch._dynamo.reset()
    sources.clear()
    graph_kernels.clear()
    error = forward_error(case)
    if len(sources) >= 2:  # forward and backward
        try:
            counts = [compile_kernels(source) for source in sources]
        except Exception as failure:
            error = failure
        else:
            print(f"{case.name}: kernels: {counts}", flush=True)
            return True
    outcome = "it ran" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    print(f"{case.name}: {outcome}", flush=True)
    return False


def print_bytes_moved(model: str, full_rows: int, length: int, dropout: float) -> None:
    """Print the bytes that the kernels of a model's last block read and write, forward and backward, on full rows.

    Raises:
        ValueError: there is no such model, it has no blocks, or there are no rows.
    """
    settings = load_settings(model, [])
    part, choice = ("decoder", settings.decoder) if settings.decoder is not None else ("encoder", settings.encoder)
    if choice is None or choice.kind != "transformer":
        raise ValueError(f"--moved: {model} has no blocks in its {part}; allowed: models whose {part} is a transformer")
    if full_rows < 1 or length < 2:
        found, allowed = f"{full_rows} rows of {length} positions", "1 row or more, of 2 positions or more"
        raise ValueError(f"--moved: {found}; allowed: {allowed}")
    error = forward_error(CompileCase(model, model, [(("dropout",), dropout)], part, length, full_rows=full_rows))
    if len(graph_kernels) < 2:
        raise SystemExit(f"{model}: {type(error).__name__}: {error}")
    for name, graph in zip(("forward", "backward"), graph_kernels, strict=True):
        for kernel in graph:
            if kernel.bytes_moved >= 1e6:
                print(f"{name:9} {kernel.bytes_moved / 1e6:7.1f} MB  {kernel.kind}: {kernel.operators[:120]}")
        for kind in dict.fromkeys(kernel.kind for kernel in graph):
            print(f"{name}, {kind}: {sum(kernel.bytes_moved for kernel in graph if kernel.kind == kind) / 1e6:,.0f} MB")


def compile_kernels(source: str) -> int:
    """Compile the kernels of a graph for an H100; returns their number.

    Raises:
        ValueError: a kernel needs more shared memory than there is, in all of its configurations.
    """
    kernel_sources = KERNEL_SOURCE.findall(source)
    for name, text in kernel_sources:
        kernel = getattr(PyCodeCache.load(text), name)
        kernel.precompile(warm_cache_only=True)
        # torch launches kernels itself, but leaves those with many arguments to triton, which stores the size elsewhere
        compiled = [result.kernel for result in kernel.compile_results]
        needed = min(one.metadata.shared if hasattr(one, "metadata") else one.shared for one in compiled)
        if needed > SHARED_MEMORY:
            raise ValueError(f"{name} needs {needed:,} bytes of shared memory, and an H100 has {SHARED_MEMORY:,}")
    return len(kernel_sources)


def forward_error(case: CompileCase) -> Exception | None:
    """The exception that ended the forward pass: `KernelsNotRun`, wrapped by the compiler, or an error."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast("cuda", torch.bfloat16):
        with CUDA:
            model = Model(load_settings(case.model, list(case.sets))).train()
        use_backends(model, Training(precision="bfloat16"), CUDA)
        part = getattr(model, case.part)
        documents, x = case_documents(case), random_states(case, part.d_model)
        view = part.stack.views(Visibility(documents, documents, causal=part.stack.causal))[-1]
        source = None
        if part.stack.blocks[-1].cross is not None:
            source = SourceView(random_states(case, part.d_model), View(Visibility(documents, documents)))
        block = part.stack.blocks[-1]
        try:
            with mock.patch.object(flex, "compiled", return_uncompiled):
                block.prepare(view, source, torch.bfloat16)
            kinds = {type(attention.backend).__name__ for attention, _ in layers_of(model)}
            assert not case.flex_only or kinds == {"Flex"}, kinds
            (block if case.flex_only else torch.compile(block.forward, fullgraph=True))(x, view, source)
        except Exception as error:
            return error
    return None


def return_uncompiled(function: Any, graphs: int, **options: Any) -> Any:
    """Replaces `compiled`: masks are computed uncompiled, since their kernels would raise `KernelsNotRun` too early."""
    return function


def case_documents(case: CompileCase) -> Documents:
    """The documents of a case (see `CompileCase.full_rows`)."""
    length = case.length
    packed = [[length // 2, length - length // 2]] * case.full_rows or [[length // 2, length // 4], [length], []]
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (length - sum(row)) for row in packed]
    documents = Documents.packed(packed, torch.tensor(numbers, device="cpu")).to(CUDA)
    assert documents.positions is not None  # compute them before compiling
    return documents


def random_states(case: CompileCase, width: int) -> torch.Tensor:
    """Random hidden states of a case, (rows, length, width)."""
    return torch.randn(case.full_rows or 3, case.length, width, device=CUDA, requires_grad=True)
