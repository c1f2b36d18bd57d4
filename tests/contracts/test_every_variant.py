"""What every registered variant keeps, in an encoder, in a decoder and between them."""

from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_model, save_model
from small_models import (
    DOCUMENTS,
    NAMES,
    OTHER,
    SLOTS,
    SOURCE,
    SOURCE_DOCUMENTS,
    TOKENS,
    VARIANTS,
    TokenVectors,
    build,
    label,
    others,
    say,
    with_document,
)
from torch import Tensor

from zoo.blocks.norm import NormOption, norms

REAL = DOCUMENTS > 0
EACH = pytest.mark.parametrize(("slot", "choice"), NAMES, ids=label)
EACH_OPTION = pytest.mark.parametrize(("slot", "choice"), VARIANTS, ids=label)


def test_every_option_of_every_variant_has_another_value_here():
    options = [option for slot in SLOTS.values() for name in slot.names() for option in slot.options(name).values()]
    unknown = {option.name for option in options if not others(option)}
    assert not unknown, f"add values to OTHER in tests/contracts/small_models.py: {', '.join(sorted(unknown))}"
    assert set(OTHER) <= {option.name for option in options}


def test_other_values_follow_from_an_options_type_and_default():
    def option(annotation: Any, default: Any) -> Parameter:
        return Parameter("some", Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    assert others(option(int, 3)) == [4] and others(option(float, 0.5)) == [0.25]
    assert others(option(float, 0.0)) == [0.3] and others(option(bool, True)) == [False]
    assert others(option(NormOption, "layernorm")) == norms.names()
    assert others(option(int | None, None)) == []  # a person must tell


@pytest.mark.shapes
@EACH_OPTION
def test_every_parameter_gets_a_finite_gradient(slot: str, choice: dict[str, Any]):
    model = build(slot, choice).train()
    logits = say(model)
    assert logits.shape == (2, 10, 30)
    logits[REAL].square().mean().backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


@EACH_OPTION
def test_bfloat16_stays_finite_and_near(slot: str, choice: dict[str, Any]):
    model = build(slot, choice)
    expected = say(model)
    logits = say(model.bfloat16())
    logits[REAL].float().square().mean().backward()
    assert logits.dtype == torch.bfloat16
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert (logits.float() - expected)[REAL].square().mean() < 0.01 * expected[REAL].square().mean()


@EACH
def test_one_token_is_enough(slot: str, choice: dict[str, Any]):
    model = build(slot, choice)
    assert model(TOKENS[:, :1], SOURCE[:, :1]).logits.isfinite().all()


@EACH_OPTION
def test_the_future_cannot_change_the_past(slot: str, choice: dict[str, Any]):
    model, changed = build(slot, choice), TOKENS.clone()
    changed[:, 4:] = (changed[:, 4:] + 7) % 30
    said, other = (model(tokens, SOURCE).logits for tokens in (TOKENS, changed))
    assert torch.equal(said[:, :4], other[:, :4])
    assert not torch.equal(said[:, 4:], other[:, 4:])


@EACH_OPTION
@pytest.mark.parametrize("weights", [False, True], ids=["sdpa", "eager"])
def test_documents_and_padding_cannot_be_seen_from_other_documents(slot: str, choice: dict[str, Any], weights: bool):
    model = build(slot, choice)
    vectors = TokenVectors(model)

    def read(tokens: Tensor, source: Tensor) -> list[Tensor]:
        """Logits, and gradients of the loss of all documents with respect to the source's and the tokens' vectors."""
        logits = say(model, tokens, source, weights)
        logits[REAL].square().sum().backward()
        return [logits, *vectors.gradients()]

    before = read(TOKENS, SOURCE)
    for number in (2,) if weights else (0, 2):
        after = read(with_document(TOKENS, DOCUMENTS, number), with_document(SOURCE, SOURCE_DOCUMENTS, number))
        for documents, old, new in zip((DOCUMENTS, SOURCE_DOCUMENTS, DOCUMENTS), before, after, strict=True):
            other = (documents != number) & (documents > 0)
            assert torch.equal(old[other], new[other])  # bit by bit
            assert new.isfinite().all()
        changed = not torch.equal(before[0][DOCUMENTS == number], after[0][DOCUMENTS == number])
        assert changed or number == 0  # what is said where there is no document may be nothing


def alone(tokens: Tensor, documents: Tensor, row: int, number: int) -> Tensor:
    return tokens[row, documents[row] == number][None]


@EACH_OPTION
def test_a_packed_document_says_what_it_says_alone(slot: str, choice: dict[str, Any]):
    model = build(slot, choice, torch.float64)
    packed = say(model)
    for row, number in ((0, 2), (0, 3), (1, 1)):
        single = model(alone(TOKENS, DOCUMENTS, row, number), alone(SOURCE, SOURCE_DOCUMENTS, row, number)).logits
        torch.testing.assert_close(packed[row, DOCUMENTS[row] == number], single[0], rtol=1e-6, atol=1e-6)


@pytest.mark.shapes
@EACH
def test_weights_on_request_change_no_logits(slot: str, choice: dict[str, Any]):
    model = build(slot, choice, torch.float64)
    torch.testing.assert_close(say(model, weights=True), say(model), rtol=1e-9, atol=1e-9)


@EACH
def test_the_same_seed_drops_the_same_and_evaluation_drops_nothing(slot: str, choice: dict[str, Any]):
    model, said = build(slot, choice).train(), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        said.append(say(model))
    assert torch.equal(said[0], said[1]) and not torch.equal(said[0], said[2])
    assert torch.equal(say(model.eval()), say(model))


@EACH
def test_a_model_is_the_same_after_safetensors(slot: str, choice: dict[str, Any], tmp_path: Path):
    model = build(slot, choice)
    save_model(model, str(tmp_path / "model.safetensors"))
    fresh = build(slot, choice).initialize(5)
    load_model(fresh, tmp_path / "model.safetensors")
    assert torch.equal(say(fresh), say(model))
