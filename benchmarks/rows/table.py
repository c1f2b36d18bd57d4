"""The rows of the benchmark: sides, sizes and goals. Imports nothing heavy: each side imports its own module."""

import importlib.metadata
import importlib.util
from dataclasses import dataclass, field, replace
from typing import Any

from rows.figures import OURS

PEER_BATCHES = 8  # batches that a peer reads, repeatedly
NO_GOAL = ("", "")
GPT = {"model": "gpt2", "vocabulary": 50257, "length": 256, "rows": 8, "dropout": 0.0, "articles": 300}
SMALL_GPT = {"model": "gpt2-nano", "vocabulary": 8000, "length": 32, "rows": 2, "dropout": 0.0, "articles": 40}
BERT = {"model": "bert-base", "vocabulary": 30522, "length": 128, "examples": 16, "articles": 300}
BERT |= {"attention_dropout": 0.1}
SMALL_BERT = {**BERT, "model": "bert-nano", "vocabulary": 9000, "length": 64, "examples": 4, "articles": 40}
BEAMS = {"model": "transformer-base", "length": 128, "steps": 200, "judged": 1000}
SMALL_BEAMS = {**BEAMS, "model": "transformer-nano", "sentences": 4, "batch": 2, "steps": 2, "judged": 8}


@dataclass(frozen=True)
class Row:
    """One comparison, a row of the table.

    Args:
        title: the work, as in the guide.
        unit: the unit of the figures.
        sides: name -> function of rows/ that does the work; zoo comes first.
        sizes: of models and data, for the sides; `small_sizes`: with --small.
        goals: peer -> the ratio to reach, without and with AMX.
        peak_rate: function of rows/peak_rates.py that measures the machine's peak; None: no share is given.
        prepare: function that makes files shared by the sides; None: nothing to make.
        processes: side -> number of processes, if several, with one thread each.
        extra_facts: function that prints further facts as JSON; None: no further facts.
        compare_allocators: whether to measure also with zoo's allocator settings.
        steps_per_turn, compiled: as in `SideArgs`.
        uncompiled: sides that are not compiled although `compiled` is set.
        repeats: turns of each side after the warm-up, unless the command names them.
    """

    title: str
    unit: str
    sides: dict[str, str]
    sizes: dict[str, Any]
    small_sizes: dict[str, Any]
    goals: dict[str, tuple[str, str]] = field(default_factory=dict)
    peak_rate: str | None = None
    prepare: str | None = None
    extra_facts: str | None = None
    processes: dict[str, int] = field(default_factory=dict)
    compare_allocators: bool = True
    steps_per_turn: int = 1
    compiled: bool = False
    uncompiled: tuple[str, ...] = ()
    repeats: int = 5

    @property
    def can_profile(self) -> bool:
        """Whether zoo is a side and runs in one process, so that its operators can be profiled."""
        return OURS in self.sides and OURS not in self.processes

    def sides_to_profile(self, device: str) -> list[str]:
        """The sides whose kernels are recorded in one more turn: zoo's, on a GPU."""
        return [OURS] if device.startswith("cuda") and OURS in self.sides else []


def training_row(
    title: str, module: str, sizes: dict[str, Any], small: dict[str, Any], **goals: tuple[str, str]
) -> Row:
    """A training row: zoo and its peers are functions of one module."""
    sides = {name: f"{module}.{name}" for name in (OURS, *goals)}
    return Row(title, "real tokens/s", sides, sizes, small, goals, "flops", f"{module}.prepare")


def greedy_row(batch: int, goal: str) -> Row:
    sizes = {**GPT, "batch": batch, "prompt": 32, "new": 128}
    small = {**SMALL_GPT, "batch": min(batch, 3), "prompt": 3, "new": 5}
    sides = {OURS: "generation.greedy_zoo", "hf": "generation.greedy_hf"}
    title, goals = f"greedy, `gpt2`, 32 + 128 tokens, batch {batch}", {"hf": (goal, goal)}
    return Row(title, "new tokens/s", sides, sizes, small, goals, "bandwidth", "generation.prepare_greedy")


def beams_row(batch: int, sentences: int) -> Row:
    sizes, small = {**BEAMS, "batch": batch, "sentences": sentences}, {**SMALL_BEAMS, "batch": min(batch, 2)}
    sides = {OURS: "generation.beams_zoo", "hf": "generation.beams_hf"}
    title = f"beam 5, `transformer-base`, Multi30k's test sentences, batch {batch}"
    goals, extra = {"hf": ("3x", "3x")}, None if batch == 1 else "generation.compare_translations"
    return Row(title, "sentences/s", sides, sizes, small, goals, None, "generation.prepare_beams", extra_facts=extra)


def head_row(model: str, positions: int, d_model: int, vocab_size: int, on_gpu: bool = False) -> Row:
    """The loss of a head, by zoo and by torch in two ways; on a GPU also by zoo without its kernel and by Liger."""
    sides = {OURS: "head.zoo", "plain": "head.plain"}
    if tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) >= (2, 13):
        sides["torch's"] = "head.fused"
    if on_gpu:
        sides["by operators"] = "head.by_operators"
    if on_gpu and importlib.util.find_spec("liger_kernel") is not None:
        sides["liger"] = "liger_head.liger"
    sizes = {"places": positions, "width": d_model, "classes": vocab_size}
    small = {"places": 40, "width": 8, "classes": 300}
    about = f"{positions:,} positions, {d_model} wide, {vocab_size:,} classes"
    title = f"the loss of {model}'s head and its gradients, {about}"
    goals = {name: NO_GOAL for name in sides if name != OURS}
    row = Row(title, "positions/s", sides, sizes, small, goals, "flops", compare_allocators=False)
    return replace(row, steps_per_turn=20 if on_gpu else 1)


ROWS = {
    "gpt": training_row(
        "a step of `gpt2`, 124M, 8 rows of 256", "gpt", GPT, SMALL_GPT, hf=("1.6x", "3x"), textbook=("1.35x", "2.2x")
    ),
    "gpt-modern": training_row(
        "a step of `gpt-modern`, 8 rows of 256",
        "gpt",
        {**GPT, "model": "gpt-modern"},
        {**SMALL_GPT, "model": "gpt-modern-nano"},
        hf=NO_GOAL,
    ),
    "bert": training_row(
        "a step of `bert-base`, masked words and next sentence", "bert", BERT, SMALL_BERT, hf=("2.7x", "4x")
    ),
    "translation": training_row(
        "a step of `transformer-base` on Multi30k",
        "translation",
        {"model": "transformer-base", "pairs": 64, "length": 128},
        {"model": "transformer-nano", "pairs": 8, "length": 128},
        hf=("3x", "3x"),
    ),
    "finetuning": training_row(
        "fine-tuning `bert-base` on SST-2",
        "finetuning",
        {**BERT, "sentences": 32},
        {**SMALL_BERT, "sentences": 8},
        hf=("4x", "4x"),
    ),
    "greedy-1": greedy_row(1, "1.5x"),
    "greedy-16": greedy_row(16, "2x"),
    "beams-1": beams_row(1, 16),
    "beams-16": beams_row(16, 128),
    "head-gpt": head_row("`gpt2`", 2048, 768, 50257),
    "head-bert": head_row("`bert-base`", 320, 768, 30522),
    "head-translation": head_row("`transformer-base`", 1800, 512, 8000),
    "head-narrow": head_row("a narrow model", 4096, 256, 32768),
    "start-up": Row(
        "`zoo --help`, `zoo list`, the first token of `zoo predict`",
        "seconds",
        {"help": "start_up.help_zoo", "list": "start_up.list_zoo", "predict": "start_up.first_token"},
        GPT,
        SMALL_GPT,
        {"help": ("0.3 s", "0.3 s"), "list": ("0.3 s", "0.3 s"), "predict": ("4 s", "4 s")},
        prepare="start_up.prepare",
        compare_allocators=False,
    ),
    "processes": Row(
        "two processes of one thread against one of two, row `gpt`",
        "real tokens/s",
        {OURS: "gpt.zoo", "one process": "gpt.zoo"},
        GPT,
        SMALL_GPT,
        {"one process": ("0.85x", "0.85x")},
        prepare="gpt.prepare",
        processes={OURS: 2},
        compare_allocators=False,
    ),
    "shakespeare": Row(
        "Shakespeare's characters to a validation loss of 1.90, a GPT of nanoGPT's CPU size",
        "seconds of training",
        {OURS: "shakespeare.zoo", "textbook": "shakespeare.textbook"},
        {"zoo_steps": 400, "textbook_steps": 2000},
        {"zoo_steps": 20, "textbook_steps": 20},
        {"textbook": ("3x", "3x")},
        compare_allocators=False,
        repeats=3,  # seeds
    ),
}
