"""Claims about models that are to be filled: nothing is drawn for them, and they have every tensor."""

import pytest
import torch

from zoo.models.blank import blank
from zoo.models.model import Model
from zoo.models.settings import load_settings

MODELS = ["bert-nano", "gpt-modern-nano", "transformer-nano", "rnn-attention-nano", "captioner-transformer-nano"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_blank_model_has_every_tensor_and_draws_no_number(name: str, device: str):
    settings = load_settings(name, [(("vocab_size",), 50)])
    wanted = {key: tensor.shape for key, tensor in Model(settings).state_dict().items()}
    before = torch.get_rng_state()
    found = blank(settings, device).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert {key: tensor.shape for key, tensor in found.items()} == wanted
    assert {tensor.device.type for tensor in found.values()} == {device}
