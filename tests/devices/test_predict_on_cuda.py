"""Claims about predictions on a GPU that is only pretended: all tensors lie on it, and nothing waits for it midway."""

import pytest

import pretending

READS = {
    "masked_lm": "predict",
    "classification": "named_predictions",
}  # where the answer is read; of generated texts: `drop_finished`


def test_every_kind_of_prediction_runs_on_a_gpu_up_to_the_reading_of_its_answer(
    tmp_path_factory: pytest.TempPathFactory,
):
    """An operation of tensors on two devices, or any other read by the host, would end a prediction with an error."""
    found = [line.split("\t") for line in pretending.run("predicting", tmp_path_factory).splitlines()]
    assert len(found) == 6, found
    for name, objective, beams, devices, said, backends in found:
        where = READS.get(objective, "drop_finished")
        assert backends == "{'Varlen'}", (name, backends)
        assert (devices, said) == ("{'cuda'}", f"read in {where}"), (name, objective, beams, said)
