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


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_blank_model_is_of_float32_whatever_torchs_default_type_is(default: torch.dtype):
    torch.set_default_dtype(default)
    try:
        found = blank(load_settings("transformer-nano"))
    finally:
        torch.set_default_dtype(torch.float32)
    assert {parameter.dtype for parameter in found.parameters()} == {torch.float32}
    assert found.encoder is not None and found.decoder is not None
    assert found.encoder.embeddings.tokens.weight is found.decoder.embeddings.tokens.weight
