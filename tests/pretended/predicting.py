"""Each kind of prediction on the pretended GPU, up to where its answer is read; prints where that is."""

import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

import load  # noqa: F401 - the device, before torch
import torch
from looking import loaded, picture
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from zoo.inference.predict import predict
from zoo.models.attention_backend import attentions
from zoo.models.generation.settings import GenerateSettings
from zoo.models.model import Model

CASES = [
    ("bert-nano", "masked_lm", "the [MASK]", 1),
    ("bert-nano", "classification", "the", 1),
    ("gpt2-nano", "causal_lm", "the red", 1),
    ("gpt-modern-nano", "causal_lm", "the red", 3),
    ("transformer-nano", "translation", "the red", 3),
    ("captioner-transformer-nano", "captioning", None, 1),
]

torch.cuda.get_device_capability = lambda device=None: (8, 0)
with tempfile.TemporaryDirectory() as place:
    for name, objective, text, beams in CASES:
        real = loaded(name, objective)
        given = [picture(Path(place))] if text is None else [text, f"{text} cat sleeps"]
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                torch.set_default_dtype(torch.bfloat16)  # fake weights can neither be cast nor moved
                with torch.device("cuda"):
                    model = replace(real, model=Model(real.model.settings).eval())
                torch.set_default_dtype(torch.float32)
                predict(model, given, None, GenerateSettings(max_new_tokens=2, beams=beams))
            said = "nothing was read"
        except DataDependentOutputException as error:
            frames = traceback.extract_tb(error.__traceback__)
            said = f"read in {[frame.name for frame in frames if '/src/zoo/' in frame.filename][-1]}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        attending = {type(attention.backend).__name__ for attention in attentions(model.model)}
        print(name, objective, beams, {p.device.type for p in model.model.parameters()}, said, attending, sep="\t")
