"""Run every program of this folder, each in a fork of a process that has imported everything: `every.py FOLDER`."""

import os
import runpy
import sys
import traceback
from pathlib import Path

import load  # noqa: F401 - the device, before torch
import looking  # noqa: F401 - what the programs import
import torch
import torch._dynamo
from torch._subclasses.fake_tensor import FakeTensorMode

import zoo.inference.predict
import zoo.training.step  # noqa: F401

with FakeTensorMode(), torch.device("cuda"):
    (torch.ones(2) + 1).sum()  # the first fake tensor imports what all of them need

HERE, TOLD = Path(__file__).parent, Path(sys.argv[1])
AT_ONCE = 2  # while they run, workers of the tests wait for them
running = 0
for program in sorted(HERE.glob("*.py")):
    if program.stem in ("every", "load", "__init__"):
        continue
    if running == AT_ONCE:
        os.wait()
        running -= 1
    running += 1
    if not os.fork():
        for stream, name in ((1, program.stem), (2, f"{program.stem}.errors")):
            os.dup2(os.open(TOLD / name, os.O_CREAT | os.O_WRONLY), stream)
        sys.argv = [str(program)]
        try:
            runpy.run_path(str(program), run_name="__main__")
        except BaseException:
            traceback.print_exc()
            (TOLD / f"{program.stem}.failed").touch()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
for _ in range(running):
    os.wait()
