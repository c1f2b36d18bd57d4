"""The convolution mixer against torch's conv1d, and what it refuses."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.attention import FullAttention
from zoo.blocks.convolution import tap_offsets
from zoo.blocks.mixer import ConvolutionMixer
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View

D_MODEL = 6
DOCUMENTS = torch.tensor([[0, 1, 1, 1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 2, 2, 2, 2, 2]])


def build(causal: bool, kernel: int, dilation: int, depthwise: bool) -> ConvolutionMixer:
    torch.manual_seed(0)
    options = {"kernel": kernel, "dilation": dilation, "depthwise": depthwise}
    return ConvolutionMixer(D_MODEL, causal, lambda: FullAttention(D_MODEL, 1), **options).double()


def torchs(mixer: ConvolutionMixer, x: Tensor, causal: bool, kernel: int, dilation: int) -> Tensor:
    """The same convolution of one text (length, d_model) by torch's own function."""
    after = 0 if causal else dilation * ((kernel - 1) // 2)
    padded = F.pad(x.T[None], (dilation * (kernel - 1) - after, after))
    if mixer.filters is not None:
        mixed = F.conv1d(padded, mixer.filters.weight, dilation=dilation, groups=D_MODEL)[0].T
        return F.linear(mixed, mixer.output.weight, mixer.output.bias)
    weight = mixer.output.weight.unflatten(1, (kernel, D_MODEL)).transpose(1, 2)
    return F.conv1d(padded, weight, mixer.output.bias, dilation=dilation)[0].T


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("depthwise", [True, False])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (4, 2), (5, 3)])
def test_each_document_is_convolved_as_torch_does_it_alone(causal: bool, depthwise: bool, kernel: int, dilation: int):
    mixer, x = build(causal, kernel, dilation, depthwise), torch.randn(2, 9, D_MODEL).double()
    said = mixer(x, View.of(Documents(DOCUMENTS)))
    for row, number in ((0, 1), (0, 2), (1, 1), (1, 2)):
        places = DOCUMENTS[row] == number
        expected = torchs(mixer, x[row, places], causal, kernel, dilation)
        torch.testing.assert_close(said[row, places], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("options", "name"), [((0, 1), "kernel"), ((3, 0), "dilation")])
def test_a_convolution_that_reads_nothing_is_refused(options: tuple[int, int], name: str):
    with pytest.raises(ValueError, match=rf"{name} must be at least 1, got 0"):
        tap_offsets(*options, True)
