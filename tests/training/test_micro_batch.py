"""Claims about `micro_batch: auto`: the largest that fits, the same gradient, and the same again after a stop."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TinyModel, lines, losses, settings, train_tiny

from zoo.runs.saved import open_run


class Hungry(TinyModel):
    """Has memory for so many rows in one forward."""

    def __init__(self, rows: int, error: Exception | None = None) -> None:
        super().__init__()
        self.rows, self.most = rows, 0
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has less")

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor) -> Any:
        if len(tokens) > self.rows:
            raise self.error
        self.most = max(self.most, len(tokens))
        return super().forward(tokens, documents)


@pytest.mark.parametrize(("rows", "found"), [(99, 13), (12, 7), (5, 4), (1, 1)])
def test_the_share_of_a_process_is_halved_until_it_fits(tmp_path: Path, rows: int, found: int):
    model = Hungry(rows)
    _, state = train_tiny(tmp_path, settings(steps=1, batch=13, micro_batch="auto"), model)
    assert (model.most, state.micro_batch) == (found, found)


def test_what_auto_finds_changes_no_loss(tmp_path: Path):
    for name, rows in {"much": 99, "little": 3}.items():
        train_tiny(tmp_path / name, settings(micro_batch="auto", steps=6), Hungry(rows))
    train_tiny(tmp_path / "named", settings(steps=6))
    assert losses(tmp_path / "much") == losses(tmp_path / "named")
    assert losses(tmp_path / "little") == pytest.approx(losses(tmp_path / "named"), abs=1e-5)


def test_a_resumed_run_keeps_what_auto_found(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=2, micro_batch="auto"), Hungry(3))
    assert open_run(tmp_path).checkpoint.state["micro_batch"] == 3
    model = Hungry(99)
    train_tiny(tmp_path, settings(steps=4, micro_batch="auto"), model, resume=True)
    assert model.most == 3 and len(lines(tmp_path)) == 4


@pytest.mark.parametrize(
    "error",
    [None, RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")],
)
def test_out_of_memory_names_the_setting_to_lower(tmp_path: Path, error: Exception | None):
    words = r"out of memory: lower training.micro_batch \(now 4\), which changes no gradient.*(CUDA out|DefaultCPU)"
    with pytest.raises(RuntimeError, match=words) as refused:
        train_tiny(tmp_path, settings(micro_batch=4), Hungry(3, error))
    assert "\n" not in str(refused.value)


def test_other_errors_stay_what_they_are(tmp_path: Path):
    for micro_batch in (4, "auto"):
        with pytest.raises(RuntimeError, match="^a bug$"):
            train_tiny(tmp_path / str(micro_batch), settings(micro_batch=micro_batch), Hungry(0, RuntimeError("a bug")))


def test_auto_that_never_fits_says_so_in_the_first_step(tmp_path: Path):
    with pytest.raises(RuntimeError, match=r"out of memory: lower training.micro_batch \(now 1\).*strategy=fsdp"):
        train_tiny(tmp_path, settings(micro_batch="auto"), Hungry(0))


def test_another_word_than_auto_is_refused():
    with pytest.raises(ValueError, match="training.micro_batch: expected a whole number or 'auto' or null, got 'all'"):
        settings(micro_batch="all")
