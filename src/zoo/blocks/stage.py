"""Slot `stage`: a stage of an image encoder, from one grid of features to the next. The model supplies d_input."""

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.blocks.activation import ActivationOption, activations
from zoo.blocks.attention import FullAttention
from zoo.blocks.rows.view import View
from zoo.blocks.score import ScoreOption
from zoo.registry import Choice, Slot, refuse_below

Padding = Literal["zeros", "replicate"]  # of a convolution, at the image border
Grid = Float[Tensor, "batch d_input height width"]
NextGrid = Float[Tensor, "batch d_output next_height next_width"]


class Stage(nn.Module, ABC):
    """Maps a grid of features to the next one.

    Attributes:
        d_output: number of output channels.
        stride: each side is divided by it (rounded up).
    """

    d_output: int
    stride: int = 1

    @abstractmethod
    def forward(self, x: Grid, view: View) -> NextGrid:
        """Compute the next grid.

        Args:
            view: of the grid's cells in row-major order, for attention; each sees all others.
        """


stages: Slot[Stage] = Slot("stage")
StageOption = Annotated[Choice[Stage], stages]


def group_norm(groups: int, d_input: int) -> nn.GroupNorm:
    """Build a group norm, which normalizes each image by itself, so that no output depends on the rest of the batch.

    Source: Wu & He 2018, arXiv:1803.08494. torch computes its mean and variance in float32.

    Raises:
        ValueError: the groups do not divide the channels.
    """
    if groups < 1 or d_input % groups:
        raise ValueError(f"groups ({groups}) must be at least 1 and divide the channels that it normalizes ({d_input})")
    return nn.GroupNorm(groups, d_input)


def convolve(d_input: int, width: int, kernel: int, stride: int, padding: Padding) -> nn.Conv2d:
    """Build a centered convolution without bias.

    Raises:
        ValueError: a size is below 1, or the kernel is even.
    """
    refuse_below(1, width=width, kernel=kernel, stride=stride)
    if kernel % 2 == 0:
        raise ValueError(f"kernel must be odd, got {kernel}")
    return nn.Conv2d(d_input, width, kernel, stride, kernel // 2, bias=False, padding_mode=padding)


@stages.register("convolution")
class ConvolutionStage(Stage):
    """A single convolution, usually the first stage, on pixels.

    Args:
        width: number of output channels.
        kernel: side of the kernel (cells), odd.
        stride: each side of the grid is divided by it.
        padding: zeros, which let the network detect the image border, or replicate, which repeats the border cells.
    """

    def __init__(
        self, d_input: int, *, width: int, kernel: int = 3, stride: int = 1, padding: Padding = "zeros"
    ) -> None:
        super().__init__()
        self.d_output, self.stride = width, stride
        self.filters = convolve(d_input, width, kernel, stride, padding)

    def forward(self, x: Grid, view: View) -> NextGrid:
        return self.filters(x)


class ResidualBlock(nn.Module):
    """x + conv(f(norm(conv(f(norm(x)))))); if the shape changes, a 1x1 convolution of f(norm(x)) replaces the first x.

    Source: He et al. 2016, arXiv:1603.05027, figure 4e (full pre-activation), with group norms.
    """

    def __init__(
        self,
        d_input: int,
        stride: int,
        width: int,
        kernel: int,
        groups: int,
        activation: ActivationOption,
        padding: Padding,
    ) -> None:
        super().__init__()
        self.first_norm = group_norm(groups, d_input)
        self.first = convolve(d_input, width, kernel, stride, padding)
        self.second_norm = group_norm(groups, width)
        self.second = convolve(width, width, kernel, 1, padding)
        same = d_input == width and stride == 1
        self.skip = None if same else nn.Conv2d(d_input, width, 1, stride, bias=False)
        self.activation = activations.build(activation)

    def forward(self, x: Grid) -> NextGrid:
        read = self.activation(self.first_norm(x))
        skipped = x if self.skip is None else self.skip(read)
        return skipped + self.second(self.activation(self.second_norm(self.first(read))))


@stages.register("residual")
class ResidualStage(Stage):
    """Residual blocks of two convolutions each; the first block applies the stride.

    Source: He et al. 2016, arXiv:1603.05027; group norms: Wu & He 2018, arXiv:1803.08494.

    Args:
        width: number of output channels.
        n_blocks: number of residual blocks.
        stride: each side of the grid is divided by it.
        groups: number of groups of the group norms.
        activation: f, a registered activation.
        kernel: side of the kernels (cells), odd; with 1, cells do not mix.
        padding: as in stage `convolution`.
    """

    def __init__(
        self,
        d_input: int,
        *,
        width: int,
        n_blocks: int = 1,
        stride: int = 1,
        groups: int = 8,
        activation: ActivationOption = "relu",
        kernel: int = 3,
        padding: Padding = "zeros",
    ) -> None:
        super().__init__()
        refuse_below(1, n_blocks=n_blocks)
        self.d_output, self.stride = width, stride
        first = ResidualBlock(d_input, stride, width, kernel, groups, activation, padding)
        others = [ResidualBlock(width, 1, width, kernel, groups, activation, padding) for _ in range(n_blocks - 1)]
        self.blocks = nn.ModuleList([first, *others])

    def forward(self, x: Grid, view: View) -> NextGrid:
        for block in self.blocks:
            x = block(x)
        return x


@stages.register("attention")
class AttentionStage(Stage):
    """x + g attention(x): every cell of the grid attends to all others; g is learned and starts at 0.

    The projections to queries, keys, values and output are 1x1 convolutions, that is linear layers applied per cell.
    Source: Zhang et al. 2019 (SAGAN), arXiv:1805.08318, section 3, but scores are scaled as in Vaswani et al. 2017.

    Args:
        n_heads: number of heads.
        d_key, d_value: width of a head; None: an eighth and a half of the channels, divided among the heads.
        groups: number of groups of a group norm on the input; None: no norm, as published.
        score: a registered score.
    """

    def __init__(
        self,
        d_input: int,
        *,
        n_heads: int = 1,
        d_key: int | None = None,
        d_value: int | None = None,
        groups: int | None = None,
        score: ScoreOption = "scaled_dot",
    ) -> None:
        super().__init__()
        refuse_below(1, n_heads=n_heads)
        self.d_output = d_input
        self.norm = None if groups is None else group_norm(groups, d_input)
        d_key = max(1, d_input // (8 * n_heads)) if d_key is None else d_key
        d_value = max(1, d_input // (2 * n_heads)) if d_value is None else d_value
        self.attention = FullAttention(d_input, n_heads, d_key=d_key, d_value=d_value, score=score)
        self.scale = nn.Parameter(torch.zeros(1))  # one axis: FSDP2 cannot shard scalars

    def forward(self, x: Grid, view: View) -> NextGrid:
        read = x if self.norm is None else self.norm(x)
        places = read.flatten(2).transpose(1, 2)  # (batch, height * width, d_input): a token per cell
        mixed: Tensor = self.attention(places, self.attention.read(places), view)
        return x + self.scale.squeeze(0) * mixed.transpose(1, 2).reshape(x.shape)
