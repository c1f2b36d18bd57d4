"""What every registered head keeps, on an encoder and on a decoder."""

import pytest
import torch
from small_models import DOCUMENTS, TOKENS, with_document

from zoo import create_model
from zoo.models.heads.head import heads
from zoo.models.model import Model

pytestmark = pytest.mark.shapes
EACH = pytest.mark.parametrize("name", heads.names())
MODELS = pytest.mark.parametrize("model_name", ["bert-nano", "gpt-nano"])
N_DOCUMENTS = 5


def build(model_name: str, name: str) -> Model:
    return create_model(model_name, heads=[name], vocab_size=30, d_model=16).eval()


@MODELS
@EACH
def test_a_head_scores_every_position_or_every_document(model_name: str, name: str):
    model = build(model_name, name)
    logits = model(TOKENS, documents=DOCUMENTS).logits
    assert logits.shape[:-1] == ((N_DOCUMENTS,) if model.heads[name].scores_documents else (2, 10))


@MODELS
@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_parameter_gets_a_finite_gradient_and_empty_positions_add_none(
    model_name: str, name: str, dtype: torch.dtype
):
    model = build(model_name, name).to(dtype).train()
    logits = model(TOKENS, documents=DOCUMENTS, places={name: torch.tensor([3, -1, 12])}).logits
    assert logits.shape[0] == 3 and logits.dtype == dtype
    logits.float().square().mean().backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


@MODELS
@EACH
def test_a_head_scores_a_document_by_its_own_content(model_name: str, name: str):
    model = build(model_name, name)
    said, other = (
        model(tokens, documents=DOCUMENTS).logits for tokens in (TOKENS, with_document(TOKENS, DOCUMENTS, 2))
    )
    unchanged = DOCUMENTS == 1
    if model.heads[name].scores_documents:
        unchanged = torch.tensor([True, False, True, True, False])  # documents in reading order
    assert torch.equal(said[unchanged], other[unchanged]) and not torch.equal(said, other)


@MODELS
@EACH
def test_a_batch_without_documents_can_be_scored(model_name: str, name: str):
    model = build(model_name, name).train()
    logits = model(TOKENS, documents=torch.zeros_like(TOKENS), places={name: torch.tensor([-1, -1])}).logits
    assert logits.shape[0] == 2 and logits.isfinite().all()
    (0.0 * logits.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
