"""Claims about benchmarks/gpu_kernels.py: it counts what kernels of every kind move, whatever their loops are."""

from programs import load_program

ROWS, CLASSES = 8, 300
SOURCE = """
    triton_meta={'signature': {'in_ptr0': '*bf16', 'out_ptr0': '*fp32', 'xnumel': 'i32'}},
)
@triton.jit
def triton_red_fused_sum_0(in_ptr0, out_ptr0, xnumel):
    xnumel = 24
    r0_numel = 100
    x0 = (xindex % 3)
    x1 = xindex // 3
        r0_2 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_2 + 100*x0 + 300*x1), r0_mask).to(tl.float32)
    x3 = xindex
    tl.store(out_ptr0 + (x3), tmp2, xmask)
''', device_str='cuda')
    triton_meta={'signature': {'in_ptr0': '*fp32', 'in_ptr1': '*bf16', 'in_ptr2': '*i64', 'out_ptr1': '*bf16'}},
)
@triton.jit
def triton_poi_fused_exp_1(in_ptr0, in_ptr1, in_ptr2, out_ptr1, xnumel):
    xnumel = 2400
    x2 = xindex
    x1 = xindex // 300
    tmp0 = tl.load(in_ptr0 + (x1), xmask)
    tmp7 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tl.store(out_ptr1 + (x2), tmp19, xmask)
''', device_str='cuda')
    triton_meta={'signature': {'in_ptr0': '*bf16', 'in_ptr1': '*i64', 'xnumel': 'i32'}},
)
@triton.jit
def triton_per_fused_max_2(in_ptr0, in_ptr1, xnumel):
    xnumel = 8
    r0_numel = 300
    x0 = xindex
    r0_1 = r0_index
    tmp0 = tl.load(in_ptr0 + (r0_1 + 300*x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + ((tmp7 + 300*x0)), xmask)
''', device_str='cuda')
"""


def test_each_access_counts_with_the_loops_that_its_index_has():
    found = load_program("benchmarks/gpu_kernels.py").accesses(SOURCE, ROWS * CLASSES)
    assert found == {
        "triton_red_fused_sum_0": [("load", 2.0), ("store", 4 * 24 / 2400)],
        "triton_poi_fused_exp_1": [("load", 4 * 8 / 2400), ("load", 2.0), ("store", 2.0)],
        "triton_per_fused_max_2": [("load", 2.0), ("load", 8 * 8 / 2400)],
    }
