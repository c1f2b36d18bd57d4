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


def test_processes_import_nothing_of_the_working_directory_that_their_caller_would_not(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "sleeping.py").write_text("import json, pathlib, sys; pathlib.Path(sys.argv[2]).touch()")
    (tmp_path / "json.py").write_text("import pathlib; pathlib.Path('executed').touch()")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "modules"), *sys.path])}
    subprocess.run([sys.executable, "-P", "-c", CALLER, ""], env=environment, cwd=tmp_path, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "json.py", "modules"]


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
