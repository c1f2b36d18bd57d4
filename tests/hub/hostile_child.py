"""Uses every hostile folder with every command, in a process that is watched from inside: prints one JSON line a use.

Arguments: a folder with `hf` and `run` (benign), where everything that is written has to stay.
"""

import contextlib
import json
import os
import pickle
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hostile
import hostile_changes
import hostile_runs
import torch

from zoo.data.task import load_task
from zoo.experiments.finetune import finetune
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import import_checkpoint, load_checkpoint, resolve
from zoo.hub.exporting import samples
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import load_trained
from zoo.hub.publishing.published import published_files
from zoo.inference.evaluate_split import evaluate_split, on_task
from zoo.inference.predict import predict
from zoo.models.generation.settings import GenerateSettings
from zoo.runs.run import RunFiles, create_run

GIB = 2**30
MEMORY = GIB // 2  # more than the benign folder needs
SECONDS, CPU_SECONDS = 300, 10  # a use hangs after so many
CODE = ("exec", "compile", "import")
FILES = ("open", "os.remove", "os.rename", "os.symlink", "os.link", "os.rmdir", "os.chmod", "os.truncate")
NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.get")
NEVER = (*NETWORK, "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.")
PROGRAM = "subprocess.Popen"
WATCHED = (*CODE, *FILES, *NEVER, PROGRAM)
GIT = ["git", "rev-parse", "HEAD"]  # a run records the commit of zoo's source
Found = list[str]


@cache  # Python tells of every `id()`, too
def is_watched(event: str) -> bool:
    return event.startswith(WATCHED)


class Guard:
    """Writes down what a use does that it must not: anything outside of its folder and its target, or any of its code.

    Args:
        root: of all folders of this test. allowed: those that the use may touch.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.allowed, self.found = str(root), (), []  # type: tuple[str, tuple[str, ...], Found]
        self.on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or not is_watched(event):
            return
        self.on = False  # what follows is our own
        try:
            fault = self.judge(event, arguments)
            self.found += [fault] if fault else []
        finally:
            self.on = True

    def judge(self, event: str, arguments: tuple[Any, ...]) -> str:
        """What is wrong with an event; nothing where it may be."""
        said = f"{event} {arguments!r:.200}"
        if event in CODE:
            places = [getattr(a, "co_filename", a) for a in arguments]
            theirs = any(isinstance(p, str | bytes) and (self.root in str(p) or "canary" in str(p)) for p in places)
            return said if theirs else ""
        if event == PROGRAM:
            return "" if list(arguments[1])[:3] == GIT else said
        if event.startswith(FILES):
            paths = [
                os.path.realpath(a)
                for a in arguments[: 1 + (event != "open")]
                if isinstance(a, str | bytes | os.PathLike)
            ]
            wrong = [p for p in map(str, paths) if p.startswith(self.root) and not p.startswith(self.allowed)]
            return said if wrong or "/etc/passwd" in map(str, paths) else ""
        return said  # a socket, another program, a pickle, a library


def too_long(*_: object) -> None:
    raise TimeoutError("it takes too long")


@contextmanager
def limited() -> Iterator[None]:
    """A little more memory than is taken now, and not for ever."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    signal.alarm(SECONDS)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def task_file(target: Path) -> str:
    """A task with a few rows of its own."""
    target.mkdir(parents=True)
    (target / "rows.tsv").write_text("text\tlabel\n" + "a boy kicks a ball\t0\nthe end\t1\n" * 4)
    (target / "task.yaml").write_text(
        "# a task\nobjective: classification\nlabels: ['0', '1']\nlength: 16\n"
        f"source: {{files: {{train: {target}/rows.tsv, validation: {target}/rows.tsv}}}}\n"
        "columns: {text: text, label: label}\ntraining: {steps: 1, batch: 2, warmup_steps: 0}\n"
    )
    return str(target / "task.yaml")


def use_load(folder: Path, target: Path) -> None:
    loaded = load_checkpoint(folder)
    predict(loaded, ["a boy"], None, GenerateSettings())


def use_import(folder: Path, target: Path) -> None:
    import_checkpoint(folder, target / "run")


def use_evaluate(folder: Path, target: Path) -> None:
    loaded = on_task(load_checkpoint(folder), load_task(task_file(target)))
    evaluate_split(loaded, "validation", None, GenerateSettings())


def use_finetune(folder: Path, target: Path) -> None:
    request = Request(str(folder), task_file(target), target / "run")
    finetune(resolve(folder), request, Watcher())


def use_export(folder: Path, target: Path) -> None:
    """An export, which plain transformers reloads here, where it is watched."""
    export_model(load_trained(resolve(folder), address="a/b"), target / "out", None, reload)


def use_push(folder: Path, target: Path) -> None:
    """All of a push that happens before the network; a run is exported."""
    if (folder / "config.json").exists():
        published_files(folder, target / "aside", "a/b")
    else:
        use_export(folder, target)


def use_resume(folder: Path, target: Path) -> None:
    """What `--resume` reads of a run: its settings, its tokenizer, its checkpoint."""
    files = RunFiles({"a": 1})
    with create_run(folder, files, resume=True) as run:
        if run.checkpoint is not None:
            print(run.checkpoint.state, run.checkpoint.published, file=sys.stderr)


def use_badly(folder: Path, target: Path) -> None:
    """What nothing may do: the watch must see each of these."""
    (folder.parents[1] / "outside" / "canary").read_text()
    (folder.parents[1] / "outside" / "new").write_text("")
    pickle.loads(pickle.dumps(hostile_changes.Payload()))
    subprocess.run(["true"], check=True)
    exec(compile("1", str(folder / "code.py"), "exec"))
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), timeout=0.1)


Uses = dict[str, Callable[[Path, Path], None]]
EVERY: Uses = {"load": use_load, "evaluate": use_evaluate, "finetune": use_finetune, "export": use_export,
               "push": use_push}  # fmt: skip
ALL: Uses = {**EVERY, "import": use_import}
RUN: Uses = {**EVERY, "resume": use_resume}


def try_use(guard: Guard, name: str, verb: str, use: Callable[[Path, Path], None], folder: Path, root: Path) -> None:
    """One line about one use of one folder."""
    target = root / "targets" / f"{name}-{verb}"
    target.parent.mkdir(exist_ok=True)
    temporary = root / "temporary"
    temporary.mkdir(exist_ok=True)
    guard.allowed, guard.found = (str(folder.resolve()), str(target), str(temporary)), []
    before, said = time.process_time(), ""
    try:
        with limited():
            guard.on = True
            use(folder, target)
    except ValueError as error:
        said = f"refused: {error}"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    guard.on = False
    seconds = time.process_time() - before
    print(json.dumps({"name": name, "verb": verb, "said": said, "events": guard.found, "seconds": seconds}), flush=True)
    shutil.rmtree(target, ignore_errors=True)


def main(root: Path) -> None:
    torch.set_num_threads(1)
    samples.N_TEXTS = 30
    (root / "temporary" / "here").mkdir(parents=True)
    os.chdir(root / "temporary" / "here")
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, too_long)
    guard, outside = Guard(root), root / "outside"
    sys.addaudithook(guard)
    outside.mkdir()
    (outside / "canary").write_text("canary")

    def copy(base: str, name: str, change: hostile_changes.Change | None) -> Path:
        folder = root / "folders" / name
        shutil.copytree(root / base, folder)
        if change is not None:
            change(folder, outside)
        return folder

    for verb, use in ALL.items():  # what is imported late is imported before anybody looks
        use(copy("hf", f"first-{verb}", None), root / "targets" / f"first-{verb}")
    try_use(guard, "badly", "load", use_badly, copy("hf", "badly", None), root)
    Path("canary-ran").unlink()
    for verb, use in ALL.items():
        try_use(guard, "benign", verb, use, copy("hf", f"benign-{verb}", None), root)
    for name, change in hostile.INERT.items():
        try_use(guard, name, "load", use_load, copy("hf", f"{name}-load", change), root)  # which imports it first
    everything = hostile_changes.after(*(change for name, change in hostile.INERT.items()))
    for verb, use in ALL.items():
        try_use(guard, "everything", verb, use, copy("hf", f"everything-{verb}", everything), root)
    for name, (change, _) in hostile.REFUSED.items():
        folder = copy("hf", name, change)
        for verb, use in ALL.items():
            try_use(guard, name, verb, use, folder, root)
    for verb, use in RUN.items():
        try_use(guard, "benign_run", verb, use, copy("run", f"benign_run-{verb}", None), root)
    for name, (change, _) in hostile_runs.REFUSED.items():
        for verb, use in RUN.items():
            try_use(guard, name, verb, use, copy("run", f"{name}-{verb}", change), root)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
