import pytest
import torch
from torch.nn import functional as F

from zoo.blocks.dropout import GROUP, Dropout, draw_kept, dropout, dropped_steps


def test_dropout_drops_its_share_and_keeps_the_mean():
    torch.manual_seed(0)
    n, share = 200_000, 0.3
    out = dropout(torch.ones(n), share, training=True)
    # four standard deviations of a binomial share
    assert abs((out == 0).double().mean() - share) < 4 * (share * (1 - share) / n) ** 0.5
    torch.testing.assert_close(out.max(), torch.tensor(1 / (1 - share)), rtol=1e-4, atol=0)


def test_neighbors_are_dropped_independently():
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


def test_numbers_are_dropped_by_torch_where_bytes_are_turned_off():
    module, x, found = Dropout(0.3), torch.ones(50), list[torch.Tensor]()
    module.byte_dropout = False
    for drop in (module, lambda x: F.dropout(x, 0.3)):
        torch.manual_seed(6)
        found.append(drop(x))
    assert torch.equal(*found) and found[0].count_nonzero() < 50


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


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 25.5 / 256, 0.99, 255 / 256, 0.998])
def test_the_share_is_met_to_less_than_a_byte(share: float):
    torch.manual_seed(5)
    n, expected = 20_000_000, round(share * 2**16) / 2**16
    dropped = 1 - draw_kept(torch.empty(n), dropped_steps(share)).sum(dtype=torch.long).item() / n
    assert abs(dropped - expected) < 4 * (expected * (1 - expected) / n) ** 0.5
    # bytes that are all compared with one threshold would miss 0.1 by 0.0016, thirty times as much
    assert 4 * (0.1 * 0.9 / n) ** 0.5 < 0.0016 / 5


def test_numbers_with_one_threshold_are_dropped_independently():
    torch.manual_seed(6)
    kept = draw_kept(torch.empty(2**15, GROUP), dropped_steps(0.1)).float()
    together = torch.corrcoef(kept.T) - torch.eye(GROUP)
    assert together.abs().max() < 6 / 2**7.5  # of independent ones the largest of 130,816 is at 4.5 to 5.5
    assert abs(together.mean()) < 3e-4


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (), (1,), (GROUP - 1,), (GROUP + 1,), (3, 5, 7)])
def test_every_number_of_any_shape_is_drawn_for(shape: tuple[int, ...]):
    kept = draw_kept(torch.empty(shape), dropped_steps(0.5))
    assert kept.shape == shape and kept.dtype == torch.int8 and set(kept.unique().tolist()) <= {0, 1}


def test_the_backward_pass_remembers_a_byte_for_each_number():
    x, kept = torch.ones(GROUP, 8, dtype=torch.bfloat16, requires_grad=True), list[torch.Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        dropout(x, 0.1, training=True)
    assert sum(tensor.numel() * tensor.itemsize for tensor in kept) == x.numel()


def test_its_gradient_has_gradients():
    torch.manual_seed(7)
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)

    def drop(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(8)
        return dropout(x, 0.4, training=True)

    assert torch.autograd.gradcheck(drop, x) and torch.autograd.gradgradcheck(drop, x)
