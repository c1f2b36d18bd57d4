"""Claims about GPUs that need none: a step of every family reads nothing back and leaves nothing on the CPU."""

import json
from pathlib import Path

import pytest
from once import once
from pretending import build, obstacle, run

RECURRENT = "captioner-rnn-nano", "rnn-attention-nano", "rnn-seq2seq-nano"  # packed sequences have sizes, which are read


@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
def test_a_training_step_of_every_family_reads_nothing_back_from_the_device(tmp_path_factory: pytest.TempPathFactory):
    library = once(tmp_path_factory, "pretended", build) / "libpretended.so"
    done = json.loads(run(library, Path(__file__).with_name("pretended_steps.py")))
    assert done.pop("reads") == [], "a read by the host does not raise, so this test would find none"
    assert {name: said for name, said in done.items() if name not in RECURRENT} == {
        name: "done" for name in done if name not in RECURRENT
    }
    assert len(done) > len(RECURRENT)
