"""Does an exported folder, loaded by plain transformers, say what our model says?"""

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.blocks.position import positions
from zoo.hub.exporting.comparing import (
    TOLERANCES,
    compare_generated,
    compare_logits,
    compare_losses,
    compare_pictures,
    compare_texts,
    score,
    scores_documents,
)
from zoo.hub.exporting.exportable import Exportable
from zoo.hub.exporting.samples import PAIRS, PROMPTS, SampleRow, lines, sample_rows
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.generation.settings import GenerateSettings
from zoo.runs.files import read_json
from zoo.runs.tensors import read_tensors

Reload = Callable[[Path, dict[str, Any]], tuple[dict[str, Any], dict[str, Tensor]]]
PROGRAM = Path(__file__).with_name("reloading.py")
HOME = Path(__file__).parents[3]  # where zoo is imported from
WITH_ZOO = "zoo.hub.exporting.shell_reloading"
NEW_TOKENS = 12
BEAMS = 3
LOUD = 5  # lines of a failed program's complaint that are passed on


@dataclass(frozen=True)
class Check:
    """What a folder that passed was compared on.

    Args:
        differences, losses: by dtype, the largest difference of two logits, and that of the losses.
        rows, texts, generated: how many rows of logits, tokenized texts and generated texts were compared.
        left: whether rows padded on the left were among them.
        pictures: how many pictures were brought to the model's size by both.
    """

    class_name: str
    differences: dict[str, float]
    losses: dict[str, float]
    rows: int
    texts: int
    generated: int
    left: bool
    pictures: int = 0

    @property
    def same(self) -> str:
        """What was found to be the same, in words."""
        pixels = f"the pixels of {self.pictures} pictures" * bool(self.pictures)
        ids = f"the ids of {self.texts} texts" * bool(self.texts)
        written = f"{self.generated} texts generated greedily and with beams" * bool(self.generated)
        return " and ".join(filter(None, (pixels, ids, written)))


def reload_apart(
    folder: Path, request: dict[str, Any], python: str = sys.executable
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reload in a process of its own, of any Python, where nothing reaches the network.

    Zoo cannot be imported there, unless the classes are its own.
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
            complaint = "\n".join(done.stderr.strip().splitlines()[-LOUD:])
            raise RuntimeError(f"transformers cannot load what was written: {complaint}")
        return read_json(Path(place) / "report.json"), read_tensors(Path(place) / "logits.safetensors")


def verify(folder: Path, given: Exportable, target: Target, chosen: NativeClass, reload: Reload) -> Check:
    """Compare a folder with the model that it was written from.

    Raises:
        RuntimeError: something differs; the message says what, where and by how much.
    """
    model = copy.deepcopy(given.model).cpu().float().eval()
    room = min((part.max_length for part in given.readers.values()), default=1)
    rows = sample_rows(given, chosen, room)
    texts = [] if given.tokenizer is None else lines(given.tokenizer)
    pairs = list(PAIRS) if chosen.pair and texts else []
    prompts = [prompt_of(row, i, room, given.stream.source) for i, row in enumerate(rows[:PROMPTS])]
    prompts = prompts if chosen.generates else []
    documents = {head: scores_documents(model, head) for head in chosen.heads}
    labels = [labels_of(row, i, chosen, documents) for i, row in enumerate(rows)]
    request = request_of(given, target, chosen) | {
        "rows": [asdict(row) | {"labels": label} for row, label in zip(rows, labels, strict=True)],
        "texts": texts,
        "pairs": pairs,
        "prompts": prompts,
    }
    report, logits = reload(folder, request)
    if report["faults"] or report["class"] != chosen.name:
        raise RuntimeError(f"transformers loads a {report['class']} (wanted: {chosen.name}) with {report['faults']}")
    pixels = compare_pictures(rows, given.stream.image_size, logits.pop("pixels", None))
    differences, losses = {}, {}
    for dtype in TOLERANCES:
        ours = score(model.to(getattr(torch, dtype)), rows, pixels)
        theirs = {name.removeprefix(f"{dtype}/"): t for name, t in logits.items() if name.startswith(dtype)}
        differences[dtype] = compare_logits(dtype, ours, theirs, rows)
        losses[dtype] = compare_losses(dtype, ours, labels, chosen, report["losses"][dtype])
    if given.tokenizer is not None:
        compare_texts(given.tokenizer, given.segments, chosen, [(text,) for text in texts], report["texts"])
        compare_texts(given.tokenizer, given.segments, chosen, pairs, report["pairs"])
    for search, beams in (("greedy", 1), ("beams", BEAMS)):
        settings = GenerateSettings(max_new_tokens=NEW_TOKENS, beams=beams)
        compare_generated(model, given.roles, prompts, report[search], settings, pixels)
    left = any(name.startswith("float64/left/") for name in logits)
    count = 0 if pixels is None else len(pixels)
    return Check(chosen.name, differences, losses, len(rows), len(texts) + len(pairs), 2 * len(prompts), left, count)


def request_of(given: Exportable, target: Target, chosen: NativeClass) -> dict[str, Any]:
    """What `reloading.py` must know of the class and of the model, beside what it is compared on."""
    pooled = given.model.stream.pooled
    return {
        "imports": target.imports,
        "auto": chosen.auto,
        "pad": given.roles.pad,
        "segments": given.segments,
        "outputs": dict(chosen.heads),
        # the first place of a row that is padded on the left is none of its document
        "left": [head for head in chosen.heads if not (scores_documents(given.model, head) and pooled)],
        "relative": target.counts_positions or has_relative_positions(given, target),
        "beams": {"num_beams": BEAMS, "length_penalty": 1.0, "early_stopping": False},
    }


def has_relative_positions(given: Exportable, target: Target) -> bool:
    """Whether no position is added to the input: then only distances count."""
    flat = flatten(given.settings)
    return not any(positions[name].embeds for side in target.sides for name in flat.get(f"{side}.position", ()))


def labels_of(row: SampleRow, number: int, chosen: NativeClass, documents: dict[str, bool]) -> dict[str, Any]:
    """Labels by the argument of their class: any do, as long as they differ."""
    return {chosen.labels.get(head, "labels"): number % 2 if documents[head] else row.tokens for head in chosen.heads}


def prompt_of(row: SampleRow, number: int, room: int, both: bool) -> dict[str, Any]:
    """What generating starts from: the beginning of a row, or a whole source, which may be the row's picture."""
    if both:
        return {"row": number, "tokens": row.source, "longest": min(NEW_TOKENS + 1, room), "skip": 1}
    beginning = row.tokens[: max(1, room // 2)][:8]
    longest = min(NEW_TOKENS + len(beginning), room)
    return {"row": number, "tokens": beginning, "longest": longest, "skip": len(beginning)}
