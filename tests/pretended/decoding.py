"""Decode step by step on a pretended GPU: a host read, or a tensor that is left on the CPU, raises."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import load  # noqa: F401 - the device, before torch
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zoo.blocks.rows.cache import Cache
from zoo.models.generation.generate import build_search, build_step
from zoo.models.generation.settings import GenerateSettings
from zoo.models.model import Model
from zoo.models.settings import load_settings

CUDA, ROWS, END = torch.device("cuda"), 3, 2
WINDOWED = {"name": "grouped", "n_kv_heads": 2, "window": [3, None], "sinks": 1}
BEAMS, SAMPLES = GenerateSettings(beams=3), GenerateSettings(temperature=1.0, top_k=5, top_p=0.9)
GREEDY = GenerateSettings()
ONE = [(("decoder", "n_layers"), 1)]  # another says the same
FAMILIES = [
    ("gpt2-nano", SAMPLES, ONE),
    ("gpt2-nano", GREEDY, ONE),
    ("gpt-modern-nano", BEAMS, [(("decoder", "attention"), WINDOWED)]),  # a layer with a window, one without
    ("gpt-nano", SAMPLES, [(("decoder", "mixer"), ["convolution", "attention"]), (("decoder", "position"), "alibi")]),
    ("transformer-nano", BEAMS, [*ONE, (("decoder", "position"), "relative")]),
    ("t5-nano", BEAMS, ONE),
    ("t5-nano", GREEDY, ONE),
    ("captioner-transformer-nano", BEAMS, ONE),
    ("rnn-attention-nano", BEAMS, [(("decoder", "cell"), "lstm")]),
    ("rnn-seq2seq-nano", SAMPLES, ()),
    ("captioner-rnn-nano", BEAMS, ()),
    ("gpt-nano", BEAMS, [(("decoder", "mixer"), ["recurrent", "attention"])]),
]


def source_of(model: Model) -> Tensor | None:
    if model.encoder is None:
        return None
    return model.encoder.blank(4, CUDA).repeat(ROWS, *[1] * (model.encoder.blank(4, CUDA).dim() - 1))


class NoCopies(TorchDispatchMode):
    """Where a copy from the host raises, as it does where a CUDA graph is captured."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        said = func(*args, **(kwargs or {}))
        left = [x for x in tree_leaves((args, kwargs, said)) if isinstance(x, Tensor) and x.device.type == "cpu"]
        if left:
            raise RuntimeError(f"{func} has a tensor on the CPU")
        return said


def recur(kernel: nn.RNNBase, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """What has the shapes of torch's recurrent kernels, which know no fake tensors; it reads all that they read."""
    given = state if isinstance(state, tuple) else () if state is None else (state,)
    said = [F.linear(x, kernel.weight_ih_l0[: kernel.hidden_size]).tanh()]
    if kernel.bidirectional:
        said.append(F.linear(x, kernel.weight_ih_l0_reverse[: kernel.hidden_size]).tanh())
    seen = torch.cat(said, dim=-1)
    last = [seen[None, :, -1] + F.linear(vectors, kernel.weight_hh_l0[: kernel.hidden_size]) for vectors in given]
    return seen, last[0] if len(last) == 1 else tuple(last)


fused = F.scaled_dot_product_attention


def without_plans(*given: Any, **named: Any) -> Tensor:
    """As torch's, which must not choose cuDNN: that makes a plan for each length that it meets."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    return fused(*given, **named)


F.scaled_dot_product_attention = without_plans
nn.RNNBase.forward = nn.GRU.forward = nn.LSTM.forward = nn.RNN.forward = recur  # type: ignore[method-assign,assignment]


def decode(model: Model, settings: GenerateSettings, steady: bool) -> Tensor:
    search = build_search(settings, [9, 9, 8], END, None, CUDA)
    state = model.decoder.start(ROWS, model.encode_source(source_of(model), None), 12)
    padded = torch.ones(ROWS, 4, dtype=torch.long)
    read = build_step(model, state)
    capturing: AbstractContextManager[Any] = NoCopies() if steady else nullcontext()
    logits = read(padded, padded)
    copies = torch.arange(ROWS).repeat_interleave(search.width)
    model.decoder.reorder(state, copies)
    logits = logits[copies]
    if steady:
        model.decoder.settle(state)
    for _ in range(2):
        chosen, parents = search.choose(logits)
        there = (~search.ended).long().repeat_interleave(search.width)[:, None]
        before = [id(x) for x in tensors_in(state)]
        with capturing:
            logits = read(chosen[:, None], there, parents)
        assert not steady or before == [id(x) for x in tensors_in(state)], "a replayed graph would not find its state"
    return logits


def tensors_in(state: Any) -> list[Tensor]:
    """The tensors of a state, in those that it consists of."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, Cache):
        return list(state.tensors)
    parts = state if isinstance(state, list | tuple) else vars(state).values() if hasattr(state, "__dict__") else ()
    return [x for part in parts for x in tensors_in(part)]


torch.set_default_dtype(torch.bfloat16)
for name, settings, changes in FAMILIES:
    for steady in (False, True):
        with FakeTensorMode(), torch.no_grad(), CUDA:
            said = decode(Model(load_settings(name, changes)).eval(), settings, steady)
            assert said.device.type == "cuda" and said.dtype == torch.bfloat16
with FakeTensorMode(), CUDA:
    try:
        torch.ones(1).item()
    except Exception as error:
        print("a host read raises", type(error).__name__)
    try:
        with NoCopies():
            if torch.version.cuda is None:  # those built for CUDA copy what they make by themselves, which nothing sees
                torch.tensor([1.0], device=CUDA)
            torch.ones(1, device="cpu").to(CUDA)
    except RuntimeError as error:
        print("a copy raises", error)
