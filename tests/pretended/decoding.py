"""Decode step by step on a pretended GPU: a host read, or a tensor that is left on the CPU, raises."""

import load  # noqa: F401 - the device, before torch
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from zoo.models.generation.generate import next_logits, started
from zoo.models.generation.settings import GenerateSettings
from zoo.models.model import Model
from zoo.models.settings import load_settings

CUDA, ROWS, END = torch.device("cuda"), 3, 2
WINDOWED = {"name": "grouped", "n_kv_heads": 2, "window": [3, None], "sinks": 1}
BEAMS, SAMPLES = GenerateSettings(beams=3), GenerateSettings(temperature=1.0, top_k=5, top_p=0.9)
# torch's recurrent kernels know no fake tensors
FAMILIES = [
    ("gpt2-nano", SAMPLES, ()),
    ("gpt-modern-nano", BEAMS, [(("decoder", "attention"), WINDOWED)]),
    ("gpt-nano", SAMPLES, [(("decoder", "mixer"), ["convolution", "attention"]), (("decoder", "position"), "alibi")]),
    ("transformer-nano", BEAMS, [(("decoder", "position"), "relative")]),
    ("captioner-transformer-nano", BEAMS, ()),
]


def source_of(model: Model) -> Tensor | None:
    if model.encoder is None:
        return None
    return model.encoder.blank(4, CUDA).repeat(ROWS, *[1] * (model.encoder.blank(4, CUDA).dim() - 1))


def decode(model: Model, settings: GenerateSettings) -> Tensor:
    search = started(settings, [9, 9, 8], END, None, CUDA)
    state = model.decoder.start(ROWS, model.remember(source_of(model), None), 12)
    padded = torch.ones(ROWS, 4, dtype=torch.long)
    logits = next_logits(model, model.decoder.step(padded, padded, state))
    copies = torch.arange(ROWS).repeat_interleave(search.width)
    model.decoder.reorder(state, copies)
    logits = logits[copies]
    for _ in range(5):
        chosen, parents = search.choose(logits)
        if parents is not None:
            model.decoder.reorder(state, parents)
        there = (~search.ended).long().repeat_interleave(search.width)[:, None]
        logits = next_logits(model, model.decoder.step(chosen[:, None], there, state))
    return logits


torch.set_default_dtype(torch.bfloat16)
for name, settings, changes in FAMILIES:
    with FakeTensorMode(), torch.no_grad(), CUDA:
        said = decode(Model(load_settings(name, changes)).eval(), settings)
        assert said.device.type == "cuda" and said.dtype == torch.bfloat16
with FakeTensorMode(), CUDA:
    try:
        torch.ones(1).item()
    except Exception as error:
        print("a host read raises", type(error).__name__)
