"""The linear map that ends a sublayer."""

from torch import nn


class IntoStream(nn.Linear):
    """A linear map whose output is added to the residual stream; initialisers may scale it by depth."""
