"""Folders with an adapter: transformers adds it to the weights, so zoo does not pass over it."""

from pathlib import Path

import peft
import pytest
import torch
import transformers
from strangers import saved

import zoo
from zoo.hub.checkpoint import import_checkpoint


@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_is_refused_beside_the_weights_and_without_them(tmp_path: Path, whole: bool):
    folder = saved(tmp_path / "hf", "BertForMaskedLM")
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        alone = zoo.load(folder)(ids).logits
    adapted = peft.get_peft_model(
        transformers.BertForMaskedLM.from_pretrained(folder),
        peft.LoraConfig(target_modules=["query"], init_lora_weights=False),
    )
    adapted.save_pretrained(folder if whole else tmp_path / "adapter")
    if whole:
        with torch.no_grad():
            theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()(ids).logits
        assert not torch.allclose(theirs, alone, atol=1e-3)
    with pytest.raises(ValueError, match="adapter_config.json adds an adapter to .*Merge it once with"):
        import_checkpoint(folder if whole else tmp_path / "adapter", tmp_path / "run")
    assert not (tmp_path / "run").exists()
