"""What a CPU can show of attention over packed rows on a GPU: devices, and that nothing waits for the device."""

import pytest

import pretending


def test_no_pass_over_packed_rows_reads_on_the_host_and_cudnn_gets_no_mask(tmp_path_factory: pytest.TempPathFactory):
    assert pretending.run("attending", tmp_path_factory) == "mask, cuDNN: [(True, False)]\n"
