"""What heads read is the same, and learns the same, whether a part computes all positions or only those read."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from zoo import create_model
from zoo.blocks.rows.documents import Documents
from zoo.models import reading
from zoo.models.kinds.transformer import TransformerDecoder, TransformerEncoder
from zoo.models.model import Model
from zoo.models.output import Output

LENGTHS = [[5, 3], [8], [2, 2, 2]]
NUMBERS = torch.tensor([[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (8 - sum(row)) for row in LENGTHS])
TOKENS = torch.randint(5, 23, (3, 8), generator=torch.Generator().manual_seed(0))
TOKEN_PLACES, DOCUMENT_PLACES = [3, 9, -1, 17, 9], [0, 6, 12, -1, 0]  # some twice, and not each a document's first
BLOCKS = ["post_norm", "pre_norm", "sandwich", "parallel"]
MODELS: list[tuple[str, dict[str, Any]]] = [
    *(("bert-nano", {"encoder.block": block}) for block in BLOCKS),
    ("bert-nano", {"heads": ["classification"], "encoder.feed_forward": "gated", "encoder.norm": "rmsnorm"}),
    ("bert-nano", {"encoder.position": "rotary", "heads": ["tagging"]}),
    ("gpt2-nano", {"heads": ["classification"]}),
    ("electra-nano", {}),
]


def build(name: str, changes: dict[str, Any]) -> Model:
    return create_model(name, vocab_size=23, dropout=0.0, **changes).initialize(0).double()


def places_of(model: Model) -> dict[str, Tensor]:
    documents = {name for name, head in model.heads_by_name().items() if head.scores_documents}
    return {name: torch.tensor(DOCUMENT_PLACES if name in documents else TOKEN_PLACES) for name in model.heads}


def learn(model: Model, **asks: Any) -> tuple[Output, dict[str, Tensor]]:
    """What a model says of packed rows, and the gradients of a loss of that."""
    model.zero_grad()
    said = model(TOKENS, documents=Documents.packed(LENGTHS, NUMBERS), places=places_of(model), **asks)
    torch.stack([logits.pow(3).sum() for logits in said.heads.values()]).sum().backward()
    return said, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("name", "changes"), MODELS)
def test_picking_positions_changes_no_logit_and_no_gradient(
    name: str, changes: dict[str, Any], checkpointing: bool, monkeypatch: pytest.MonkeyPatch
):
    model = build(name, changes)
    model.stream.checkpointing = checkpointing
    picked, gradients = learn(model)
    for part in (TransformerEncoder, TransformerDecoder):
        monkeypatch.setattr(part, "picks", False)
    whole, expected = learn(model)
    assert whole.states.shape == (3, 8, model.stream.d_model)
    assert picked.states.dim() == 2
    for head, logits in whole.heads.items():
        torch.testing.assert_close(picked.heads[head], logits, rtol=1e-12, atol=1e-12)
    assert set(gradients) == set(expected)
    for parameter, gradient in expected.items():
        torch.testing.assert_close(gradients[parameter], gradient, rtol=1e-9, atol=1e-10, msg=parameter)


@pytest.mark.parametrize(("step", "computed"), [(1, 5), (4, 8), (16, 16), (32, 24)])
def test_the_last_feed_forward_computes_each_position_that_is_read_once(
    step: int, computed: int, monkeypatch: pytest.MonkeyPatch
):
    """Tokens 3, 9 and 17, and 0 for -1; the rows are one document each here, and begin at 0 and 8."""
    monkeypatch.setattr(reading, "STEP", step)
    model = build("bert-nano", {})
    assert model.settings.encoder is not None
    stack, spent = model.settings.encoder.settings, [flops(model, places) for places in (places_of(model), {})]
    assert spent[1] - spent[0] == (TOKENS.numel() - computed) * 2 * 2 * stack.d_model * stack.d_ff


def test_all_positions_are_computed_where_none_is_to_be_skipped():
    model, shapes = build("electra-nano", {}), list[torch.Size]()
    assert model.generator is not None
    for part in (model.generator, model.stream):
        part.register_forward_hook(lambda part, given, memory: shapes.append(memory.states.shape[:2]))
    for model.skip_unread in (True, False):
        model(TOKENS, places=places_of(model))
    assert shapes[0] != TOKENS.shape != shapes[1] and shapes[2:] == [TOKENS.shape] * 2


def flops(model: Model, places: dict[str, Tensor]) -> int:
    """Of the encoder alone, where every row is one document."""
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(TOKENS, places=places)
    return sum(counter.get_flop_counts()["Model.encoder"].values())


def test_all_states_are_computed_where_a_head_may_read_any():
    for changes, left in (({}, "masked_lm"), ({"pooler.mean": True}, None)):
        model = build("bert-nano", changes)
        places = {name: some for name, some in places_of(model).items() if name != left}
        assert model(TOKENS, places=places).states.shape == (3, 8, model.stream.d_model)


def test_more_positions_than_there_are_are_not_picked():
    model = build("bert-nano", {"heads": ["masked_lm"]})
    assert model(TOKENS, places={"masked_lm": torch.arange(24)}).states.shape == (3, 8, model.stream.d_model)
