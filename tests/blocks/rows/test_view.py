"""Who may see whom: the one rule, position by position; and what a layer's position adds to it."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.blocks.position import NoPosition, positions
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Recorder, View, Visibility

DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2, 0], [1, 1, 2, 3, 3, 3, 3]])


def seen(documents: torch.Tensor = DOCUMENTS, whole: bool = False, causal: bool = False) -> Visibility:
    found = Documents(documents, whole)
    return Visibility(found, found, causal=causal)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2])
def test_a_mask_is_the_rule_for_every_pair_of_positions(causal: bool, window: int | None):
    mask = seen(causal=causal).mask(window)
    assert mask is not None
    for row in range(2):
        for query in range(7):
            for key in range(7):
                same = DOCUMENTS[row, query] == DOCUMENTS[row, key] != 0
                near = window is None or abs(query - key) < window
                assert mask[row, 0, query, key] == (same and near and (key <= query or not causal))


def test_all_see_all_without_a_mask_where_a_row_is_one_document():
    assert seen(torch.ones(2, 3, dtype=torch.long), whole=True).mask(None) is None


def test_a_single_last_position_needs_no_causal_mask():
    one, all_three = torch.ones(2, 1, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
    assert (
        Visibility(Documents(one, whole=True), Documents(all_three, whole=True), start=2, causal=True).mask(None)
        is None
    )


def test_a_window_holds_where_queries_are_more_than_the_keys_that_fit_it():
    visibility = Visibility(*(Documents(torch.ones(1, n, dtype=torch.long), whole=True) for n in (6, 2)))
    mask = visibility.mask(2)
    assert mask is not None
    assert mask[0, 0].tolist() == [[abs(query - key) < 2 for key in range(2)] for query in range(6)]


def test_causality_is_the_whole_rule_only_for_plain_whole_rows_without_a_window():
    plain = seen(torch.ones(2, 3, dtype=torch.long), causal=True, whole=True)
    assert plain.causal_only(None)
    assert not plain.causal_only(2)
    assert not seen(causal=True).causal_only(None)


def test_new_positions_see_what_they_would_see_in_the_whole_row():
    whole = seen(causal=True).mask(2)
    new = Visibility(Documents(DOCUMENTS[:, 4:]), Documents(DOCUMENTS), start=4, causal=True).mask(2)
    assert torch.equal(new, whole[:, :, 4:])


def test_scores_are_the_bias_where_a_position_may_see_and_minus_infinity_elsewhere():
    alibi = positions.build("alibi", 8, 2, 4, 16, True)
    view = View(seen(causal=True), alibi)
    scores, mask = view.mask_and_bias(None), view.visibility.mask(None)
    bias = alibi.bias(torch.arange(7), torch.arange(7)).expand(2, 2, 7, 7)
    assert torch.equal(scores, torch.where(mask, bias, -torch.inf))


def test_scores_without_a_bias_are_the_mask():
    view = View(seen(), NoPosition(8, 2, 4, 16, False))
    assert view.mask_and_bias(None) is view.visibility.mask(None)


def test_layers_with_other_positions_share_masks_but_not_scores():
    base = seen()
    first, second = (View(base, positions.build("alibi", 8, n, 4, 16, False)) for n in (2, 4))
    assert first.visibility.mask(None) is second.visibility.mask(None)
    assert first.mask_and_bias(None).shape != second.mask_and_bias(None).shape


def test_a_fresh_view_has_computed_nothing():
    view = View(seen())
    view.mask_and_bias(None)
    fresh = view.without_cache()
    assert view.cache and view.visibility.cache and not fresh.cache and not fresh.visibility.cache


def test_a_layer_in_which_nothing_is_written_has_no_weights():
    recorder, weights = Recorder(), torch.rand(1, 2, 3, 3)
    recorder.end_layer()
    recorder.write(weights)
    recorder.end_layer()
    recorder.end_layer()
    assert recorder.layers == [None, weights, None]


def test_rows_that_are_one_document_each_have_no_borders_of_empty_positions():
    numbers = torch.ones(3, 4, dtype=torch.long)
    for documents in (Documents.packed([[4]] * 3, numbers), Documents(numbers, whole=True)):
        for borders in Visibility(documents, documents).borders():
            assert borders.queries.tolist() == borders.keys.tolist() == [0, 4, 8, 12] and borders.longest == 4


def test_whole_rows_that_read_padded_ones_keep_the_packers_borders():
    whole = Documents.packed([[3], [3]], torch.ones(2, 3, dtype=torch.long))
    source = Documents.packed([[4], [2]], torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]))
    asking, read = Visibility(whole, source).borders()
    assert torch.equal(asking.queries, whole.borders.queries) and torch.equal(read.keys, source.borders.keys)


@pytest.mark.parametrize("window", [None, 9])
def test_a_mask_is_made_of_nothing_that_is_larger(window: int | None):
    sizes = list[int]()

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            said = func(*args, **(kwargs or {}))
            sizes.append(said.nbytes)
            return said

    whole = Documents.of(None, torch.zeros(1, 300))
    with Sizes():
        mask = Visibility(whole, whole, causal=True).mask(window)
    assert mask is not None and max(sizes) == mask.nbytes == 300 * 300
