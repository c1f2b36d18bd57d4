"""What a CPU can show of decoding on a GPU: shapes, dtypes and devices, and that no step waits for the device."""

import pytest

import pretending


def test_no_step_of_decoding_reads_on_the_host(tmp_path_factory: pytest.TempPathFactory):
    assert "a host read raises DataDependentOutputException" in pretending.run("decoding", tmp_path_factory)
