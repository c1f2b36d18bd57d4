"""Random changes of each target's example: what it says it can hold goes there and back; `make long` tries 400."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from strangers import disturb
from test_every_target import CLASSES, SIZES, example_settings
from untold import untold

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.model import Model

EACH = pytest.mark.parametrize("seed", [*range(8), *(pytest.param(s, marks=pytest.mark.long) for s in range(8, 400))])
SCALINGS = [{"name": name, "factor": 4.0, "trained_length": 16} for name in ("yarn", "llama3")]
OF_A_STACK: dict[str, list[Any]] = {
    "norm": ["layernorm", "rmsnorm", "scalenorm", {"name": "layernorm", "bias": False}],
    "norm.eps": [1e-2],
    "position": ["none", "sinusoidal", "learned", "rotary", "alibi", {"name": "relative", "buckets": 8}],
    "position.base": [100.0, [100.0, 5000.0, 100.0]],
    "position.scaling": [*SCALINGS, {"name": "linear", "factor": 2.0}],
    "attention": ["full", {"name": "grouped", "n_kv_heads": 2}, {"name": "grouped", "n_kv_heads": 1}],
    "attention.n_kv_heads": [1, 2, 4],
    "attention.window": [1, 3, [3, None, 3], [2, 3, 2]],
    "attention.qk_norm": [True],
    "attention.bias": [True, False],
    "attention.d_value": [4, 6],
    "attention.d_key": [4, 8],
    "attention.score": ["dot", "scaled_dot"],
    "block": ["post_norm", "pre_norm", "sandwich", "parallel"],
    "feed_forward": ["mlp", "gated"],
    "feed_forward.activation": ["relu", "gelu", "gelu_tanh", "silu", "tanh"],
    "feed_forward.bias": [True, False],
    "d_ff": [40, [24, 32, 24]],
    "n_layers": [1, 2],
    "n_heads": [2, 4],
    "first_norm": [True, False],
    "final_norm": [True, False],
}
OF_ALL: dict[str, list[Any]] = {
    "embeddings.width": [16, 48],
    "embeddings.scale": [True, False],
    "embeddings.norm": [None, "layernorm", "rmsnorm"],
    "embeddings.shared": [True, False],
    "heads.language.tied": [True, False],
    "heads.language.bias": [True, False],
    "heads.language.scale": [True, False],
    "heads.masked_lm.activation": ["gelu", "relu", "gelu_tanh"],
    "heads.masked_lm.bias": [True, False],
    "pooler.activation": ["tanh", "relu"],
    "pooler.bias": [True, False],
}
CHANGES = [*OF_A_STACK.items(), *OF_A_STACK.items(), *OF_ALL.items()]  # those of a stack twice as often


def drawn(seed: int, vocab_size: int) -> tuple[Target, NativeClass, Model]:
    """A target's class, and its small example with one to three changes, of which some model can be made."""
    chance = random.Random(seed)
    while True:
        target, chosen = chance.choice(CLASSES)
        sides = {f"{side}.{name}": SIZES[name] for side in target.sides for name in ("n_heads", "d_ff", "n_layers")}
        sizes = {"d_model": SIZES["d_model"], "max_length": SIZES["max_length"], "vocab_size": vocab_size}
        changes: dict[str, Any] = {}
        for path, values in chance.sample(CHANGES, chance.randint(1, 3)):
            paths = [f"{side}.{path}" for side in target.sides] if path in OF_A_STACK else [path]
            changes |= dict.fromkeys(paths, chance.choice(values))
        try:
            settings = example_settings(target, {**sizes, **sides, "heads": list(chosen.heads), **changes})
            return target, chosen, disturb(Model(settings).initialize(0))
        except ValueError:  # such as an option that the chosen variant lacks
            continue


@EACH
def test_what_fits_a_target_goes_there_and_back_and_what_does_not_is_refused(
    seed: int, trained: dict[str, Tokenizer], tmp_path: Path
):
    target, chosen, model = drawn(seed, trained["bpe"].vocab_size)
    given = untold(model, trained["bpe"], list(chosen.heads))
    if target.obstacle(model.settings) is not None:
        with pytest.raises(ValueError, match=f"export: this model does not fit '{target.name}': "):
            export_model(given, tmp_path / "hf", target.name, reload)
        assert not (tmp_path / "hf").exists()
        return
    report = export_model(given, tmp_path / "hf", target.name, reload)
    assert report.class_name == chosen.name and report.check.differences["float64"] < 1e-10
    before, after = model.state_dict(), load_checkpoint(tmp_path / "hf").model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
