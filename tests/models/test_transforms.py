"""A model on a CPU under torch.func and torch.compile, beside autograd."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.models.token_table import TokenTable

VOCABULARY = 1100  # more than few classes


def loss_of(model: Model, parameters: dict[str, Tensor], narrow: bool) -> Tensor:
    tokens = torch.arange(5, 29).view(2, 12)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16, narrow):
        said: Tensor = torch.func.functional_call(model, parameters, (tokens,)).logits
    return F.cross_entropy(said.float().flatten(0, 1), tokens.flatten())


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("kind", ["gpt2-nano", "gpt-modern-nano"])
def test_gradients_are_those_of_autograd(kind: str, narrow: bool):
    model = create_model(kind, dropout=0.1, vocab_size=VOCABULARY).initialize(0).train()
    parameters = dict(model.named_parameters())
    found = torch.func.grad(lambda parameters: loss_of(model, parameters, narrow))(parameters)
    loss_of(model, {}, narrow).backward()
    error = 2**-6 if narrow else 1e-5  # the gradient of tied token vectors is added up otherwise
    for name, parameter in parameters.items():
        largest = float(parameter.grad.abs().max())
        torch.testing.assert_close(found[name], parameter.grad, rtol=error, atol=error * largest)


def test_a_compiled_model_has_no_token_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    model = create_model("gpt2-nano", vocab_size=VOCABULARY).train()
    with torch.autocast("cpu", torch.bfloat16):
        assert TokenTable.early(model.token_vectors, model.heads_by_name().values()) is None
