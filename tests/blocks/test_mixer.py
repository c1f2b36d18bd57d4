"""Mixers: state and order of rows between steps."""

import pytest
import torch

from zoo.blocks.attention import GroupedAttention
from zoo.blocks.mixer import AttentionMixer, mixers, select_rows
from zoo.blocks.position import Rotary
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility


def test_attention_remembers_keys_and_values_of_its_own_heads_only():
    mixer = AttentionMixer(8, True, lambda: GroupedAttention(8, 4, n_kv_heads=2))
    x = torch.randn(3, 2, 8)
    _, state = mixer.step(x, View.of(Documents.of(None, x), causal=True), None)
    assert all(x.shape == (3, 2, 2, 2) for x in state.read())


def test_reordered_rows_go_on_where_their_parents_were():
    torch.manual_seed(0)
    rotary = Rotary(8, 2, 4, 16, True)
    mixer = AttentionMixer(8, True, lambda: GroupedAttention(8, 2, n_kv_heads=1)).double()
    x, rows = torch.randn(3, 4, 8).double(), torch.tensor([2, 2, 0])
    whole, at = Documents.of(None, x), torch.arange(4).expand(3, 4)
    first, fourth = (Documents(whole.numbers[:, s], positions=at[:, s]) for s in (slice(3), slice(3, 4)))
    _, state = mixer.step(x[:, :3], View(Visibility(first, first, causal=True), rotary), None)
    last, _ = mixer.step(x[:, 3:], View(Visibility(fourth, whole, 3, causal=True), rotary), select_rows(state, rows))
    expected = mixer(torch.cat([x[rows, :3], x[:, 3:]], dim=1), View(Visibility(whole, whole, causal=True), rotary))
    torch.testing.assert_close(last, expected[:, 3:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("causal", "asked", "both"), [(False, True, True), (False, False, False), (True, True, False)])
def test_a_state_is_carried_both_ways_where_that_is_asked_for_and_nothing_is_to_be_hidden(
    causal: bool, asked: bool, both: bool
):
    mixer = mixers.build({"name": "recurrent", "bidirectional": asked}, 8, causal, lambda: None)
    x = torch.randn(1, 4, 8)
    changed = torch.cat([x[:, :3], x[:, 3:] + 1], dim=1)
    said, other = (mixer(one, View.of(Documents.of(None, one), causal=causal)) for one in (x, changed))
    assert torch.equal(said[:, :3], other[:, :3]) != both and not torch.equal(said[:, 3], other[:, 3])


def test_a_state_that_has_seen_nothing_can_be_reordered():
    assert select_rows(None, torch.tensor([0, 0, 1])) is None
