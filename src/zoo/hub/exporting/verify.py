"""Check that an exported folder, loaded by plain transformers, computes what zoo's model computes."""

import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from zoo.blocks.position import positions
from zoo.devices.choose import with_dtype
from zoo.hub.exporting.child import Reload
from zoo.hub.exporting.comparing import (
    TOLERANCES,
    check_logits,
    compare_generated,
    compare_logits,
    compare_losses,
    compare_pixels,
    compare_texts,
    compute_logits,
    pixels_of,
)
from zoo.hub.exporting.samples import PAIRS, PROMPTS, SampleRow, sample_rows, sample_texts
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.head import has_classes, heads

NEW_TOKENS = 12  # per generated text that is compared
BEAMS = 3


@dataclass(frozen=True)
class Check:
    """What a folder that passed was compared on.

    Args:
        differences, losses: by dtype, the largest difference of logits, and the difference of losses.
        rows, texts, generated: number of rows of logits, tokenized texts and generated texts that were compared.
        left: whether rows padded on the left were among them.
        pictures: number of images that both prepared.
    """

    differences: dict[str, float]
    losses: dict[str, float]
    rows: int
    texts: int
    generated: int
    left: bool
    pictures: int

    @property
    def identical(self) -> str:
        """What is identical, in words."""
        pixels = f"the pixels of {self.pictures} images" * bool(self.pictures)
        ids = f"the ids of {self.texts} texts" * bool(self.texts)
        written = f"{self.generated} texts generated greedily and with beams" * bool(self.generated)
        return " and ".join(filter(None, (pixels, ids, written)))

    @property
    def largest(self) -> str:
        """The largest difference of logits, in words."""
        return format_differences(self.differences)

    def lines(self) -> list[str]:
        """The check as a terminal shows it."""
        found = f"largest difference of logits {self.largest}, of the loss {format_differences(self.losses)}"
        same = [f"{self.identical} are the same"] * bool(self.identical)
        sides = "either side" if self.left else "the right"
        same += [f"sequences were padded on {sides}"] * bool(self.generated or not self.pictures)
        return [f"reloaded by transformers: {found}", "; ".join(same)]


def format_differences(differences: dict[str, float]) -> str:
    """Differences by dtype, in words."""
    return ", ".join(f"{value:.1e} in {dtype}" for dtype, value in differences.items())


def verify(folder: Path, trained: TrainedModel, target: Target, native: NativeClass, reload: Reload) -> Check:
    """Compare an exported folder with the model that it was written from.

    Args:
        reload: loads the folder with transformers and returns its report and logits.

    Raises:
        RuntimeError: something differs; the message says what, where and by how much.
    """
    model = copy.deepcopy(trained.model).eval()
    room = min((part.max_length for part in trained.text_parts.values()), default=1)
    rows = with_labels(sample_rows(trained, native, room), native, trained)
    texts = [] if trained.tokenizer is None else sample_texts(trained.tokenizer)
    pairs = list(PAIRS) if native.pair and texts else []
    begun = rows[:PROMPTS] if native.generates else []
    prompts = [prompt_of(row, i, room, trained.traits.source) for i, row in enumerate(begun)]
    request = request_of(trained, target, native)
    request |= {"rows": [asdict(row) for row in rows], "texts": texts, "pairs": pairs, "prompts": prompts}
    pixels, scored = pixels_of(rows, trained.traits.image_size), {}
    for dtype in TOLERANCES:
        scored[dtype] = compute_logits(with_dtype(model, getattr(torch, dtype)), rows, pixels)
        check_logits(dtype, scored[dtype], rows)
    report, logits = reload(folder, request)
    if report["faults"] or report["class"] != native.name:
        raise RuntimeError(f"transformers loads a {report['class']} (wanted: {native.name}) with {report['faults']}")
    compare_pixels(pixels, logits.pop("pixels", None))
    differences, losses = {}, {}
    for dtype, ours in scored.items():
        theirs = {name.removeprefix(f"{dtype}/"): t for name, t in logits.items() if name.startswith(dtype)}
        differences[dtype] = compare_logits(dtype, ours, theirs, rows)
        losses[dtype] = compare_losses(dtype, ours, rows, native, trained.answer, report["losses"][dtype])
    if trained.tokenizer is not None:
        compare_texts(trained.tokenizer, trained.segments, native, [(text,) for text in texts], report["texts"])
        compare_texts(trained.tokenizer, trained.segments, native, pairs, report["pairs"])
    for search, beams in (("greedy", 1), ("beams", BEAMS)):
        settings = GenerateSettings(max_new_tokens=NEW_TOKENS, beams=beams)
        compare_generated(model, trained.roles, prompts, report[search], settings, pixels)
    left = any(name.startswith("float64/left/") for name in logits)
    count = 0 if pixels is None else len(pixels)
    return Check(differences, losses, len(rows), len(texts) + len(pairs), 2 * len(prompts), left, count)


def request_of(trained: TrainedModel, target: Target, native: NativeClass) -> dict[str, Any]:
    """The part of the request to `reloading.py` that depends on the class and the model alone."""
    pooled = trained.model.stream.pooled
    return {
        "imports": target.imports,
        "auto": native.auto,
        "pad": trained.roles.pad,
        "segments": trained.segments,
        "outputs": dict(native.heads),
        # transformers' softmax over the positions of a row includes padding
        "loss_by_row": any(heads[head].softmax_over_positions for head in native.heads),
        # a pooled head reads position 0, which is padding in rows padded on the left
        "left_heads": [h for h in native.heads if not (native.choices or (heads[h].scores_documents and pooled))],
        "choices": native.choices,
        "last_positions": native.last_positions,
        "relative_positions": target.counts_positions or has_relative_positions(trained, target),
        "beams": {"num_beams": BEAMS, "length_penalty": 1.0, "early_stopping": False},
    }


def has_relative_positions(trained: TrainedModel, target: Target) -> bool:
    """Return whether no position embedding is added to the input, so that only distances matter."""
    flat = flatten(trained.settings)
    return not any(positions[name].embeds for side in target.sides for name in flat.get(f"{side}.position", ()))


def with_labels(rows: list[SampleRow], native: NativeClass, trained: TrainedModel) -> list[SampleRow]:
    """The rows with labels, to compare losses: where possible 0 and 1, which every head knows, in turn."""
    choosing = {h.name: h.option("labels") for h in trained.settings.heads if has_classes(h.name)}

    def label(head: str, number: int, row: SampleRow) -> Any:
        if heads[head].scores_documents and head in choosing:
            return trained.answer.sample(number, choosing[head])
        if heads[head].softmax_over_positions:
            return [number % len(row.tokens), len(row.tokens) - 1]
        if heads[head].scores_documents:  # one label per example of several choices
            return number // (native.choices or 1) % 2
        return [token % 2 for token in row.tokens]

    def labels(number: int, row: SampleRow) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for head in native.heads:
            names, given = native.label_of(head).split(), label(head, number, row)
            found |= dict(zip(names, given, strict=True)) if len(names) > 1 else {names[0]: given}
        return found

    return [replace(row, labels=labels(number, row)) for number, row in enumerate(rows)]


def prompt_of(row: SampleRow, number: int, room: int, has_source: bool) -> dict[str, Any]:
    """A prompt for generation: the beginning of a row, or with an encoder the whole source, which may be an image."""
    if has_source:
        return {"row": number, "tokens": row.source, "longest": min(NEW_TOKENS + 1, room), "skip": 1}
    beginning = row.tokens[: max(1, room // 2)][:8]
    longest = min(NEW_TOKENS + len(beginning), room)
    return {"row": number, "tokens": beginning, "longest": longest, "skip": len(beginning)}
