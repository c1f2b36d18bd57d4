"""Claims about learning rates by layer: full at the heads, less in each layer below, least at the embeddings."""

import pytest

from zoo.models.create import create_model
from zoo.models.kinds.part import Part
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.weights.depth import depths, set_rate_shares

BLOCKS = {"stack.blocks.0": 2, "stack.blocks.1": 1, "stack.embeddings": 3, "stack.positions": 3, "stack.norm": 0}
DEPTHS = {  # of the parameters whose names begin so; every parameter of the model is named
    "bert-nano": {**{f"encoder.{name}": depth for name, depth in BLOCKS.items()}, "heads": 0, "pooler": 0},
    "gpt2-nano": {f"decoder.{name}": depth for name, depth in BLOCKS.items()},
    "t5-nano": {f"{part}.{name}": depth for name, depth in BLOCKS.items() for part in ("encoder", "decoder")},
    "captioner-rnn-nano": {
        **{f"encoder.{name}": depth for name, depth in {"stages.0": 2, "stages.1": 1, "norm": 0, "output": 0}.items()},
        **{f"decoder.{name}": depth for name, depth in {"embed": 2, "layers.0": 1, "attention": 0}.items()},
        **dict.fromkeys(("decoder.begin", "decoder.readout", "heads"), 0),
    },
    "rnn-seq2seq-nano": {
        **{"encoder.embed": 2, "encoder.layers.0": 1, "decoder.layers.0": 1},
        **dict.fromkeys(("decoder.begin", "decoder.readout"), 0),
    },
}


@pytest.mark.parametrize("name", DEPTHS)
def test_depth_counts_layers_from_the_heads_down(name: str):
    model = create_model(name)
    found = depths(model)
    for parameter_name, parameter in model.named_parameters():
        (expected,) = (depth for start, depth in DEPTHS[name].items() if parameter_name.startswith(f"{start}."))
        assert found.get(id(parameter), 0) == expected, parameter_name


@pytest.mark.parametrize("name", DEPTHS)
def test_every_kind_of_part_names_its_layers(name: str):
    for part in (module for module in create_model(name).modules() if isinstance(module, Part)):
        assert len(part.layers_upward()) == part.n_layers


@pytest.mark.parametrize("layers", [(1, 3), (3, 1)])
def test_a_table_that_two_parts_share_lies_as_deep_as_in_the_deeper_one(layers: tuple[int, int]):
    model = create_model("t5-nano", **{"encoder.n_layers": layers[0], "decoder.n_layers": layers[1]})
    assert depths(model)[id(model.encoder.embeddings.tokens.weight)] == 4


@pytest.mark.parametrize("name", optimizers.names())
def test_every_optimizer_gets_rates_by_depth_and_keeps_its_other_options(name: str):
    model = create_model("bert-nano")
    optimizer, before = optimizers.build(name, model, 0.1), optimizers.build(name, model, 0.1)
    set_rate_shares(optimizer, model, 0.5)
    found = depths(model)
    options = {id(p): {k: v for k, v in g.items() if k != "params"} for g in before.param_groups for p in g["params"]}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            assert {**options.pop(id(parameter)), "share": 0.5 ** found.get(id(parameter), 0)} == {
                key: value for key, value in group.items() if key != "params"
            }
    assert not options
