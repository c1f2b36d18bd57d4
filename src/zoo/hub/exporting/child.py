"""Run `reloading.py` in a child process, so that nothing loaded in this process helps an export to load."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.runs.files import read_json
from zoo.runs.tensors import read_tensors

Reload = Callable[[Path, dict[str, Any]], tuple[dict[str, Any], dict[str, Tensor]]]
PROGRAM = Path(__file__).with_name("reloading.py")
# Options such as -I would hide packages found through PYTHONPATH or in the user's site folder, so the child gets this
# process's `sys.path`.
START = "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)) or sys.path; {zoo}; {run}"
WITHOUT_ZOO = "sys.modules['zoo'] = None"  # makes every import of zoo fail
RUN = "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
MOST_ERROR_LINES = 5  # of a failed child's error output that the message holds


def reload_in_child(
    folder: Path, request: dict[str, Any], python: str = sys.executable
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reload in a child process without network and without zoo, but with the other packages of this process.

    Args:
        request: what to compute (see `reloading.reload`); if `imports` names a module of zoo, the child imports it
            first.
        python: the interpreter; one other than this process's finds its own packages.

    Raises:
        RuntimeError: the child failed; the message holds the end of its error output.
    """
    with tempfile.TemporaryDirectory(prefix="reload-", dir=folder) as place:  # a killed export leaves nothing elsewhere
        asked = Path(place) / "request.json"
        asked.write_text(json.dumps(request), "utf-8")
        code = START.format(zoo=f"import {request['imports']}" if request["imports"] else WITHOUT_ZOO, run=RUN)
        path = [entry or os.getcwd() for entry in sys.path] if python == sys.executable else []
        # -P keeps the working directory off `sys.path`
        command = [python, "-P", "-c", code, json.dumps(path), str(PROGRAM), str(folder), str(asked), place]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            error = "\n".join(done.stderr.strip().splitlines()[-MOST_ERROR_LINES:])
            raise RuntimeError(f"transformers cannot load what was written: {error}")
        return read_json(Path(place) / "report.json"), read_tensors(Path(place) / "logits.safetensors")
