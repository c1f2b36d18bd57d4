"""Claims about a model's generator: what it shares, how large it is, what it draws, and what of it learns."""

from typing import Any

import pytest
import torch
import transformers

from zoo import create_model
from zoo.annotations import PerLayer
from zoo.models.cost import on_meta, parameters, parameters_of_generator
from zoo.models.generator import times
from zoo.models.heads.scores import DRAW_BITS, Scores
from zoo.models.model import Model
from zoo.models.settings import load_settings

PAIR = ["replaced_token", "masked_lm"]
TOKENS = torch.randint(7, 300, (3, 10), generator=torch.Generator().manual_seed(0))
PLACES = {"masked_lm": torch.tensor([2, 4, 9, 13, 29, -1, -1])}  # not 0, where one that is none must not be put
DRAWS = torch.randint(2**DRAW_BITS, (3, 10), generator=torch.Generator().manual_seed(1))


def build(name: str = "electra-nano", **changes: Any) -> Model:
    return create_model(name, heads=PAIR, dropout=0.0, **changes)


def own(model: Model) -> list[str]:
    """The parameters that the generator does not share."""
    return [name for name, _ in model.named_parameters() if name.startswith("generator.")]


def test_it_reads_the_vectors_that_the_encoder_reads():
    model = build()
    one, other = (dict(part.named_parameters()) for part in (model.generator, model.encoder) if part is not None)
    shared = {name for name in one if one[name] is other[name]}
    inputs = {"embeddings.tokens.weight", "embeddings.segments.weight", "positions.0.table.weight"}
    assert shared == {f"stack.{name}" for name in inputs | {"embeddings.norm.weight", "embeddings.norm.bias"}}


def test_its_size_is_a_share_of_the_encoders_heads_widths_and_layers():
    generator = build("electra-small", vocab_size=50, **{"heads.replaced_token.generator_depth": 0.5}).generator
    assert generator is not None and (generator.d_model, generator.n_layers) == (64, 6)
    attention, _ = next(generator.attentions())
    assert attention.n_heads == 1 and (256, 64) in {tuple(p.shape) for p in generator.parameters()}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("electra-small", {}),
        ("electra-base", {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12,
                          "intermediate_size": 3072}),
    ],
)  # fmt: skip
def test_without_its_generator_a_shipped_model_has_the_published_number_of_parameters(name: str, sizes: dict[str, Any]):
    with torch.device("meta"):
        theirs = transformers.ElectraForPreTraining(transformers.ElectraConfig(**sizes))
        ours = on_meta(load_settings(name))
    assert parameters(ours) - parameters_of_generator(ours) == sum(p.numel() for p in theirs.parameters())


def test_the_encoder_begins_as_it_does_without_a_generator():
    alone = create_model("electra-nano", heads=["replaced_token"]).state_dict()
    both = build().state_dict()
    assert alone and all(torch.equal(alone[name], both[name]) for name in alone)


def test_the_encoder_reads_what_the_generator_guessed():
    model = build().eval()
    said = model(TOKENS, places=PLACES, draws=DRAWS)
    assert said.read is not None
    elsewhere = torch.ones(30, dtype=torch.bool)
    elsewhere[[2, 4, 9, 13, 29]] = False
    assert torch.equal(said.read.flatten()[elsewhere], TOKENS.flatten()[elsewhere])
    assert not torch.equal(said.read, TOKENS)
    detected = model(said.read, places=PLACES).heads["replaced_token"]
    torch.testing.assert_close(said.heads["replaced_token"], detected)


def test_a_position_has_the_same_guess_in_whatever_order_positions_are_scored():
    model = build().eval()
    turned = {"masked_lm": PLACES["masked_lm"].flip(0)}
    one, other = (model(TOKENS, places=places, draws=DRAWS).read for places in (PLACES, turned))
    assert one is not None and other is not None and torch.equal(one, other)


def test_no_gradient_of_the_detection_reaches_the_generator():
    model = build()
    model(TOKENS, places=PLACES, draws=DRAWS).heads["replaced_token"].square().sum().backward()
    named = dict(model.named_parameters())
    assert own(model) and all(named[name].grad is None for name in own(model))
    assert all(named[name].grad is not None for name in named if name.startswith("encoder."))


def test_a_share_of_a_size_is_rounded_and_at_least_1():
    assert [times(12, 0.33), times(12, 0.3), times(3, 0.1)] == [4, 4, 1]
    assert times(PerLayer((12, 6)), 0.33) == PerLayer((4, 2))


def test_without_draws_the_encoder_reads_its_tokens():
    said = build().eval()(TOKENS, places=PLACES)
    assert said.read is None and set(said.heads) == set(PAIR)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-nano", {}),
        ("bert-modern-nano", {}),
        ("electra-nano", {}),
        ("bert-nano", {"encoder": {"kind": "recurrent", "n_layers": 1}}),
    ],
)
def test_every_kind_of_encoder_can_have_one(name: str, changes: dict[str, Any]):
    model = build(name, **changes)
    assert model(TOKENS, places=PLACES, draws=DRAWS).read is not None


def test_a_draw_has_the_probabilities_of_the_softmax():
    logits = torch.tensor([[0.0, 2.0, -1.0, 0.5, -999.0]], dtype=torch.float64)
    count = 200_000
    draws = torch.arange(count) * 2**DRAW_BITS // count  # evenly: each class gets its share of them
    half = logits[0] / 2  # the bias adds the other half
    picked = Scores(half.expand(count, -1), torch.eye(5, dtype=half.dtype), half).sample(draws)
    shares = torch.bincount(picked, minlength=5) / count
    torch.testing.assert_close(shares.double(), logits.softmax(-1)[0], atol=2e-5, rtol=0)


def test_the_largest_and_the_smallest_number_draw_a_class_that_has_a_share():
    logits = torch.tensor([[-999.0, 0.0, -50.0, 1.0, -999.0]]).expand(2, -1)
    assert Scores.from_logits(logits).sample(torch.tensor([0, 2**DRAW_BITS - 1])).tolist() == [1, 3]


def test_what_is_not_finite_draws_some_class():
    picked = Scores.from_logits(torch.full((2, 5), float("nan"))).sample(torch.tensor([3, 2**DRAW_BITS - 1]))
    assert ((picked >= 0) & (picked < 5)).all()


def test_a_position_draws_the_same_whatever_else_is_drawn():
    generator = torch.Generator().manual_seed(3)
    logits, draws = torch.randn(50, 40_000, generator=generator), torch.randint(2**DRAW_BITS, (50,))
    together = Scores.from_logits(logits[:, :11]).sample(draws)
    assert torch.equal(together[7:8], Scores.from_logits(logits[7:8, :11]).sample(draws[7:8]))
    table = torch.eye(8)[torch.arange(40_000) % 8]  # a vocabulary of which some rows are drawn at a time
    states = torch.randn(50, 8, generator=generator)
    assert torch.equal(Scores(states, table).sample(draws)[40:], Scores(states[40:], table).sample(draws[40:]))


def test_a_decoder_has_no_generator_and_no_other_width():
    with pytest.raises(ValueError, match=r"heads\.replaced_token: only an encoder without a decoder can have it"):
        create_model("gpt2-nano", heads=PAIR)
    with pytest.raises(ValueError, match=r"embeddings\.width: only an encoder without a decoder can have it"):
        create_model("gpt2-nano", **{"embeddings.width": 16})


@pytest.mark.parametrize("name", ["generator_width", "generator_depth"])
def test_a_share_must_be_a_share(name: str):
    with pytest.raises(ValueError, match=rf"heads\.replaced_token\.{name}: must be above 0 and at most 1, got 1\.5"):
        build(**{f"heads.replaced_token.{name}": 1.5})


def test_a_size_that_cannot_be_built_is_named():
    grouped = {"encoder.attention": {"name": "grouped", "n_kv_heads": 2}}
    with pytest.raises(ValueError, match=r"heads\.replaced_token\.generator_width: no generator of this size: n_heads"):
        build("bert-nano", **grouped)
