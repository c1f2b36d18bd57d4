"""Does an exported folder, loaded by plain transformers, say what our model says?"""

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.hub.exportable import Exportable
from zoo.hub.samples import PAIRS, TEXTS, Row, lay_out, sample_rows
from zoo.hub.target import NativeClass, Target
from zoo.models.generate import generate
from zoo.models.model import Model, Output
from zoo.models.search import GenerateSettings
from zoo.runs.files import read_json
from zoo.runs.tensors import read_tensors

Texts = Sequence[tuple[str, ...]]
Reload = Callable[[Path, dict[str, Any]], tuple[dict[str, Any], dict[str, Tensor]]]
PROGRAM = Path(__file__).with_name("reloading.py")
TOLERANCES = {"float32": 1e-4, "float64": 1e-10}  # times the logit's size where it is above 1
NEW_TOKENS = 12
LOUD = 5  # lines of a failed program's complaint that are passed on


@dataclass(frozen=True)
class Check:
    """What a folder that passed was compared on.

    Args:
        differences: by dtype, the largest difference of two logits.
        rows, texts, generated: how many rows of logits, tokenized texts and generated texts were compared.
    """

    class_name: str
    differences: dict[str, float]
    rows: int
    texts: int
    generated: int


def reload_apart(folder: Path, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reload in a Python process of its own, where zoo cannot be imported and nothing reaches the network."""
    with tempfile.TemporaryDirectory(prefix="zoo-export-") as place:
        asked = Path(place) / "request.json"
        asked.write_text(json.dumps(request), "utf-8")
        command = [sys.executable, "-I", str(PROGRAM), str(folder), str(asked), place]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
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
    both = len(target.sides) > 1
    room = min(part.settings.max_length for part in given.settings.parts.values())
    rows = sample_rows(given.tokenizer, chosen, room, both)
    texts = [(text,) for text in TEXTS] + (list(PAIRS) if chosen.pair else [])
    prompts = [prompt_of(row, room, both) for row in rows[: len(TEXTS)]] if chosen.generates else []
    request = {
        "auto": chosen.auto,
        "pad": given.tokenizer.roles.pad,
        "rows": [asdict(row) for row in rows],
        "segments": target.segments,
        "outputs": dict(chosen.heads),
        "texts": texts,
        "generate": prompts,
    }
    report, logits = reload(folder, request)
    if report["faults"] or report["class"] != chosen.name:
        raise RuntimeError(f"transformers loads a {report['class']} (wanted: {chosen.name}) with {report['faults']}")
    differences = {}
    for dtype, tolerance in TOLERANCES.items():
        ours = score(model.to(getattr(torch, dtype)), rows)
        pairs = [(head, ours[head], logits[f"{dtype}/{head}"]) for head in chosen.heads]
        differences[dtype] = max(compare(head, dtype, mine, theirs, rows, tolerance) for head, mine, theirs in pairs)
    compare_texts(given, target, chosen, texts, report["texts"])
    compare_generated(model, given, prompts, report["generated"], both)
    return Check(chosen.name, differences, len(rows), len(texts), len(prompts))


@torch.no_grad()
def score(model: Model, rows: Sequence[Row]) -> dict[str, Tensor]:
    """Our logits of all rows in one batch."""
    tokens, documents = pad([row.tokens for row in rows])
    given: dict[str, Tensor] = {"documents": documents}
    if model.settings.embeddings.segments:
        given["segments"] = pad([row.segments for row in rows])[0]
    if rows[0].source:
        given["source"], given["source_documents"] = pad([row.source for row in rows])
    output: Output = model(tokens, **given)
    return output.heads


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows as one tensor with zeros on the right, and their documents."""
    longest = max(map(len, rows))
    filled = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    return filled, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def compare(head: str, dtype: str, ours: Tensor, theirs: Tensor, rows: Sequence[Row], tolerance: float) -> float:
    """The largest difference of logits over the places that hold something."""
    if ours.shape != theirs.shape:
        raise RuntimeError(f"logits of {head}: ours are {tuple(ours.shape)}, theirs {tuple(theirs.shape)}")
    if ours.dim() == 3:
        there = pad([row.tokens for row in rows])[1].bool()[..., None]
        ours, theirs = ours * there, theirs.where(there, 0)
    difference = (ours - theirs).abs()
    wrong = (~(difference <= tolerance * ours.abs().clamp_min(1))).nonzero()
    if len(wrong):
        at = tuple(wrong[0].tolist())
        where = f"row {at[0]}, place {at[1]}" if len(at) == 3 else f"row {at[0]}"
        raise RuntimeError(
            f"logits of {head} differ by up to {difference.max():.3g} in {dtype}, first at {where}: "
            f"ours {ours[at]:.6g}, transformers {theirs[at]:.6g}"
        )
    return float(difference.max())


def compare_texts(given: Exportable, target: Target, chosen: NativeClass, texts: Texts, theirs: list[Any]) -> None:
    """Raise where AutoTokenizer gives other ids or token types."""
    for text, found in zip(texts, theirs, strict=True):
        template = chosen.text if len(text) == 1 else chosen.pair
        encoded = [ids.tolist() for ids in given.tokenizer.encode(text)]
        row = lay_out(given.tokenizer, template, encoded, sys.maxsize)
        expected = {"input_ids": row.tokens, **({"token_type_ids": row.segments} if target.segments else {})}
        for name, ids in expected.items():
            if found.get(name) != ids:
                raise RuntimeError(f"{name} of {text}: ours are {ids}, AutoTokenizer gives {found.get(name)}")
        extra = found.keys() - {*expected, "attention_mask"}
        if extra:
            raise RuntimeError(f"AutoTokenizer gives {', '.join(sorted(extra))}, which the model does not read")


def prompt_of(row: Row, room: int, both: bool) -> dict[str, Any]:
    """What generating starts from: the beginning of a row, or a whole source."""
    if both:
        return {"tokens": row.source, "longest": min(NEW_TOKENS + 1, room), "skip": 1}
    beginning = row.tokens[: max(1, room // 2)][:8]
    return {"tokens": beginning, "longest": min(NEW_TOKENS + len(beginning), room), "skip": len(beginning)}


def compare_generated(
    model: Model, given: Exportable, prompts: list[dict[str, Any]], theirs: list[list[int]], both: bool
) -> None:
    """Raise where greedy generation goes another way; `model` is in float64, so that rounding decides nothing."""
    start, end = (given.tokenizer.roles.id(role) for role in ("start", "end")) if prompts else (0, 0)
    for number, (prompt, found) in enumerate(zip(prompts, theirs, strict=True)):
        settings = GenerateSettings(max_new_tokens=prompt["longest"] - prompt["skip"])
        source = torch.tensor([prompt["tokens"]]) if both else None
        ours = generate(model, [[start] if both else prompt["tokens"]], settings, end, source)[0].tokens
        text = found[: found.index(end)] if end in found else found
        if ours != text:
            raise RuntimeError(f"generated text {number} differs: ours is {ours}, transformers generates {text}")
