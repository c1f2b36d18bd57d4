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


def test_a_compiled_block_is_one_graph_with_the_kernels_of_a_gpu_in_it(tmp_path_factory: pytest.TempPathFactory):
    """Of each kind of block, and one more of the last block, which leaves out what no head reads.

    As many again where the model is read without gradients, too.
    """
    assert pretending.run("compiling", tmp_path_factory).splitlines() == [
        "gpt-modern-nano: 4 graphs by Varlen, 0 breaks",
        "bert-nano: 2 graphs by Varlen, 0 breaks",
        "captioner-transformer-nano: 2 graphs by Varlen, 0 breaks",
        "t5-nano: 6 graphs by Sdpa, Varlen, 0 breaks",  # whose heads add a bias, which varlen cannot
        "gpt2-nano: 4 graphs by Flex, 0 breaks",
        "transformer-nano, short documents: 6 graphs by Varlen, 0 breaks",  # the same in a second batch
        "transformer-nano, short documents, recomputed: 3 graphs by Varlen, 0 breaks",
    ]
