"""Backend `blocked` is the formula, whatever it computes together: outputs and gradients against `eager`."""

from typing import Any

import pytest
import torch
from test_attention import DOCUMENTS, EXACT, attend, build, filled, randn
from test_backends import FITTING, PACKED, check_the_same, learn, packed, position_of, view_of
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.attention import FullAttention
from zoo.blocks.backends import blocked, tiling
from zoo.blocks.backends.blocked import Blocked
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.tiling import Tiling, width
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility

BLOCKS = {
    "one block": (128, 2**21, 256, False),
    "blocks": (2, 2**21, 256, False),
    "small blocks": (2, 16, 0, False),
    "fused, small blocks": (2, 16, 0, True),
}


@pytest.fixture(params=BLOCKS.values(), ids=BLOCKS)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many queries and weights a block has, how many keys' weights are remembered, and whose forward pass it is."""
    queries, weights, remembered, fused = request.param
    monkeypatch.setattr(tiling, "QUERIES", queries)
    monkeypatch.setattr(tiling, "WEIGHTS", weights)
    monkeypatch.setattr(blocked, "MAX_SAVED_KEYS", remembered)
    monkeypatch.setattr(blocked, "FUSED", fused)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_kv_heads", [None, 2])
@pytest.mark.parametrize("options", FITTING, ids=str)
@pytest.mark.usefixtures("blocks")
def test_blocked_is_the_formula(options: dict[str, Any], n_kv_heads: int | None, causal: bool):
    rotary = position_of("rotary", causal) if options.get("d_key", 3) % 2 == 0 else None
    view = view_of(DOCUMENTS, DOCUMENTS, causal, rotary)
    check_the_same(build(12, 4, n_kv_heads, **options), Blocked(), view, randn(2, 5, 12))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2, 9])
@pytest.mark.usefixtures("blocks")
def test_blocked_is_the_formula_of_whole_rows(window: int | None, causal: bool):
    view = View(Visibility(Documents.of(None, randn(2, 5)), Documents.of(None, randn(2, 5)), causal=causal))
    for given in (view, View.of(view.documents, causal=causal)):  # of others as long, and of themselves
        check_the_same(build(12, 4, 2, window=window), Blocked(), given, randn(2, 5, 12))


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.usefixtures("blocks")
def test_blocked_says_0_where_a_query_sees_nothing(window: int | None):
    """Of rows too short to be computed apart, and of queries further behind a memory than the window."""
    check_the_same(build(16, 4, 2, window=window), Blocked(), View.of(PACKED), randn(4, 6, 16))
    attention = filled(FullAttention(12, 4, 7, window=window))
    behind = View.of(Documents.of(None, randn(2, 6)), Documents.of(None, randn(2, 2)))
    check_the_same(attention, Blocked(), behind, randn(2, 6, 12), randn(2, 2, 7, seed=1))


@pytest.mark.parametrize(
    ("options", "remembered", "learning", "called"),
    [
        ({}, 4, True, True),
        ({}, 5, True, False),  # weights of short rows are kept, which is faster than to compute them again
        ({}, 5, False, True),
        ({"d_value": 5}, 4, True, False),  # torch would compute all weights at once
        ({"dropout": 0.5}, 4, True, False),
    ],
    ids=str,
)
def test_torchs_kernel_is_asked_where_it_is_fused_and_faster(
    options: dict[str, Any], remembered: int, learning: bool, called: bool, monkeypatch: pytest.MonkeyPatch
):
    asked = []
    monkeypatch.setattr(blocked, "FUSED", True)
    monkeypatch.setattr(blocked, "MAX_SAVED_KEYS", remembered)
    monkeypatch.setattr(blocked, "fused", lambda queries, keys, values, tiling: asked.append(1) or values.clone())
    attention = build(12, 4, **options).train()
    attention.backend = Blocked()
    with torch.set_grad_enabled(learning):
        attend(attention, randn(2, 5, 12), View.of(Documents.of(None, randn(2, 5)), causal=True))
    assert bool(asked) == called


def test_gradients_of_many_blocks_are_added_up_in_float32(monkeypatch: pytest.MonkeyPatch):
    """Position i gives each position up to it a weight of 1/i; in bfloat16 their sum would stay at 5.5."""
    monkeypatch.setattr(tiling, "QUERIES", 2)
    heads, values = torch.zeros(1, 1, 256, 3).bfloat16(), torch.zeros(1, 1, 256, 3).bfloat16().requires_grad_()
    view, rule = View.of(Documents.of(None, randn(1, 256)), causal=True), build(12, 4).rule(training=False)
    Blocked().attend(heads, heads, values, view, rule).sum().backward()
    assert values.grad is not None
    expected = (1 / torch.arange(1, 257)).sum().expand(1, 3)
    torch.testing.assert_close(values.grad[0, :, 0].float(), expected, rtol=0.01, atol=0)


@pytest.mark.parametrize("share", [0.25, 0.9])
def test_blocked_drops_the_weights_that_eager_drops(share: float):
    attention, view = build(12, 4, dropout=share).train(), view_of(DOCUMENTS, DOCUMENTS, causal=True)
    found = []
    for backend in (Blocked(), Eager()):
        torch.manual_seed(3)
        found.append(learn(attention, backend, view.without_cache(), randn(2, 5, 12)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_bytes_that_decide_what_is_dropped_can_be_turned_off():
    """How much torch's generator draws tells how: for each weight a float, and for `eager` as torch's dropout does."""
    attention, x, weights = build(12, 4, dropout=0.5).train(), randn(1, 6, 12), torch.ones(4 * 6 * 6)
    attention.byte_dropout = False
    for attention.backend, draw in ((Blocked(), torch.rand_like), (Eager(), F.dropout)):
        states = []
        for draws in (lambda: attend(attention, x, View.of(Documents.of(None, x))), lambda draw=draw: draw(weights)):
            torch.manual_seed(6)
            draws()
            states.append(torch.get_rng_state())
        assert torch.equal(*states)


@pytest.mark.usefixtures("blocks")
def test_what_blocked_drops_in_the_backward_pass_is_what_it_dropped():
    """The output is linear in the values: its change along a direction is exactly the gradient's."""
    torch.manual_seed(4)
    queries, keys, values, direction = randn(4, 2, 4, 6, 8)
    rule = build(32, 4, dropout=0.5).train().rule(training=True)

    def said(read: Tensor) -> Tensor:
        torch.manual_seed(5)
        return Blocked().attend(queries, keys, read, View.of(Documents.of(None, randn(2, 6)), causal=True), rule)

    read = values.requires_grad_()
    (gradient,) = torch.autograd.grad(said(read).sum(), read)
    torch.testing.assert_close((gradient * direction).sum(), (said(values + direction) - said(values)).sum(), **EXACT)


@pytest.mark.parametrize(("causal", "window", "computed"), [(False, None, 64), (True, None, 40), (True, 3, 28)])
def test_blocked_computes_no_keys_that_a_block_of_queries_cannot_see(
    causal: bool, window: int | None, computed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tiling, "QUERIES", 2)
    view = View.of(Documents.of(None, randn(1, 8)), causal=causal)
    tiles = Tiling.of(view, window, randn(1, 4, 8, 3)).tiles
    places = torch.arange(8)
    assert sum(len(places[tile.queries]) * len(places[tile.keys]) for tile in tiles) == computed
    if window is None:  # of a whole row, no more is masked than what queries of a block see of each other
        assert all(tile.masked == (tile.queries if causal else slice(8, 8)) for tile in tiles)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize(("long", "step"), [(1, 1), (2, 1), (3, 1), (1, 2), (1, 4), (2, 4), (1, 16)])
@pytest.mark.usefixtures("blocks")
def test_blocked_computes_documents_of_a_packer_apart(
    long: int, step: int, window: int | None, causal: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tiling, "CUT", 5)
    monkeypatch.setattr(tiling, "LONG", long)
    monkeypatch.setattr(tiling, "STEP", step)
    view = View(Visibility(PACKED, PACKED, causal=causal), position_of("rotary", causal))
    check_the_same(build(16, 4, 2, window=window), Blocked(), view, randn(4, 6, 16))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rows", [[[4]], [[], [6]], [[1, 2], []], [[6], []], [[], []]], ids=str)
@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.usefixtures("blocks")
def test_blocked_leaves_positions_beside_one_document_empty(
    step: int, rows: list[list[int]], causal: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tiling, "STEP", step)
    monkeypatch.setattr(Tensor, "new_empty", lambda x, *shape: x.new_full(shape, torch.nan))
    monkeypatch.setattr(tiling, "CUT", 5)
    documents = packed(rows, 6)
    view = View(Visibility(documents, documents, causal=causal), position_of("rotary", causal))
    check_the_same(build(16, 4, 2), Blocked(), view, randn(len(rows), 6, 16))


def test_short_documents_are_computed_together_until_they_are_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiling, "CUT", 9)
    monkeypatch.setattr(tiling, "LONG", 3)
    monkeypatch.setattr(tiling, "STEP", 1)
    documents = packed([[1, 1, 4, 2, 1, 1], [], [10]], 10)
    regions = Tiling.of(View.of(documents, causal=True), None, randn(3, 2, 10, 4)).regions
    found = [(region.rows.start, region.queries.start, region.queries.stop, region.masked) for region in regions]
    assert found == [(0, 0, 2, True), (0, 2, 6, False), (0, 6, 9, True), (0, 9, 10, False), (2, 0, 10, False)]
    assert all(region.keys == region.queries == region.own for region in regions)
    unknown, others = Documents(documents.numbers), packed([[5], [5], [5]], 10)
    for view in (View.of(unknown, causal=True), View.of(documents, others)):  # a document may go on; a source is not it
        assert [region.masked for region in Tiling.of(view, None, randn(3, 2, 10, 4)).regions] == [True]


@pytest.mark.parametrize("causal", [True, False])
def test_what_is_computed_apart_has_one_of_few_lengths(causal: bool, monkeypatch: pytest.MonkeyPatch):
    """For each shape of a product oneDNN compiles kernels, and remembers them."""
    monkeypatch.setattr(tiling, "masks", lambda *given: (None, None))  # what is computed does not depend on them
    documents = packed([[length, 1024 - length] for length in range(64, 960, 20)], 1024)
    tilings = Tiling.of(View.of(documents, causal=causal), None, randn(len(documents.numbers), 1, 1024, 2))
    assert len({(width(tile.queries), width(tile.keys)) for tile in tilings.tiles}) < 30  # of 90
    for region in tilings.regions:
        own, computed = width(region.own), width(region.queries)
        assert own <= computed <= max(own + 31, own * 9 / 8)
        assert region.queries.start <= region.own.start and region.own.stop <= region.queries.stop


@pytest.mark.parametrize(("length", "regions"), [(512, 1), (640, 3)])
def test_documents_of_short_rows_are_computed_together(length: int, regions: int):
    documents = packed([[200, 200, length - 400]], length)
    assert len(Tiling.of(View.of(documents, causal=True), None, randn(1, 1, length, 2)).regions) == regions
