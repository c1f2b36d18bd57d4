import pytest
import torch

from zoo.blocks.dropout import Dropout, dropout


def test_dropout_drops_its_share_and_keeps_the_mean():
    torch.manual_seed(0)
    n, share = 200_000, 0.3
    out = dropout(torch.ones(n), share, training=True)
    # four standard deviations of a binomial share
    assert abs((out == 0).double().mean() - share) < 4 * (share * (1 - share) / n) ** 0.5
    torch.testing.assert_close(out.max(), torch.tensor(1 / (1 - share)), rtol=1e-4, atol=0)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(50_000, 4), 0.5, training=True) == 0).double()
    together = torch.corrcoef(dropped.T)
    assert (together - torch.eye(4)).abs().max() < 0.02


def test_the_same_seed_drops_the_same_numbers():
    torch.manual_seed(2)
    first = dropout(torch.ones(7, 3), 0.5, training=True)
    torch.manual_seed(2)
    assert torch.equal(dropout(torch.ones(7, 3), 0.5, training=True), first)


def test_what_is_dropped_gets_no_gradient():
    torch.manual_seed(3)
    x = torch.ones(5, 7, requires_grad=True)
    out = dropout(x, 0.5, training=True)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_nothing_is_dropped_in_evaluation():
    x = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(x), x)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_leaves_nothing_is_refused(share: float):
    with pytest.raises(ValueError, match=f"dropout must be at least 0 and below 1, got {share}"):
        Dropout(share)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_what_is_kept_is_multiplied_by_the_nearest_number_of_its_dtype(dtype: torch.dtype):
    torch.manual_seed(4)
    out = dropout(torch.ones(50, 3, dtype=dtype), 0.1, training=True)
    enlarged = torch.tensor(2**16 / (2**16 - 6554), dtype=dtype)  # 6554 of 65536 are dropped
    assert out.dtype == dtype and set(out.unique().tolist()) == {0.0, enlarged.item()}
