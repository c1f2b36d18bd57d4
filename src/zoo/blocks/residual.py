"""Linear maps whose place in a layer decides how they begin."""

from torch import nn


class IntoStream(nn.Linear):
    """A linear map whose output is added to the residual stream; initialisers may scale it by depth."""


class IntoScores(nn.Linear):
    """A linear map to the queries of all heads; initialisers may scale it by their width."""

    def __init__(self, d_model: int, n_heads: int, d_key: int, bias: bool) -> None:
        super().__init__(d_model, n_heads * d_key, bias)
        self.d_key = d_key
