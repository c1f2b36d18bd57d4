"""Names and shapes of parameters are the format of every checkpoint: a change of one breaks files that people have.

`PYTHONPATH=src python tests/contracts/test_parameter_names.py` writes the file anew; say in the change why it must be.
"""

import json
from pathlib import Path
from typing import Any

import torch

from zoo.blocks.mixer import mixers
from zoo.models.model import Model
from zoo.models.settings import load_settings

FILE = Path(__file__).with_name("parameter_names.json")
RICH: dict[str, Any] = {
    "attention": {"name": "grouped", "n_kv_heads": 2, "qk_norm": ["rmsnorm", "layernorm", "scalenorm"], "sinks": 2},
    "feed_forward": ["gated", {"name": "gated", "bias": True}, "mlp"],
    "block": ["sandwich", "parallel", "pre_norm"],
    "norm": ["scalenorm", "rmsnorm", {"name": "layernorm", "bias": False}],
    "position": "relative",
    "n_layers": 3,
}
# a new one stands behind the others, whose layers stay as they are; attention twice, once for each learned score
MIXERS = [{"name": "convolution", "depthwise": True}, "attention", *mixers.names()]
UNTIED = [{"name": "language", "tied": False, "bias": True}, "classification"]
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("bert-nano", "electra-nano", "gpt-nano", "gpt2-nano", "transformer-nano")},
    "an encoder and a decoder with all that is optional": (
        "transformer-nano",
        {f"{side}.{key}": value for side in ("encoder", "decoder") for key, value in RICH.items()}
        | {"embeddings.shared": False, "heads": UNTIED},
    ),
    **{name: (name, {}) for name in ("captioner-rnn-nano", "captioner-transformer-nano", "cnn-attention-nano")},
    "a classifier": ("bert-nano", {"heads": ["classification"]}),
    "rnn-attention-nano": ("rnn-attention-nano", {"decoder.cell": "lstm", "encoder.n_layers": 2}),
    "a decoder of every mixer": (
        "gpt2-nano",
        {"mixer": MIXERS, "n_layers": len(MIXERS), "attention.score": ["additive", "bilinear"]},
    ),
}


def named_shapes() -> dict[str, dict[str, list[int]]]:
    found = {}
    for title, (name, changes) in MODELS.items():
        with torch.device("meta"):
            model = Model(load_settings(name, [(tuple(key.split(".")), value) for key, value in changes.items()]))
        found[title] = {key: list(value.shape) for key, value in model.state_dict().items()}
    return found


def test_names_and_shapes_of_parameters_are_those_of_the_file():
    assert named_shapes() == json.loads(FILE.read_text()), "the first lines of this file say what to do"


def test_all_that_a_model_keeps_is_a_parameter():
    for name, changes in MODELS.values():
        with torch.device("meta"):
            model = Model(load_settings(name, [(tuple(key.split(".")), value) for key, value in changes.items()]))
        assert not list(model.buffers())


if __name__ == "__main__":
    lines = [
        f" {json.dumps(title)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {shape}" for key, shape in shapes.items())
        + "\n }"
        for title, shapes in named_shapes().items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
