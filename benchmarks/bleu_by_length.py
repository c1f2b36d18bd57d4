"""BLEU by source length: shows what attention improves.

    python benchmarks/bleu_by_length.py runs/rnn-seq2seq runs/rnn-attention --split test

Translates a split of the runs' own task with each run, as `zoo predict` does, sorts the examples into groups by the
number of words in the source, and plots the corpus BLEU of each group with its 95 % interval (sacrebleu's bootstrap).
A JSON file beside the plot (`-o`, docs/pictures/bleu-by-length.png) holds the figures. `--join 2` makes sources longer
than the data's: each two consecutive sentences become one example. `--texts FOLDER` keeps every run's translations
there, and reuses them unless the run's weights have changed.

Source: Bahdanau et al. 2015, arXiv:1409.0473, figure 2; Cho et al. 2014, arXiv:1409.1259, figure 4.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from sacrebleu.metrics import BLEU

from zoo.data.sources.find import load_rows
from zoo.examples.form import inputs
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.loaded import Loaded
from zoo.inference.predict import predict
from zoo.models.cost import parameters
from zoo.models.generation.settings import parse_generate
from zoo.models.model import Model

matplotlib.use("Agg")
from matplotlib import pyplot as plt

EDGES = [1, 8, 10, 12, 14, 17, 40]  # words
BOOTSTRAP_SAMPLES = 1000  # per interval
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe & Ito: color-blind safe
MARKERS = "osD^vP"
Figures = dict[str, Any]


class Example(NamedTuple):
    """A source sentence and its reference translation."""

    source: str
    target: str

    @property
    def words(self) -> int:
        return len(self.source.split())


def join_examples(examples: Sequence[Example], count: int) -> list[Example]:
    """Join each `count` consecutive examples into one; an incomplete group at the end is dropped."""
    groups = [examples[i : i + count] for i in range(0, len(examples) - count + 1, count)]
    return [Example(" ".join(e.source for e in g), " ".join(e.target for e in g)) for g in groups]


def read_examples(loaded: Loaded, split: str, data: Path | None, join: int) -> list[Example]:
    """The examples of a split of the run's own task.

    Raises:
        ValueError: the run does not translate, or there is no such split.
    """
    objective = next(iter(loaded.mixture.members))
    if objective != "translation":
        raise ValueError(f"BLEU by length is measured on translators; this run was trained for {objective}")
    rows = load_rows(loaded.task, inputs(), data, [split])[split]
    return join_examples([Example(row["source"], row["target"]) for row in rows], join)


def fits_model(loaded: Loaded, examples: Sequence[Example]) -> list[bool]:
    """Whether source and reference of each example fit into the model's `max_length` with a special token."""
    assert loaded.model.encoder is not None
    max_length = min(loaded.model.encoder.max_length, loaded.model.stream.max_length)
    sources, targets = (loaded.tokenizer.encode(side) for side in sources_and_targets(examples))
    return [max(len(source), len(target)) < max_length for source, target in zip(sources, targets, strict=True)]


def sources_and_targets(examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    return [e.source for e in examples], [e.target for e in examples]


def translate(loaded: Loaded, examples: Sequence[Example]) -> list[str]:
    """The run's translations, decoded as its task says; batches are sorted by length, which is faster."""
    settings = parse_generate(loaded.task.generate)
    order = sorted(range(len(examples)), key=lambda i: examples[i].words)
    predictions = predict(loaded, [examples[i].source for i in order], None, settings)
    translations = dict(zip(order, (str(prediction.output) for prediction in predictions), strict=True))
    return [translations[i] for i in range(len(examples))]


def cached_translations(loaded: Loaded, examples: Sequence[Example], file: Path | None) -> list[str]:
    """Read translations from a file if they are of these weights and examples; else translate and write the file."""
    sources, _ = sources_and_targets(examples)
    key = {"weights": fingerprint(loaded.model), "generate": loaded.task.generate, "sources": sources}
    if file is not None and file.exists():
        cached = json.loads(file.read_text())
        translations: list[str] = cached.pop("written")
        if cached == key:
            return translations
    translations = translate(loaded, examples)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**key, "written": translations}, indent=1, ensure_ascii=False))
    return translations


def fingerprint(model: Model) -> float:
    """The sum of all weights, which identifies a training."""
    return sum(weight.detach().double().sum().item() for weight in model.parameters())


def score(translations: Sequence[str], references: Sequence[str]) -> Figures:
    """Corpus BLEU, half the width of its 95 % interval, and the ratio of the texts' length to the references'."""
    bleu = BLEU().corpus_score(list(translations), [list(references)], n_bootstrap=BOOTSTRAP_SAMPLES)
    sizes = {"examples": len(translations), "length_ratio": round(bleu.sys_len / max(1, bleu.ref_len), 3)}
    return {**sizes, "bleu": round(bleu.score, 2), "interval": round(bleu._ci, 2)}


def scores_by_length(translations: Sequence[str], examples: Sequence[Example], edges: Sequence[int]) -> list[Figures]:
    """The scores of each group; group k has sources of edges[k] to edges[k + 1] - 1 words.

    Raises:
        ValueError: a group is empty.
    """
    groups = []
    for low, high in zip(edges, edges[1:], strict=False):
        members = [i for i, example in enumerate(examples) if low <= example.words < high]
        if not members:
            raise ValueError(f"--edges: no source has {low} to {high - 1} words; choose others")
        scores = score([translations[i] for i in members], [examples[i].target for i in members])
        groups.append({"words": [low, high - 1], **scores})
    return groups


def plot(figures: Figures, path: Path) -> None:
    """Plot one line per run over the groups; each group is labeled with its range of words and number of examples."""
    first = next(iter(figures["runs"].values()))["groups"]
    axes = plt.subplots(figsize=(7, 4.2))[1]
    for number, (name, run) in enumerate(figures["runs"].items()):
        x = [i + 0.06 * (number - (len(figures["runs"]) - 1) / 2) for i in range(len(first))]
        heights, errors = ([group[key] for group in run["groups"]] for key in ("bleu", "interval"))
        label = f"{name} ({run['parameters'] / 1e6:.1f} M parameters, {run['all']['bleu']:.1f} on all)"
        style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
        axes.errorbar(x, heights, errors, label=label, capsize=3, linewidth=1.6, markersize=6, **style)
    ticks = [f"{g['words'][0]}–{g['words'][1]}\nn = {g['examples']}" for g in first]
    axes.set_xticks(range(len(first)), ticks)
    joined = "" if figures["join"] == 1 else f" ({figures['join']} sentences joined)"
    axes.set(xlabel=f"words of the source{joined}, and number of examples", ylabel="BLEU, with 95 % interval")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.tight_layout()
    plt.savefig(path, dpi=100, metadata={"Software": None})
    plt.close()


def compare(options: argparse.Namespace) -> Figures:
    """The figures of every run on the same examples: those that fit all runs."""
    runs = {Path(run).name: load_checkpoint(run) for run in options.runs}
    read = [read_examples(loaded, options.split, options.data, options.join) for loaded in runs.values()]
    if any(examples != read[0] for examples in read):
        raise ValueError("the runs were trained on different tasks; compare those of one task")
    fits_each = [fits_model(loaded, read[0]) for loaded in runs.values()]
    fits = [all(each) for each in zip(*fits_each, strict=True)]
    examples = [example for example, fit in zip(read[0], fits, strict=True) if fit]
    figures: Figures = {"split": options.split, "join": options.join, "left_out": fits.count(False), "runs": {}}
    for name, loaded in runs.items():
        file = None if options.texts is None else options.texts / f"{name}.{options.split}.{options.join}.json"
        translations = cached_translations(loaded, examples, file)
        figures["runs"][name] = {
            "parameters": parameters(loaded.model),
            "generate": loaded.task.generate,
            "all": score(translations, sources_and_targets(examples)[1]),
            "groups": scores_by_length(translations, examples, options.edges),
        }
        print(name, *(f"{g['words'][0]}-{g['words'][1]}: {g['bleu']}" for g in figures["runs"][name]["groups"]))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs of one translation task")
    parser.add_argument("--split", default="test")
    parser.add_argument(
        "--edges", type=int, nargs="+", default=EDGES, help="the fewest words of each group, and an end"
    )
    parser.add_argument("--join", type=int, default=1, help="sentences that make one example")
    parser.add_argument("--texts", type=Path, help="folder where translations are kept")
    parser.add_argument("--data", type=Path, help="folder of the data; default: $ZOO_DATA")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/pictures/bleu-by-length.png"))
    options = parser.parse_args()
    figures = compare(options)
    plot(figures, options.output)
    options.output.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
