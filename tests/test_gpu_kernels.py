"""Claims about benchmarks/gpu_kernels.py: it counts what a kernel moves once a logit, and nothing else."""

from programs import load_program

SOURCE = """
    triton_meta={'signature': {'in_ptr0': '*bf16', 'out_ptr0': '*fp32', 'xnumel': 'i32'}},
)
@triton.jit
def triton_red_fused_sum_0(in_ptr0, out_ptr0, xnumel):
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    x0 = xindex
        tmp0 = tl.load(in_ptr0 + (r0_1 + 300*x0), r0_mask).to(tl.float32)
    tl.store(out_ptr0 + (x0), tmp2, xmask)
''', device_str='cuda')
    triton_meta={'signature': {'in_ptr0': '*fp32', 'in_ptr1': '*bf16', 'out_ptr1': '*bf16', 'xnumel': 'i32'}},
)
@triton.jit
def triton_poi_fused_exp_1(in_ptr0, in_ptr1, out_ptr1, xnumel):
    x2 = xindex
    x1 = xindex // 300
    tmp0 = tl.load(in_ptr0 + (x1), xmask)
    tmp7 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tl.store(out_ptr1 + (x2), tmp19, xmask)
''', device_str='cuda')
"""


def test_only_what_has_an_entry_for_each_logit_is_counted():
    assert load_program("benchmarks/gpu_kernels.py").accesses(SOURCE, 300) == {
        "triton_red_fused_sum_0": [("load", 2)],
        "triton_poi_fused_exp_1": [("load", 2), ("store", 2)],
    }
