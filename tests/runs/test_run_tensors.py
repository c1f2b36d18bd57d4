"""Claims about tensors by name: tied ones are stored once, and what does not fit is refused before any copying."""

from pathlib import Path

import pytest
import torch
from torch import nn

from zoo.runs.tensors import load_matching, load_tensors, read_tensors, unique_tensors, write_tensors


class Tied(nn.Module):
    """Two names for one matrix, and an empty buffer beside another empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5)
        self.output.weight = self.embedding.weight
        self.register_buffer("nothing", torch.zeros(0))
        self.register_buffer("empty", torch.zeros(0))


def test_a_tied_matrix_is_stored_once_and_comes_back_tied(tmp_path: Path):
    model, other = Tied(), Tied()
    write_tensors(tmp_path / "w.safetensors", unique_tensors(model))
    tensors = read_tensors(tmp_path / "w.safetensors")
    load_tensors(other, tensors)
    assert sorted(tensors) == ["embedding.weight", "empty", "nothing", "output.bias"]
    assert other.output.weight is other.embedding.weight
    torch.testing.assert_close(other.output.weight, model.embedding.weight, rtol=0, atol=0)


def test_a_file_that_stores_the_other_of_two_tied_names_loads():
    model, other = Tied(), Tied()
    tensors = unique_tensors(model)
    tensors["output.weight"] = tensors.pop("embedding.weight")
    load_tensors(other, tensors)
    assert torch.equal(other.embedding.weight, model.embedding.weight)


def test_views_of_one_storage_can_be_written(tmp_path: Path):
    whole = torch.arange(6.0)
    write_tensors(tmp_path / "w.safetensors", {"left": whole[:3], "right": whole[2:], "turned": whole.view(2, 3).T})
    assert torch.equal(read_tensors(tmp_path / "w.safetensors")["turned"], whole.view(2, 3).T)


def test_two_ways_to_look_at_one_storage_are_not_one_tensor():
    whole = torch.arange(9.0).view(3, 3)
    module = nn.Module()
    for name, tensor in {"whole": whole, "rows": whole[:2], "turned": whole.T, "again": whole[:]}.items():
        module.register_buffer(name, tensor)
    assert list(unique_tensors(module)) == ["whole", "rows", "turned"]


def test_what_does_not_fit_is_listed_with_shapes_and_nothing_is_copied():
    model = nn.Linear(2, 3)
    before = model.weight.clone()
    words = "bias: missing, expected 3; other: unexpected, found 7; weight: expected 3x2, found 2x3"
    with pytest.raises(ValueError, match=words):
        load_tensors(model, {"weight": torch.zeros(2, 3), "other": torch.zeros(7)})
    assert torch.equal(model.weight, before)


def test_what_matches_can_be_loaded_alone_and_the_rest_is_named():
    model, tied = nn.Linear(2, 3), Tied()
    assert load_matching(model, {"weight": torch.ones(3, 2), "other": torch.zeros(7)}) == (["bias"], ["other"])
    assert model.weight.sum() == 6
    assert load_matching(tied, {"output.weight": torch.zeros(5, 3)})[0] == ["nothing", "empty", "output.bias"]
    with pytest.raises(ValueError, match="the weights do not fit the model: bias: expected 3, found 2"):
        load_matching(model, {"bias": torch.zeros(2)})


def test_only_the_first_five_faults_are_listed():
    with pytest.raises(ValueError, match=r"w4: unexpected, found 1; and 3 more$"):
        load_tensors(nn.Identity(), {f"w{i}": torch.zeros(1) for i in range(8)})


def test_a_damaged_file_is_named(tmp_path: Path):
    (tmp_path / "w.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(ValueError, match=r"w.safetensors: is damaged, it is not safetensors"):
        read_tensors(tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"absent.safetensors: No such file"):
        read_tensors(tmp_path / "absent.safetensors")


def test_whoever_may_read_other_new_files_may_read_the_weights(tmp_path: Path):
    (tmp_path / "other").touch()
    write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(2)}, {"format": "pt"})
    assert (tmp_path / "w.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
