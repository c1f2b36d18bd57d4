"""Run folders that mean harm, sealed anew, so that no hash gives them away."""

import json
import pickle
from hashlib import sha256
from pathlib import Path

from hostile import DEEP
from hostile_changes import Change, Payload, put, replaced, splitting

from zoo.runs.files import digest, to_json

WEIGHTS = "checkpoints/0/weights.safetensors"


def sealed(change: Change, also: dict[str, object] | None = None) -> Change:
    """The change, and a manifest that says that everything is as it was written."""

    def both(folder: Path, outside: Path) -> None:
        change(folder, outside)
        checkpoint = folder / "checkpoints" / "0"
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        manifest["run"] = {name: digest(folder / name) for name in manifest["run"]}
        files = {n: checkpoint / n for n in manifest["files"]}
        manifest["files"] = {n: digest(p) for n, p in files.items()}
        manifest |= also or {}
        del manifest["sha256"]
        whole = {**manifest, "sha256": sha256(to_json(manifest)).hexdigest()}
        (checkpoint / "manifest.json").write_bytes(to_json(whole))

    return both


def begins(name: str, text: str) -> Change:
    """A file with a text before its own."""
    return lambda folder, outside: put(name, text + (folder / name).read_text())(folder, outside) and None


def moved_out(name: str) -> Change:
    def change(folder: Path, outside: Path) -> None:
        target = outside / f"{folder.name}-{Path(name).name}"
        (folder / name).rename(target)
        (folder / name).symlink_to(target)

    return change


ALIASES = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
LISTED = {"../../config.yaml": "0", "weights.safetensors": "0"}
REFUSED: dict[str, tuple[Change, str]] = {
    "yaml_tag": (sealed(begins("config.yaml", "x: !!python/object/apply:os.system ['touch canary-ran']\n")), "tags"),
    "yaml_aliases": (sealed(begins("config.yaml", ALIASES)), "aliases .* are not allowed"),
    "yaml_twice": (sealed(begins("config.yaml", "d_model: 3\n")), "is written twice"),
    "yaml_deep": (sealed(begins("config.yaml", f"x: {DEEP[:400]}\n")), "nested too deeply"),
    "yaml_target": (sealed(begins("config.yaml", "_target_: os.system\n")), "unknown key '_target_'"),
    "task_tag": (sealed(begins("task.yaml", "x: !!python/name:os.system\n")), "tags"),
    "run_layers": (
        sealed(replaced("config.yaml", "n_layers: 1", "n_layers: 1000000000")),
        "n_layers is 10+, which|n_layers must be at most",
    ),
    "run_vocabulary": (
        sealed(replaced("config.yaml", "vocab_size: 190", "vocab_size: 1000000000000")),
        "vocab_size is 1000000000000, but",
    ),
    "run_pickle": (sealed(put(WEIGHTS, pickle.dumps(Payload()))), "is damaged, it is not safetensors"),
    "run_link": (sealed(moved_out(WEIGHTS)), "leads out of the run"),
    "config_yaml_link": (sealed(moved_out("config.yaml")), "leads out of the run"),
    "manifest_up": (sealed(put("x", ""), {"files": LISTED}), "has no undamaged checkpoint"),
    "run_regex": (sealed(splitting("(a+)+$")), "may take forever"),
    "roles_deep": (sealed(put("roles.json", DEEP)), "not JSON|nested too deeply"),
    "roles_unknown": (sealed(put("roles.json", '{"pad": "[PAD]", "__class__": "x"}')), "unknown role '__class__'"),
}
