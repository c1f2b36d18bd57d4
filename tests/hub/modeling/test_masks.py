"""Masks of transformers as documents, labels as the tokens of a target, and types of tokens that nothing reads."""

from typing import Any

import pytest
import torch

from zoo.hub.modeling.config import ZooConfig
from zoo.hub.modeling.inputs import documents_of, shift
from zoo.hub.modeling.shell import ZooForCausalLM
from zoo.hub.targets.zoo_target import plain_settings
from zoo.models.settings import load_settings

ROW = torch.zeros(2, 3)
MASK = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]])


def test_a_mask_speaks_of_the_last_positions_and_one_that_shows_all_of_them_is_none():
    found = documents_of(MASK, ROW)
    assert found is not None and found.tolist() == [[1, 0, 1], [1, 1, 1]]
    assert documents_of(MASK[1:].expand(2, 5), ROW) is None and documents_of(None, ROW) is None


@pytest.mark.parametrize("mask", [MASK[:1], MASK[:, :2], MASK[None]])
def test_what_is_no_mask_of_the_rows_is_refused(mask: torch.Tensor):
    with pytest.raises(ValueError, match=r"attention_mask: expected one number per token, \(2, 3\); got"):
        documents_of(mask, ROW)


def test_what_does_not_count_of_labels_is_padding_one_position_later():
    assert shift(torch.tensor([[5, -100, 7], [8, 9, -100]]), start=1, padding=2).tolist() == [[1, 5, 2], [1, 8, 9]]


def test_types_of_tokens_are_refused_by_a_model_without_them_unless_all_are_0():
    settings = load_settings("gpt2-nano", [(("vocab_size",), 20), (("max_length",), 5)])
    model, ids = ZooForCausalLM(ZooConfig(settings=plain_settings(settings))).eval(), torch.tensor([[2, 9, 4]])
    assert torch.equal(model(ids, token_type_ids=torch.zeros_like(ids)).logits, model(ids).logits)
    with pytest.raises(ValueError, match="token_type_ids: this model has no segment embeddings; leave them out"):
        model(ids, token_type_ids=torch.tensor([[0, 0, 1]]))


class Documents(torch.nn.Module):
    """Document numbers as a module, which torch.export asks for."""

    def forward(self, mask: torch.Tensor, row: torch.Tensor) -> Any:
        return documents_of(mask, row)


@pytest.mark.parametrize("mask", [MASK, torch.ones_like(MASK)])
def test_a_mask_is_no_branch_of_an_exported_program(mask: torch.Tensor):
    any_size = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    given = torch.export.export(Documents(), (mask, ROW), dynamic_shapes=(any_size, any_size))
    for rows in (mask, 1 - mask, torch.eye(3, 7).long()):
        assert torch.equal(given.module()(rows, torch.zeros(len(rows), 3)), rows[:, -3:])
