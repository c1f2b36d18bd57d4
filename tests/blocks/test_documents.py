"""Who may see whom: the one rule, place by place."""

import pytest
import torch

from zoo.blocks.documents import View, positions_of
from zoo.blocks.position import NoPosition, positions

DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2, 0], [1, 1, 2, 3, 3, 3, 3]])


def view(documents: torch.Tensor = DOCUMENTS, **kwargs) -> View:
    return View(documents, positions_of(documents), documents, **kwargs)


def test_positions_restart_at_each_document_and_are_0_where_there_is_none():
    assert positions_of(DOCUMENTS).tolist() == [[0, 0, 1, 2, 0, 1, 0], [0, 1, 0, 0, 1, 2, 3]]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2])
def test_a_mask_is_the_rule_for_every_pair_of_places(causal: bool, window: int | None):
    mask = view(causal=causal).mask(window)
    assert mask is not None
    for row in range(2):
        for query in range(7):
            for key in range(7):
                same = DOCUMENTS[row, query] == DOCUMENTS[row, key] != 0
                near = window is None or abs(query - key) < window
                assert mask[row, 0, query, key] == (same and near and (key <= query or not causal))


def test_all_see_all_without_a_mask_where_a_row_is_one_document():
    assert view(torch.ones(2, 3, dtype=torch.long), plain=True).mask(None) is None


def test_a_single_last_place_needs_no_causal_mask():
    one, all_three = torch.ones(2, 1, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
    assert View(one, one + 1, all_three, start=2, causal=True, plain=True).mask(None) is None


def test_causality_is_the_whole_rule_only_for_plain_whole_rows_without_a_window():
    plain = view(torch.ones(2, 3, dtype=torch.long), causal=True, plain=True)
    assert plain.causal_only(None)
    assert not plain.causal_only(2)
    assert not view(causal=True).causal_only(None)


def test_new_places_see_what_they_would_see_in_the_whole_row():
    whole = view(causal=True).mask(2)
    new = View(DOCUMENTS[:, 4:], positions_of(DOCUMENTS)[:, 4:], DOCUMENTS, start=4, causal=True).mask(2)
    assert torch.equal(new, whole[:, :, 4:])


def test_scores_are_the_bias_where_a_place_may_see_and_minus_infinity_elsewhere():
    alibi = positions.build("alibi", 8, 2, 4, 16, True)
    seen = view(causal=True).under(alibi)
    scores, mask = seen.scores(None), seen.mask(None)
    bias = alibi.bias(torch.arange(7), torch.arange(7)).expand(2, 2, 7, 7)
    assert torch.equal(scores, torch.where(mask, bias, -torch.inf))


def test_scores_without_a_bias_are_the_mask():
    plain = view().under(NoPosition(8, 2, 4, 16, False))
    assert plain.scores(None) is plain.mask(None)


def test_layers_with_other_positions_share_masks_but_not_scores():
    base = view()
    first, second = (base.under(positions.build("alibi", 8, n, 4, 16, False)) for n in (2, 4))
    assert first.mask(None) is second.mask(None)
    assert first.scores(None).shape != second.scores(None).shape


def test_a_fresh_view_has_computed_nothing():
    seen = view()
    seen.mask(None)
    assert seen.cache and not seen.afresh().cache
