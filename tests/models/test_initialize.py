"""First values: the distributions that were published."""

import pytest
import torch
from torch import Tensor, nn

from zoo import create_model
from zoo.blocks.residual import IntoScores, IntoStream
from zoo.models.blank import blank
from zoo.models.initialize import initializers
from zoo.models.model import Model
from zoo.models.settings import load_settings


def model(name: str, seed: int = 0) -> Model:
    return create_model(name, seed=seed, vocab_size=500, **({} if name == "gpt2-nano" else {"d_model": 64}))


def weights(module: nn.Module, kind: type[nn.Module]) -> dict[str, Tensor]:
    return {name: m.weight.detach() for name, m in module.named_modules() if type(m) is kind}


def together(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors.values()])


@pytest.mark.parametrize("name", ["gpt-nano", "gpt2-nano"])
def test_matrices_and_tables_of_gpt_are_normal_with_deviation_002(name: str):
    built = model(name)
    for kind in (nn.Linear, IntoScores, nn.Embedding):
        drawn = together(weights(built, kind))
        assert drawn.std() == pytest.approx(0.02, rel=0.05) and abs(drawn.mean()) < 5e-4
        assert drawn.abs().max() > 3 * 0.02


@pytest.mark.parametrize(("name", "factor"), [("gpt-nano", 1.0), ("gpt2-nano", (2 * 2) ** -0.5)])
def test_maps_into_the_stream_of_gpt2_are_scaled_by_their_number(name: str, factor: float):
    assert together(weights(model(name), IntoStream)).std() == pytest.approx(0.02 * factor, rel=0.05)


def test_matrices_and_tables_of_bert_are_truncated_at_two_deviations():
    built = model("bert-nano")
    drawn = together(weights(built, nn.Linear) | weights(built, nn.Embedding) | weights(built, IntoStream))
    assert drawn.abs().max() <= 2 * 0.02
    assert drawn.std() == pytest.approx(0.02 * 0.8796, rel=0.03)  # of a normal cut off at two deviations


def test_matrices_of_the_2017_transformer_are_uniform_within_glorots_bound():
    built = model("transformer-nano")
    for name, drawn in (weights(built, nn.Linear) | weights(built, IntoScores) | weights(built, IntoStream)).items():
        bound = (6 / sum(drawn.shape)) ** 0.5
        assert drawn.abs().max() <= bound, name
        assert drawn.std() == pytest.approx(bound / 3**0.5, rel=0.1), name


def test_token_vectors_of_the_2017_transformer_have_length_about_1():
    drawn = model("transformer-nano").encoder.embeddings.tokens.weight.detach()
    assert drawn.std() == pytest.approx(64**-0.5, rel=0.05)


def test_maps_of_t5_keep_the_size_of_what_they_read_and_queries_are_divided_by_the_root_of_their_width():
    built = create_model("t5-nano", vocab_size=500, d_model=64, **{"heads.language.tied": False})
    for kind, factor in ((nn.Linear, 1.0), (IntoStream, 1.0), (IntoScores, 16**-0.5)):
        for name, drawn in weights(built, kind).items():
            assert drawn.std() == pytest.approx(factor * drawn.shape[1] ** -0.5, rel=0.1), name
    assert built.encoder.embeddings.tokens.weight.detach().std() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("name", ["gpt2-nano", "bert-nano", "transformer-nano"])
def test_biases_begin_at_0_and_gains_at_1(name: str):
    for key, parameter in model(name).named_parameters():
        if key.endswith("bias"):
            assert not parameter.any(), key
        elif "norm" in key:
            assert (parameter == 1).all(), key


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    first, second, other = (model("bert-nano", seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["pooler.dense.weight"], other["pooler.dense.weight"])


def test_building_a_model_leaves_torchs_own_generator_unread_by_the_initializer():
    built = model("gpt2-nano")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    built.initialize(1)
    assert torch.equal(before, torch.get_rng_state())


def test_models_that_differ_in_heads_alone_begin_with_the_same_parts():
    one, other = (create_model("bert-nano", heads=heads) for heads in (["masked_lm"], ["next_sentence", "masked_lm"]))
    found = other.encoder.state_dict()
    assert all(torch.equal(value, found[key]) for key, value in one.encoder.state_dict().items())


@pytest.mark.parametrize("name", initializers.names())
def test_every_initializer_draws_from_its_generator_alone(name: str):
    drawn = []
    for _ in range(2):
        weight, generator = torch.empty(5, 7), torch.Generator().manual_seed(0)
        initializers.build(name).matrix(weight, generator)
        drawn.append(weight)
    assert torch.equal(*drawn) and drawn[0].unique().numel() == 35


@pytest.mark.parametrize("cell", ["gru", "lstm", "vanilla"])
def test_maps_of_a_state_to_itself_are_orthogonal_gate_by_gate_and_follow_the_seed(cell: str):
    changes = {"mixer": {"name": "recurrent", "cell": cell}, "initialize": "xavier"}
    built = [create_model("gpt2-nano", seed=seed, **changes) for seed in (0, 0, 1)]
    kernels = [each.decoder.stack.blocks[0].mixer.cell.kernel for each in built]
    for gate in kernels[0].weight_hh_l0.detach().view(-1, 32, 32):
        torch.testing.assert_close(gate @ gate.T, torch.eye(32), rtol=1e-5, atol=1e-5)
    drawn = kernels[0].weight_ih_l0.detach()
    assert drawn.abs().max() <= (6 / 64) ** 0.5 and drawn.std() == pytest.approx((2 / 64) ** 0.5, rel=0.1)
    assert torch.equal(drawn, kernels[1].weight_ih_l0) and not torch.equal(drawn, kernels[2].weight_ih_l0)


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16], ids=str)
def test_a_recurrent_model_is_drawn_in_a_short_default_type_of_torch(default: torch.dtype):
    usual = create_model("rnn-attention-nano").state_dict()
    torch.set_default_dtype(default)
    try:
        found = create_model("rnn-attention-nano").state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    name = "decoder.layers.0.kernel.weight_hh_l0"
    torch.testing.assert_close(found[name], usual[name].to(default))


def test_filters_of_a_convolution_keep_the_variance_of_what_they_read():
    mixer = {"name": "convolution", "kernel": 9, "depthwise": True}
    drawn = create_model("gpt2-nano", d_model=128, mixer=mixer).decoder.stack.blocks[0].mixer.filters.weight.detach()
    assert drawn.std() == pytest.approx(1 / 3, rel=0.1)


def test_mimetic_keys_begin_as_the_queries_and_positions_as_sinusoids():
    built = create_model("bert-nano", vocab_size=500, d_model=64, initialize="mimetic")
    assert built.encoder is not None
    attention = built.encoder.stack.blocks[0].mixer.attention.requires_grad_(False)
    assert torch.equal(attention.query.weight, attention.key.weight)
    assert attention.query.weight.std() == pytest.approx(0.05, rel=1e-4)
    table = built.encoder.stack.positions[0].table.weight.detach()
    assert torch.allclose(table[3, 4], torch.sin(torch.tensor(3 / 10000 ** (4 / 64))) * 0.02 * 2**0.5, atol=1e-7)
    assert table.square().mean().sqrt() == pytest.approx(0.02, rel=1e-3)


def test_mimetic_heads_of_one_group_share_the_first_ones_map():
    options = {"decoder.attention": {"name": "grouped", "n_kv_heads": 2}, "decoder.n_heads": 4}
    built = create_model("gpt2-nano", vocab_size=500, initialize="mimetic", **options)
    attention = built.decoder.stack.blocks[0].mixer.attention
    queries, keys = (m.weight.unflatten(0, (-1, attention.d_key)) for m in (attention.query, attention.key))
    assert torch.equal(keys, queries[[0, 2]])


def test_mimetic_vectors_keep_their_size_on_the_way_to_a_narrower_generator():
    small = [{"name": "replaced_token", "generator_width": 0.5}, "masked_lm"]
    options = {"vocab_size": 500, "d_model": 128, "heads": small}
    built, plain = (create_model("bert-nano", **options, initialize=name) for name in ("mimetic", "normal"))
    assert built.generator is not None and plain.generator is not None
    table = built.generator.embeddings
    assert table.project.weight.shape == (64, 128)
    vectors = table.norm(table.tokens.weight).detach()
    assert vectors.std() == pytest.approx(1, rel=0.01)
    assert table.project(vectors).std().item() == pytest.approx(1, rel=0.05)
    assert plain.generator.embeddings.project(vectors).std().item() < 0.3  # 0.02 sqrt(128)


def test_mimetic_leaves_attention_to_a_memory_as_it_was_drawn():
    plain, mimetic = (
        create_model("transformer-nano", vocab_size=500, initialize=name) for name in ("normal", "mimetic")
    )
    for first, second in zip(plain.decoder.stack.blocks, mimetic.decoder.stack.blocks, strict=True):
        assert torch.equal(first.cross.key.weight, second.cross.key.weight)
        assert not torch.equal(first.mixer.attention.key.weight, second.mixer.attention.key.weight)


@pytest.mark.parametrize("std", [0.0, -0.1])
@pytest.mark.parametrize("name", ["normal", "mimetic"])
@pytest.mark.parametrize("truncated", [True, False])
def test_a_deviation_of_nothing_or_less_is_refused_before_anything_is_drawn(name: str, std: float, truncated: bool):
    settings = load_settings("bert-nano", [(("initialize",), {"name": name, "std": std, "truncated": truncated})])
    with pytest.raises(ValueError, match=f"initialize: std must be above 0, got {std}"):
        blank(settings, "meta")


@pytest.mark.parametrize("scores", [0.0, -0.05])
def test_queries_and_keys_of_nothing_or_less_are_refused(scores: float):
    with pytest.raises(ValueError, match=f"initialize: scores must be above 0, got {scores}"):
        initializers.build({"name": "mimetic", "scores": scores})
