"""Slot `feed_forward`: the network applied to each position separately. The model supplies d_model and d_ff."""

from jaxtyping import Float
from torch import Tensor, nn

from zoo.blocks.activation import ActivationOption, activations
from zoo.blocks.dropout import Dropout
from zoo.blocks.projections import UsesFastLayers, project_each, project_one
from zoo.blocks.residual import IntoStream
from zoo.registry import Slot

feed_forwards: Slot[nn.Module] = Slot("feed_forward")


@feed_forwards.register("mlp")
class MLP(nn.Module, UsesFastLayers):
    """f(x W1 + b1) W2 + b2.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 2 (with relu).

    Args:
        activation: f, a registered activation.
        bias: whether the two maps have biases.
        dropout: fraction of the inner activations dropped in training.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: ActivationOption = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias)
        self.down = IntoStream(d_ff, d_model, bias)
        self.activation = activations.build(activation)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        inner = self.activation(project_one(x, self.up, self.fast_layers))
        return project_one(self.dropout(inner), self.down, self.fast_layers)


@feed_forwards.register("gated")
class GatedMLP(nn.Module, UsesFastLayers):
    """(f(x W) * x V) W2: swiglu with silu, geglu with gelu, reglu with relu.

    Source: Shazeer 2020, arXiv:2002.05202, equation 6.

    Args:
        activation: f, a registered activation.
        bias: whether the three maps have biases.
        dropout: fraction of the inner activations dropped in training.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: ActivationOption = "silu",
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias)
        self.up = nn.Linear(d_model, d_ff, bias)
        self.down = IntoStream(d_ff, d_model, bias)
        self.activation = activations.build(activation)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        gate, up = project_each(x, (self.gate, self.up), self.fast_layers)
        return project_one(self.dropout(self.activation(gate) * up), self.down, self.fast_layers)
