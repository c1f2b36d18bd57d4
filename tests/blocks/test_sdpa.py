"""Backend `sdpa` where few queries read a memory: products of matrices, and what is kept in which dtype."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from test_attention import EXACT, randn
from test_backends import UNORDERED, view_of
from torch.nn import functional as F

from zoo.blocks.attention import FullAttention
from zoo.blocks.backends import sdpa
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.sdpa import by_products
from zoo.blocks.position import positions
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility


@pytest.mark.parametrize("position", [None, "alibi"])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "as projected"])
def test_products_are_the_formula(position: str | None, window: int | None, spare: int, whole: bool):
    made = None if position is None else positions.build(position, 12, 4, 4, 16, True).double()
    view = view_of(UNORDERED, UNORDERED, causal=True, position=made)
    queries, keys, values = randn(2, 4, 6, 3), randn(2, 2, 6, 3), randn(2, 2, 6, 5)
    rule = FullAttention(8, 4, d_key=3, window=window).double().rule(False)
    expected = Eager().attend(queries, keys, values, view.without_cache(), rule)
    keys, values = (F.pad(x, (0, 0, 0, spare)) for x in (keys, values))  # of positions that are not yet written
    if not whole:
        keys, values = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (keys, values))
    torch.testing.assert_close(by_products(queries, keys, values, view, rule), expected, **EXACT)


@pytest.mark.parametrize(
    ("rows", "places", "kept"), [(16, 64, torch.bfloat16), (16, 63, torch.bfloat16), (15, 69, torch.float32)]
)
def test_many_rows_are_kept_in_bfloat16_and_read_by_products_where_there_are_enough_scores(
    monkeypatch: pytest.MonkeyPatch, rows: int, places: int, kept: torch.dtype
):
    attention, asked = FullAttention(64, 4).bfloat16(), []
    monkeypatch.setattr(sdpa, "by_products", lambda *given: asked.append(given) or by_products(*given))
    numbers = torch.ones(rows, places, dtype=torch.long)
    x, view = randn(rows, places, 64).bfloat16(), view_of(numbers[:, :1], numbers)
    with torch.no_grad():
        new = attention.read(x)
        cache = attention.cache(new, places)
        cache.write(new, cache.slots(0, places), places)
        found = attention.step(x[:, :1], cache.read(), view)
        expected = attention.step(x[:, :1], new.to(torch.float32), view)
    assert cache.read().keys.dtype == kept
    by_matrices = kept == torch.bfloat16 and places == 64
    assert len(asked) == by_matrices
    assert by_matrices or torch.equal(found, expected)  # in float32 nothing is lost of what is kept in bfloat16
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)


@pytest.mark.parametrize(("rows", "beams", "by_matrices"), [(16, 5, True), (16, 4, False), (15, 6, False)])
def test_a_source_that_many_rows_have_is_kept_as_their_own_positions_are(
    monkeypatch: pytest.MonkeyPatch, rows: int, beams: int, by_matrices: bool
):
    attention, asked = FullAttention(64, 4, d_memory=48).bfloat16(), []
    monkeypatch.setattr(sdpa, "by_products", lambda *given: asked.append(given) or by_products(*given))
    x, source = randn(rows, beams, 64).bfloat16(), randn(rows, 13, 48).bfloat16()
    view = view_of(torch.ones(rows, beams, dtype=torch.long), torch.ones(rows, 13, dtype=torch.long))
    with torch.no_grad():
        read = attention.read(source)
        kept = attention.to_fast_layout(read)
        found, expected = attention.step(x, kept, view), attention.step(x, read.to(torch.float32), view)
    assert len(asked) == by_matrices
    assert kept.keys.is_contiguous() == kept.values.is_contiguous() == (rows == 16)
    assert kept.keys.dtype == kept.values.dtype == (torch.bfloat16 if rows == 16 else torch.float32)
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)


@pytest.mark.parametrize("dropout", [0.0, 1e-9])
@pytest.mark.parametrize("training", [False, True])
def test_spare_slots_weigh_nothing_whatever_computes(dropout: float, training: bool):
    """With dropout in training the formula does; nothing is dropped here."""
    attention = FullAttention(64, 4, dropout=dropout).bfloat16().train(training)
    numbers = torch.ones(16, 71, dtype=torch.long)
    x, view = randn(16, 71, 64).bfloat16(), view_of(numbers[:, :1], numbers)
    with torch.no_grad():
        new = attention.read(x)
        cache = attention.cache(new, 200)
        cache.write(new, cache.slots(0, 71), 71)
        found = attention.step(x[:, :1], cache.read(), view)
        expected = attention.step(x[:, :1], new.to(torch.float32), view)
    assert cache.read().keys.shape[2] > 71
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)


def test_masks_become_numbers_once_for_all_layers_in_rows_that_kernels_need_not_copy():
    numbers = torch.tensor([[1, 1, 1, 2, 2, 0, 0, 0, 0, 0, 0], [1] * 11])
    view = view_of(numbers, numbers, causal=True)
    seen, added = view.mask_and_bias(None), view.additive_mask(None, torch.bfloat16)
    assert seen is not None and added is not None and added.dtype == torch.bfloat16
    assert torch.equal(added == 0, seen) and torch.equal(added == -torch.inf, ~seen)
    assert added.shape == seen.shape and all(stride % 8 == 0 for stride in added.stride()[:-1])
    assert view.additive_mask(None, torch.bfloat16) is added and view.additive_mask(None, torch.float32) is not added
    position = positions.build("alibi", 12, 4, 4, 16, True)
    biased = view_of(numbers, numbers, causal=True, position=position)
    assert torch.equal(biased.additive_mask(None, torch.float32), biased.mask_and_bias(None))


def test_gradients_of_a_learned_bias_are_added_up_in_its_own_dtype():
    """In bfloat16 the sum over many layers would lose what each of them says."""
    position = positions.build("relative", 12, 4, 4, 16, True)
    numbers = torch.ones(1, 6, dtype=torch.long)
    view = view_of(numbers, numbers, causal=True, position=position)
    weights = [p for p in position.parameters() if p.requires_grad]
    small = 2.0**-9
    # what 256 layers say of each score: 1, and 255 times what 1 in bfloat16 is not changed by
    layers = [view.additive_mask(None, torch.bfloat16) for _ in range(256)]
    said = sum(
        (layer.masked_fill(layer == -torch.inf, 0) * (small if n else 1.0)).float().sum()
        for n, layer in enumerate(layers)
    )
    (gradient,) = torch.autograd.grad(said, weights)
    scores = view.without_cache().mask_and_bias(None)
    assert scores is not None
    (one,) = torch.autograd.grad(scores.masked_fill(scores == -torch.inf, 0).sum(), weights)
    torch.testing.assert_close(gradient, one * (1 + 255 * small))


@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_layers_share_is_there_before_the_first_of_them_asks(dtype: torch.dtype, sinks: int):
    """A layer that computed it would be another graph to the compiler than those that find it."""
    attention = FullAttention(64, 4, sinks=sinks).to(dtype)
    for length in (12, 140):  # few keys are read in float32
        numbers = torch.ones(2, length, dtype=torch.long)
        numbers[0, 5:] = 2
        x, view = randn(2, length, 64).to(dtype), view_of(numbers, numbers, causal=True)
        attention.prepare(view, dtype)
        there = set(view.cache), set(view.visibility.cache)
        attention(x, attention.read(x, view), view)
        assert (set(view.cache), set(view.visibility.cache)) == there


@pytest.mark.parametrize("position", [None, "rotary"])
def test_a_long_text_read_from_left_to_right_has_no_mask(position: str | None):
    attention, tokens = FullAttention(8, 2), randn(1, 200, 8).float()
    order = None if position is None else positions[position](8, 2, 4, 200, True)
    view = View(Visibility(*2 * [Documents.of(None, tokens)], causal=True), order)
    attention.prepare(view, torch.float32)
    attention.attend_itself(tokens, view)
    assert not view.visibility.cache and not [key for key in view.cache if key[0] != "rotations"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("position", [None, "alibi", "relative"])
def test_masks_have_the_dtype_of_the_queries_as_kernels_of_gpus_demand(
    monkeypatch: pytest.MonkeyPatch, position: str | None, sinks: int, dtype: torch.dtype
):
    kernel, masks = F.scaled_dot_product_attention, list[torch.Tensor]()
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *given, **n: masks.append(given[3]) or kernel(*given, **n)
    )
    places = sdpa.SHORT + 1  # fewer are read in float32
    made = None if position is None else positions.build(position, 16, 4, 4, places, True).to(dtype)
    numbers = torch.ones(2, places, dtype=torch.long)
    view = view_of(numbers, numbers, causal=True, position=made)
    attention, x = FullAttention(16, 4, sinks=sinks).to(dtype), randn(2, places, 16).to(dtype)
    with torch.no_grad():
        found = attention.attend_itself(x, view)
        attention.backend = Eager()
        expected = attention.attend_itself(x, view.without_cache())
    assert [mask.dtype for mask in masks] == [dtype]
    torch.testing.assert_close(found, expected, **(EXACT if dtype == torch.float64 else {"atol": 0.02, "rtol": 0.02}))


class OnGPU(torch.Tensor):
    is_cuda = True


def test_threads_do_not_change_the_kernels_that_torch_chooses_among_for_each_other():
    queries, mask = torch.zeros(1, 1, 1, 1).as_subclass(OnGPU), torch.zeros(1)
    before, inside, leave = flags(), Event(), Event()

    def other() -> list[bool]:
        with sdpa.kernels_for(queries, queries, queries, mask):
            inside.set()
            leave.wait(10)
            return flags()

    with ThreadPoolExecutor(1) as thread:
        with sdpa.kernels_for(queries, queries, queries, mask):
            found = thread.submit(other)
            assert not inside.wait(0.2), "both are inside"
        leave.set()
        assert found.result() == [False, False, True, True]
    assert flags() == before == [True] * 4


def flags() -> list[bool]:
    """Whether torch may choose cuDNN, flash attention, the memory-efficient kernel and the formula."""
    kernels = torch.backends.cuda
    return [
        kernels.cudnn_sdp_enabled(),
        kernels.flash_sdp_enabled(),
        kernels.mem_efficient_sdp_enabled(),
        kernels.math_sdp_enabled(),
    ]


@pytest.mark.parametrize(("learned", "efficient"), [("mask", False), ("values", True), ("nothing", True)])
def test_a_mask_that_alone_learns_meets_no_kernel_that_reads_beyond_memory(learned: str, efficient: bool):
    """As T5's biases of positions do where the layers are frozen; on a GPU, torch's memory-efficient kernel would."""
    given = {name: torch.zeros(1, 1, 2, 2) for name in ("queries", "keys", "values", "mask")}
    given["queries"] = given["queries"].as_subclass(OnGPU)
    if learned in given:
        given[learned].requires_grad_()
    with sdpa.kernels_for(*given.values()):
        assert flags() == [False, False, efficient, True]
