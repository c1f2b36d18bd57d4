"""Linear layers that initialization treats specially because of their role in a layer."""

from torch import nn


class IntoStream(nn.Linear):
    """A linear layer whose output is added to the residual stream; initializers may scale it by depth."""


class IntoScores(nn.Linear):
    """A linear layer to the queries of all heads; initializers may scale it by `d_key`."""

    def __init__(self, d_model: int, n_heads: int, d_key: int, bias: bool) -> None:
        super().__init__(d_model, n_heads * d_key, bias)
        self.d_key = d_key
