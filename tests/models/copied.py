"""Small tables that carry the weights of transformers' and torch's models into ours."""

from typing import Any

import torch
from torch import Tensor, nn

from zoo import create_model
from zoo.models.model import Model

State = dict[str, Tensor]


def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    """In evaluation mode, with parameters that are all different: biases, gains and zeroed rows too."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        center = (
            1.0 if name.endswith(("norm.weight", "Norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight")) else 0
        )
        nn.init.normal_(parameter, center, 0.2, generator=generator)
    return module.eval()


def take(ours: str, theirs: nn.Module) -> State:
    """Weight and bias (where there is one) under our name."""
    return {f"{ours}.{name}": parameter.detach() for name, parameter in theirs.named_parameters()}


def transposed(ours: str, conv: nn.Module) -> State:
    """A GPT `Conv1D`, whose weight is a linear map's, transposed."""
    return {f"{ours}.weight": conv.weight.detach().T, f"{ours}.bias": conv.bias.detach()}


def split(ours: str, weight: Tensor, bias: Tensor | None = None) -> State:
    """One map of queries, keys and values (3 d_model, d_model) as three."""
    names = ("query", "key", "value")
    state = {f"{ours}.{name}.weight": w for name, w in zip(names, weight.detach().chunk(3), strict=True)}
    if bias is not None:
        state |= {f"{ours}.{name}.bias": b for name, b in zip(names, bias.detach().chunk(3), strict=True)}
    return state


def load(name: str, state: State, **changes: Any) -> Model:
    """Our model of that name with exactly these weights; a matrix that both sides share may be given once."""
    model = create_model(name, **changes)
    shared = "decoder.stack.embeddings.tokens.weight"
    if model.encoder is not None and shared in state:
        state = {**state, "encoder.stack.embeddings.tokens.weight": state[shared]}
    model.to(next(iter(state.values())).dtype).load_state_dict(state)
    return model.eval()


def close(ours: Tensor, theirs: Tensor) -> None:
    """Equal up to rounding: float64 separates rounding from a mistake."""
    tolerance = 1e-10 if theirs.dtype == torch.float64 else 2e-5
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
