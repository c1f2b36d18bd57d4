"""Slot `activation`: the elementwise nonlinearity. The model supplies no arguments."""

from typing import Annotated

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.registry import Choice, Slot

# not torch's classes, whose arguments (inplace, approximate) would become options in model files
activations: Slot[nn.Module] = Slot("activation")
ActivationOption = Annotated[str | Choice[nn.Module], activations]


@activations.register("relu")
class ReLU(nn.Module):
    """max(0, x)."""

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.relu(x)


@activations.register("gelu")
class GELU(nn.Module):
    """x Phi(x), with the exact cumulative distribution function Phi of the standard normal distribution.

    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2; used by BERT.
    """

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.gelu(x)


@activations.register("gelu_tanh")
class GELUTanh(nn.Module):
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the approximation of GELU that GPT uses.

    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
    """

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.gelu(x, approximate="tanh")


@activations.register("silu")
class SiLU(nn.Module):
    """x sigmoid(x), also called swish.

    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415; as swish: Ramachandran et al. 2017.
    """

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.silu(x)


@activations.register("relu_squared")
class ReLUSquared(nn.Module):
    """max(0, x) squared.

    Source: So et al. 2021 (Primer), arXiv:2109.08668, section 3.
    """

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.relu(x).square()


@activations.register("tanh")
class Tanh(nn.Module):
    """tanh(x), used by BERT's pooler."""

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return F.tanh(x)
