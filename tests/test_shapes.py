"""The shapes that signatures state are checked while the tests run."""

import importlib
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

from zoo.blocks.norm import norms


def test_a_wrong_shape_is_caught():
    with pytest.raises(TypeCheckError):
        norms["rmsnorm"](3)(torch.tensor(1.0))


def test_a_wrong_dtype_is_caught():
    with pytest.raises(TypeCheckError):
        norms["rmsnorm"](3)(torch.zeros(2, 3, dtype=torch.long))


@pytest.mark.parametrize("package", ["zoo.blocks.norm", "zoo.models", "zoo.objectives"])
def test_every_package_with_shapes_is_checked(package: str):
    importlib.import_module(package)
    loader = sys.modules[package].__spec__.loader
    assert type(loader).__module__.startswith("jaxtyping")


def test_options_are_still_read_off_a_checked_signature():
    assert list(norms.options("rmsnorm"))
