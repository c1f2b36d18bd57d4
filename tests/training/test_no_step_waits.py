"""What a CPU can show of training on a GPU: no step waits for the device, and nothing is left on the CPU."""

import json

import pytest

import pretending


def test_no_training_step_reads_on_the_host_whatever_the_model_and_the_optimizer(
    tmp_path_factory: pytest.TempPathFactory,
):
    done = json.loads(pretending.run("training_step", tmp_path_factory))
    assert done.pop("reads") == [], "a read by the host does not raise, so this test would find none"
    # what heads are turned by is computed once, for the dtype of products, also where a norm stands before it
    assert done.pop("turned") == ["torch.bfloat16"]
    assert set(done.values()) == {"done"}, done
