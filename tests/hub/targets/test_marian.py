"""Separate token vectors, and vocabularies of different sizes, in transformers' Marian."""

from typing import Any

import pytest
import torch
import transformers

from versions import needs
from zoo.hub.targets.choose import obstacles
from zoo.models.settings import load_settings

APART = {"embeddings.shared": False, "encoder.vocab_size": 173, "decoder.vocab_size": 161}
ODD = {"d_model": 21, "encoder.n_heads": 3, "decoder.n_heads": 7, "encoder.n_layers": 1, "decoder.n_layers": 2}


@needs("5.18", "the loss of MarianMTModel takes the sources' vocabulary for the targets'")
@pytest.mark.parametrize("sets", [{}, {"heads.language.bias": True}, {"heads.language.tied": False}])
@torch.no_grad()
def test_two_vocabularies_are_two_tables(build: Any, export: Any, sets: dict[str, Any]):
    given = build("transformer-nano", {**ODD, **APART, **sets})
    report = export(given)
    assert report.class_name == "MarianMTModel"
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(report.folder).double().eval()
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (173, 161)
    source, tokens = torch.tensor([[172, 9, 8, 3]]), torch.tensor([[2, 160, 11]])
    ours = given.model.double().eval()(tokens, source).logits
    assert ours.shape == (1, 3, 161)
    torch.testing.assert_close(ours, model(source, decoder_input_ids=tokens).logits, atol=1e-10, rtol=1e-10)


def test_stacks_of_different_width_are_named():
    sets = [(("embeddings", "shared"), False), (("encoder", "d_model"), 24)]
    found = obstacles(load_settings("transformer-nano", sets))["marian"]
    assert found == ("encoder.d_model and decoder.d_model differ (24, 32); transformers' Marian has one value for all")
