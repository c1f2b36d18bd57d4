"""The rows that benchmarks/gpu.py measures: the sides of the CPU rows, in sizes for a GPU."""

from dataclasses import replace

from rows.figures import OURS
from rows.table import BERT, GPT, PEER_BATCHES, ROWS, Row, head_row


def gpu_row(name: str, title: str, goals: dict[str, str], **changes: object) -> Row:
    """A row of the CPU's table with other sizes, and without the comparison of glibc's settings."""
    row = ROWS[name]
    sizes = {**row.sizes, **changes}
    return replace(row, title=title, sizes=sizes, goals={k: (v, v) for k, v in goals.items()}, compare_allocators=False)


COMPILED_GOALS = {"hf": "1.5x", "textbook": "1.2x"}
# The articles are one text, so that all sides attend to the same positions. All three sides are in GPU memory at once;
# with 32 rows, the peers' float32 logits and their gradients could exceed 80 GB.
GPT_SIZES = {**GPT, "length": 1024, "rows": 16, "joined": True}
BERT_SIZES = {**BERT, "length": 512, "examples": 64, "attention_dropout": 0.0}
BACKEND_GOALS = {"sdpa": "", "flex": "", "varlen": ""}  # zoo's own: the backend that `auto` chooses must not be slower


def with_uncompiled(row: Row, module: str, goal: str) -> Row:
    """A row in which compiled zoo, as in a long run, is compared with the peer and zoo uncompiled.

    A turn has all of the peer's batches, so that the warm-up covers each of their shapes.
    """
    goals = {"hf": goal, "not compiled": ""}
    sides = {OURS: f"{module}.zoo", "hf": f"{module}.hf", "not compiled": f"{module}.zoo"}
    row = replace(row, sides=sides, goals={k: (v, v) for k, v in goals.items()}, steps_per_turn=PEER_BATCHES)
    return replace(row, compiled=True, uncompiled=tuple(goals))


TRAINING = {
    "gpu-gpt": replace(  # a turn has more rows than the text fills; the last is not full
        gpu_row("gpt", "a step of `gpt2`, 16 rows of 1024, compiled", COMPILED_GOALS, **GPT_SIZES),
        steps_per_turn=20,
        compiled=True,
    ),
    "gpu-bert": with_uncompiled(
        gpu_row("bert", "a step of `bert-base`, up to 512 tokens, ours compiled", {}, **BERT_SIZES), "bert", "2x"
    ),
    # the paper has 25,000 source and target tokens per update (section 5.1); these batches have about 30,000
    "gpu-translation": with_uncompiled(
        gpu_row("translation", "a step of `transformer-base` on Multi30k, 2,048 pairs, ours compiled", {}, pairs=2048),
        "translation",
        "3x",
    ),
    "gpu-head": head_row("`gpt2`", 32768, 768, 50257, on_gpu=True),
    # the last and a separate row, so that a failing backend does not affect other figures
    "gpu-backends": replace(
        gpu_row("bert", "row `gpu-bert` by each backend of attention", BACKEND_GOALS, **BERT_SIZES),
        sides={name: f"bert.{name}" for name in (OURS, *BACKEND_GOALS)},
        steps_per_turn=10,
    ),
}
GENERATION = {
    "gpu-greedy-1": gpu_row("greedy-1", "greedy, `gpt2`, 32 + 128 tokens, batch 1", {"hf": "3x"}),
    "gpu-greedy-64": gpu_row("greedy-16", "greedy, `gpt2`, 32 + 128 tokens, batch 64", {"hf": "3x"}, batch=64),
}
GPU_ROWS = {**TRAINING, **GENERATION}
