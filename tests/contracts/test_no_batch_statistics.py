"""No model normalizes over its batch: a row's output and gradient would depend on which rows share its micro-batch."""

import json
from typing import Any

import pytest
import torch
from small_models import VARIANTS, first_built, label
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from zoo.models.create import list_models
from zoo.models.model import Model
from zoo.models.settings import load_settings


def over_the_batch(model: nn.Module) -> list[str]:
    """Modules that normalize over a batch; instance norms too, where they keep statistics."""
    return [name for name, module in model.named_modules() if isinstance(module, _NormBase)]


@pytest.mark.parametrize("name", list_models("*-nano"))
def test_no_kind_of_model_has_a_batch_norm(name: str):
    with torch.device("meta"):
        assert not over_the_batch(Model(load_settings(name, [])))


@pytest.mark.parametrize(("slot", "choice"), VARIANTS, ids=label)
def test_no_variant_has_a_batch_norm(slot: str, choice: dict[str, Any]):
    assert not over_the_batch(first_built(slot, json.dumps(choice)))


def test_a_batch_norm_would_be_found():
    assert over_the_batch(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))) == ["1"]
