"""Processes that share work."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from zoo.data.scratch import Scratch

WORKER = """
import json, sys, time
from pathlib import Path
from zoo.data.processes import end_with_caller

end_with_caller()
with open(json.loads(Path(sys.argv[1]).read_text())["pipe"], "wb", buffering=0) as pipe:
    pipe.write(b"begun ")
    time.sleep(60)
    pipe.write(b"went on ")
"""
CALLER = "import sys; from zoo.data.processes import run_together; run_together('sleeping', {'pipe': sys.argv[1]}, 2)"


def test_processes_end_with_the_one_that_started_them_even_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sleeping.py").write_text(WORKER)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with (
        subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path / "pipe")], env=environment) as caller,
        (tmp_path / "pipe").open("rb", buffering=0) as pipe,
    ):
        said = b""
        while said.count(b"begun") < 2:
            said += pipe.read(1)
        caller.kill()
        assert pipe.read().strip() == b""  # the pipe ends when nobody can write into it any more
    (left,) = tmp_path.glob("zoo-*")
    with Scratch():
        assert not left.exists()
