"""Claims about numbers that break: no weight that is none is saved, loaded or trained from."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import TinyModel, settings, train_tiny

from zoo.runs import checkpoint
from zoo.runs.saved import open_run
from zoo.runs.tensors import require_finite


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path):
    with pytest.raises(RuntimeError, match=r"step \d: \S+ is no longer finite, so nothing is saved; .*checkpoints/2"):
        train_tiny(tmp_path, settings(steps=2, save_every=1))
        model = TinyModel()
        model.register_forward_hook(spoil_once)
        train_tiny(tmp_path, settings(steps=6, save_every=1), model, resume=True)
    assert open_run(tmp_path).step == 2
    assert all(tensor.isfinite().all() for tensor in open_run(tmp_path).weights.values())


def spoil_once(model: TinyModel, given: object, said: object) -> None:
    """An update that overflows."""
    with torch.no_grad():
        model.hidden.bias.copy_(torch.tensor([torch.inf] * 5))


@pytest.mark.parametrize("save_every", [0, 1])
def test_a_step_with_bad_numbers_names_where_to_go_on_from(tmp_path: Path, save_every: int):
    train_tiny(tmp_path, settings(steps=2))
    model = TinyModel()
    model.hidden.register_forward_hook(lambda module, given, said: said * torch.nan)
    words = r"step 4: the loss or a gradient was not finite in 2 consecutive steps \(training.skip_limit\)"
    with pytest.raises(
        RuntimeError,
        match=words + r"; the last checkpoint before that is \S+checkpoints/2. Lower training.learning_rate",
    ):
        train_tiny(tmp_path, settings(steps=9, skip_limit=2, save_every=save_every), model, resume=True)


def test_a_run_that_ends_with_such_steps_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    train_tiny(tmp_path, settings(steps=2))
    assert "changed nothing" not in caplog.text
    model = TinyModel()
    model.hidden.register_forward_hook(lambda module, given, said: said * torch.nan)
    train_tiny(tmp_path, settings(steps=4), model, resume=True)
    assert "the last 2 steps were skipped: the loss or a gradient was not finite" in caplog.text


def test_tensors_with_nan_or_infinity_are_named():
    for bad, word in ((torch.nan, "NaN"), (torch.inf, "inf"), (-torch.inf, "-inf")):
        with pytest.raises(
            ValueError, match=f"runs/a: heads.b holds {word}, not a finite .* use an earlier checkpoint"
        ):
            require_finite({"a": torch.zeros(2), "heads.b": torch.tensor([1.0, bad])}, "runs/a")


def test_a_checkpoint_with_nan_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train_tiny(tmp_path, settings(steps=2))
    path = tmp_path / "checkpoints" / "2" / "weights.safetensors"
    weights = load_file(path)
    weights["hidden.bias"][3] = torch.nan
    save_file(weights, path)
    monkeypatch.setattr(checkpoint, "check_file", lambda *_: None)  # as if it had been written like that
    with pytest.raises(ValueError, match="checkpoints/2: hidden.bias holds NaN"):
        train_tiny(tmp_path, settings(steps=4), resume=True)
