"""The rows that benchmarks/gpu.py measures: the same sides as on a CPU, in sizes for a GPU."""

from dataclasses import replace

from rows.figures import OURS
from rows.table import BATCHES, BERT, GPT, ROWS, Row, head


def on_gpu(name: str, title: str, goals: dict[str, str], **changes: object) -> Row:
    """A row of the CPU's table with other sizes; glibc's settings matter to none."""
    row = ROWS[name]
    sizes = {**row.sizes, **changes}
    return replace(row, title=title, sizes=sizes, goals={k: (v, v) for k, v in goals.items()}, kept=False)


COMPILED = {"hf": "1.5x", "textbook": "1.2x"}
# Articles as one text, so that all sides attend to the same places. All three sides lie on the GPU at once, and the
# logits of 32 rows, in float32 with their gradient, could take the peers beyond 80 GB.
FULL = {**GPT, "length": 1024, "rows": 16, "joined": True}
LONG = {**BERT, "length": 512, "examples": 64, "attention_dropout": 0.0}
BACKENDS = {"sdpa": "", "flex": "", "varlen": ""}  # ours too: what `auto` chooses is to be no slower


def beside_plain(row: Row, module: str, goal: str) -> Row:
    """A row with ours compiled, as a long run is by itself, beside the peer and ours that are not.

    A turn has all of the peer's batches, so that it has warmed up for each of their shapes.
    """
    goals = {"hf": goal, "not compiled": ""}
    sides = {OURS: f"{module}.zoo", "hf": f"{module}.hf", "not compiled": f"{module}.zoo"}
    row = replace(row, sides=sides, goals={k: (v, v) for k, v in goals.items()}, each=BATCHES)
    return replace(row, compiled=True, uncompiled=tuple(goals))


TRAINING = {
    "gpu-gpt": replace(  # a turn has more rows than there are, of which the last is no full one
        on_gpu("gpt", "a step of `gpt2`, 16 rows of 1024, compiled", COMPILED, **FULL),
        each=20,
        compiled=True,
    ),
    "gpu-bert": beside_plain(
        on_gpu("bert", "a step of `bert-base`, up to 512 tokens, ours compiled", {}, **LONG), "bert", "2x"
    ),
    # the paper's updates have 25,000 tokens on either side (section 5.1); these pairs have about 30,000
    "gpu-translation": beside_plain(
        on_gpu("translation", "a step of `transformer-base` on Multi30k, 2,048 pairs, ours compiled", {}, pairs=2048),
        "translation",
        "3x",
    ),
    "gpu-head": head("`gpt2`", 32768, 768, 50257, on_gpu=True),
    # the last, and a row of its own: a backend that fails takes no other figure with it
    "gpu-backends": replace(
        on_gpu("bert", "row `gpu-bert` by each backend of attention", BACKENDS, **LONG),
        sides={name: f"bert.{name}" for name in (OURS, *BACKENDS)},
        each=10,
    ),
}
GENERATION = {
    "gpu-greedy-1": on_gpu("greedy-1", "greedy, `gpt2`, 32 + 128 tokens, batch 1", {"hf": "3x"}),
    "gpu-greedy-64": on_gpu("greedy-16", "greedy, `gpt2`, 32 + 128 tokens, batch 64", {"hf": "3x"}, batch=64),
}
GPU_ROWS = {**TRAINING, **GENERATION}
