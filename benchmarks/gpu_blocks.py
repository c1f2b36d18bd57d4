"""Can torch's compiler compile every kind of block for a GPU, forward and backward? Needs no GPU.

    python benchmarks/gpu_blocks.py [PART OF A NAME ...]
    python benchmarks/gpu_blocks.py --moved MODEL ROWS LENGTH [--dropout SHARE]

Needs g++ and the package triton, and takes about ten minutes. A Transformer block with each variant of each slot is
compiled, with and without dropout, with the attention backend that training would choose for it in bfloat16; then flex
attention alone, for several row lengths and head widths. Kernels are compiled to machine code but not run. Exits with
status 1 if the compiler finds no kernels, breaks a block's graph, or needs more shared memory than an H100 has.

`--moved` prints instead the bytes that each kernel of a model's last block reads and writes on full rows, which bound
its time from below.
"""

import argparse
import importlib
import logging
import sys
import tempfile
import warnings
from pathlib import Path

from rows.pretended_gpu import pretend, refuse_without_triton


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only cases with this in their names")
    parser.add_argument("--moved", nargs=3, metavar=("MODEL", "ROWS", "LENGTH"), help="bytes that kernels move")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="SHARE", help="for --moved")
    options = parser.parse_args()
    refuse_without_triton(parser)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        pretend(Path(folder))  # must come before torch is imported
        for name in ("torch._inductor", "torch._dynamo"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they log `KernelsNotRun`
        compile_blocks = importlib.import_module("rows.compile_blocks")
        if options.moved:
            model, rows, length = options.moved
            try:
                return compile_blocks.print_bytes_moved(model, int(rows), int(length), options.dropout)
            except ValueError as error:
                parser.error(str(error))
        cases = list(compile_blocks.cases())
        selected = [case for case in cases if not options.names or any(name in case.name for name in options.names)]
        if not selected:
            parser.error(f"no case has {' or '.join(options.names)} in its name")
        failed = [case.name for case in selected if not compile_blocks.try_case(case)]
    print(f"{len(selected) - len(failed)} of {len(selected)} have kernels{''.join(f'; not {name}' for name in failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
