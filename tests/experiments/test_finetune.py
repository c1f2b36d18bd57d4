"""Claims about what a model takes over from a checkpoint."""

import pytest
import torch

from zoo.experiments.finetune import carry_over
from zoo.experiments.resolve import MAY_SET, refuse_architecture
from zoo.models.create import create_model

TABLE = "encoder.stack.positions.0.table.weight"


def test_positions_that_a_checkpoint_lacks_repeat_those_it_has():
    small, large = create_model("bert-nano", max_length=7), create_model("bert-nano", max_length=17)
    carry_over(large, small.state_dict())
    known, found = small.state_dict()[TABLE], large.state_dict()[TABLE]
    assert torch.equal(found, torch.cat([known, known, known[:3]]))


def test_tokens_that_a_checkpoint_lacks_stay_as_they_begin():
    small, large = create_model("bert-nano", vocab_size=20), create_model("bert-nano", vocab_size=23)
    before = large.state_dict()["encoder.stack.embeddings.tokens.weight"].clone()
    carry_over(large, small.state_dict())
    found = large.state_dict()["encoder.stack.embeddings.tokens.weight"]
    assert torch.equal(found[:20], small.state_dict()["encoder.stack.embeddings.tokens.weight"])
    assert torch.equal(found[20:], before[20:])


@pytest.mark.parametrize("name", ["transformer-nano", "gpt-modern-nano", "t5-nano"])
def test_positions_without_a_table_go_on_by_their_formula(name: str):
    small, large = create_model(name, max_length=7).eval(), create_model(name, max_length=17).eval()
    carry_over(large, small.state_dict())
    tokens = torch.arange(1, 8)[None]
    source = None if small.encoder is None else tokens
    assert torch.equal(large(tokens, source).logits, small(tokens, source).logits)
    assert large(torch.ones(1, 17, dtype=torch.long), source).logits.isfinite().all()


@pytest.mark.parametrize(
    "path", [("max_length",), ("encoder", "max_length"), ("dropout",), ("decoder", "position", "scaling", "factor")]
)
def test_finetuning_may_have_more_places(path: tuple[str, ...]):
    refuse_architecture(path, "finetune")
    assert "max_length (upward)" in MAY_SET
