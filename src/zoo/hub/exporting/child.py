"""Run `reloading.py` in a process of its own, where nothing of this process can help an export to load."""

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
HOME = Path(__file__).parents[3]  # where zoo is imported from
WITH_ZOO = "zoo.hub.exporting.shell_reloading"
LINES = 5  # of a failed child's error output that are passed on


def reload_apart(
    folder: Path, request: dict[str, Any], python: str = sys.executable
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reload in a child process, of any Python, without a network.

    Zoo cannot be imported there, unless the classes are its own.

    Raises:
        RuntimeError: the child failed; with the end of its error output.
    """
    with tempfile.TemporaryDirectory(prefix="zoo-export-") as place:
        asked = Path(place) / "request.json"
        asked.write_text(json.dumps(request), "utf-8")
        program = ["-P", "-m", WITH_ZOO] if request["imports"] else ["-I", str(PROGRAM)]
        command = [python, *program, str(folder), str(asked), place]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        if request["imports"]:
            environment["PYTHONPATH"] = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            error = "\n".join(done.stderr.strip().splitlines()[-LINES:])
            raise RuntimeError(f"transformers cannot load what was written: {error}")
        return read_json(Path(place) / "report.json"), read_tensors(Path(place) / "logits.safetensors")
