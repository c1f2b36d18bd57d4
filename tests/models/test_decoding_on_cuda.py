"""What a CPU can show of decoding on a GPU: shapes, dtypes and devices, and that no step waits for the device.

What is to be captured must not copy from the host either.
"""

import pytest

import pretending


def test_no_step_of_decoding_reads_on_the_host(tmp_path_factory: pytest.TempPathFactory):
    said = pretending.run("decoding", tmp_path_factory)
    assert "a host read raises DataDependentOutputException" in said and "a copy raises" in said
