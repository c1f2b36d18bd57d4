"""Claims about predictions on a GPU that is only pretended: all tensors lie on it, and nothing waits for it midway."""

import shutil
from pathlib import Path

import pretend
import pytest

READS = {"masked_lm": "predict", "classification": "likeliest"}  # where the answer is read; of written texts: `leave`


@pytest.mark.skipif(shutil.which("g++") is None, reason=pretend.NO_COMPILER)
def test_every_kind_of_prediction_runs_on_a_gpu_up_to_the_reading_of_its_answer():
    """An operation of tensors on two devices, or any other read by the host, would end a prediction with an error."""
    done = pretend.run(Path(__file__).with_name("predict_on_cuda.py"))
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(found) == 6, done.stderr
    for name, objective, beams, devices, said in found:
        where = READS.get(objective, "leave")
        assert (devices, said) == ("{'cuda'}", f"read in {where}"), (name, objective, beams, said)
