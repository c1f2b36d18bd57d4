"""What a CPU can show of attention over packed rows on a GPU: devices, and that nothing waits for the device."""

import pytest

import pretending


def test_no_pass_over_packed_rows_reads_on_the_host_and_each_meets_a_fast_kernel_that_is_right(
    tmp_path_factory: pytest.TempPathFactory,
):
    """cuDNN gets no mask. Flash attention shares keys among heads; the kernel for masks and float32 would not run."""
    said = pretending.run("attending", tmp_path_factory).splitlines()
    packed = ["bfloat16, mask, no cuDNN"]
    assert said == [*packed, "bfloat16, no mask, fewer keys than queries, cuDNN", "float32, no mask, cuDNN"]
