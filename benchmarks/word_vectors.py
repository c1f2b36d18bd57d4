"""How much word vectors from unlabeled text help a classifier with few or many labeled examples.

    python benchmarks/word_vectors.py runs/word-vectors

1. Word vectors are computed from the texts of another task (`--text imdb`; labels are not read): co-occurrence counts
   as positive pointwise mutual information, reduced to the model's width by a truncated singular value decomposition,
   and written as a word2vec text file.
2. A small recurrent classifier is trained by `zoo pretrain` on `--task` (sst2) with random token vectors, starting from
   these vectors, and with these vectors frozen; for several seeds, on some of the task's examples and on all of them,
   with the same number of steps.

Prints a Markdown table of the validation accuracy after the last step (no best step is chosen) and writes
docs/pictures/word-vectors.json. Existing runs are resumed.

Source: Levy, Goldberg & Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings"
(positive PMI with smoothed contexts, square root of the singular values).
"""

import argparse
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd

from zoo.cli.commands.train import pretrain
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.examples.form import inputs
from zoo.models.settings import load_settings

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WORD = re.compile(r"\w+|[^\w\s]")  # a word, as a wordpiece tokenizer splits it
SMOOTHING = 0.75  # exponent on context counts, which raises the probability of rare contexts
TRAINING = ["training.learning_rate=3e-3", "training.warmup_steps=20", "training.evaluate_every=0"]
INITIALIZATIONS = {"random": "random, trained", "vectors": "vectors, trained", "frozen": "vectors, frozen"}
VECTORS, TOKENIZER = "vectors.txt", "tokenizer"
Figures = dict[str, Any]


def index_words(texts: Iterable[str], max_words: int) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The most frequent words, in lower case, and every text as indices of words; -1 is a rarer word."""
    split = [WORD.findall(text.lower()) for text in texts]
    vocabulary = [word for word, _ in Counter(word for words in split for word in words).most_common(max_words)]
    indices = {word: number for number, word in enumerate(vocabulary)}
    return vocabulary, [np.array([indices.get(word, -1) for word in words], dtype=np.int64) for words in split]


def count_cooccurrences(texts: list[NDArray[np.int64]], size: int, window: int) -> csr_matrix:
    """Co-occurrence counts, (words, words): how often two words are at most `window` positions apart in a text."""
    gap = np.full(window, -1, dtype=np.int64)  # separates texts: no pair spans two of them
    stream = np.concatenate([part for text in texts for part in (text, gap)])
    counts = csr_matrix((size, size), dtype=np.float64)
    for distance in range(1, window + 1):
        first, second = stream[:-distance], stream[distance:]
        both = (first >= 0) & (second >= 0)
        pairs, times = np.unique(first[both] * size + second[both], return_counts=True)
        counts = counts + csr_matrix((times.astype(np.float64), (pairs // size, pairs % size)), shape=(size, size))
    return counts + counts.T


def positive_pmi(counts: csr_matrix) -> csr_matrix:
    """Positive PMI, max(0, log(p(word, context) / (p(word) p(context)^0.75 / Z))), of the observed pairs."""
    pairs = counts.tocoo()
    words, contexts = np.asarray(counts.sum(1)).ravel(), np.asarray(counts.sum(0)).ravel() ** SMOOTHING
    expected = words[pairs.row] * contexts[pairs.col] / contexts.sum()
    pmi = np.log(pairs.data / expected).clip(0)
    return csr_matrix((pmi, (pairs.row, pairs.col)), shape=counts.shape)


def compute_vectors(texts: Iterable[str], width: int, max_words: int, window: int) -> dict[str, NDArray[np.float64]]:
    """A unit vector for each frequent word, from its co-occurrences.

    Args:
        window: words to either side that count as neighbors.
    """
    vocabulary, indexed = index_words(texts, max_words)
    pmi = positive_pmi(count_cooccurrences(indexed, len(vocabulary), window))
    left, values, _ = randomized_svd(pmi, width, n_iter=7, random_state=0)
    vectors = left * np.sqrt(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return dict(zip(vocabulary, vectors / lengths, strict=True))


def write_vectors(vectors: dict[str, NDArray[np.float64]], file: Path) -> None:
    """Write a word2vec text file: a line `words width`, then one line per word with its vector."""
    width = len(next(iter(vectors.values())))
    lines = [f"{word} {' '.join(f'{value:.5f}' for value in vector)}" for word, vector in vectors.items()]
    file.write_text("\n".join([f"{len(lines)} {width}", *lines]) + "\n", encoding="utf-8")


def write_subset(task: str, count: int, file: Path) -> None:
    """Write a fixed random subset of a task's training rows as a table."""
    settings = load_task(task)
    rows = list(load_rows(settings, inputs(), None, ["train"])["train"])
    subset = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))[:count]]
    names = [settings.columns.get(name, name) for name in ("text", "label")]
    lines = [f"{row['text']}\t{row['label']}" for row in subset]
    file.write_text("\n".join(["\t".join(names), *lines]) + "\n", encoding="utf-8")


def prepare(options: argparse.Namespace) -> None:
    """Write the vectors, the small training sets, and a run of one step whose tokenizer all other runs use."""
    options.folder.mkdir(parents=True, exist_ok=True)
    vectors, tokenizer = options.folder / VECTORS, options.folder / TOKENIZER
    if not vectors.exists():
        texts = [row["text"] for row in load_rows(load_task(options.text), inputs(), None, ["train"])["train"]]
        width = load_settings(options.model).d_model
        write_vectors(compute_vectors(texts, width, options.words, options.window), vectors)
    if not tokenizer.exists():
        pretrain(options.model, tokenizer, [options.task, "training.steps=1"])
    for count in filter(None, options.examples):
        if not (options.folder / f"{count}.tsv").exists():
            write_subset(options.task, count, options.folder / f"{count}.tsv")


def train(options: argparse.Namespace, count: int, start: str, seed: int) -> float:
    """Train or resume a run; returns the accuracy of its last validation in percent."""
    run = options.folder / f"{count or 'all'}-{start}-{options.steps}-{seed}"
    sets = [*TRAINING, f"training.seed={seed}", f"training.steps={options.steps}"]
    sets += [f"task.tokenizer.from={options.folder / TOKENIZER}"]
    if count:
        sets += [f"task.source.files.train={options.folder / f'{count}.tsv'}"]
    if start != "random":
        sets += [f"embeddings.vectors={options.folder / VECTORS}", f"embeddings.frozen={start == 'frozen'}".lower()]
    pretrain(options.model, run, [options.task, *sets], resume=run.exists())
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    print(run.name, last["step"], last["validation/classification/accuracy"], flush=True)
    return float(100 * last["validation/classification/accuracy"])


def markdown_table(accuracies: Figures) -> str:
    """A Markdown table of means and standard deviations over the seeds."""
    columns = [f"{int(count):,} examples" if int(count) else "all examples" for count in accuracies]
    lines = ["| validation accuracy, % | " + " | ".join(columns) + " |", "|---|" + "---|" * len(accuracies)]
    for start, label in INITIALIZATIONS.items():
        values = [accuracies[count][start] for count in accuracies]
        cells = [f"{statistics.mean(v):.1f} ± {statistics.stdev(v) if len(v) > 1 else 0:.1f}" for v in values]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the vectors and the runs")
    parser.add_argument("--model", default="rnn-classifier")
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--text", default="imdb", help="the task whose texts the vectors are made of")
    parser.add_argument("--words", type=int, default=20000, help="that get a vector")
    parser.add_argument("--window", type=int, default=5, help="words to either side")
    parser.add_argument("--examples", type=int, nargs="+", default=[1000, 0], help="to train on; 0: all")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    prepare(options)
    accuracies: Figures = {}
    for count in options.examples:
        by_seed = {start: [train(options, count, start, s) for s in range(options.seeds)] for start in INITIALIZATIONS}
        accuracies[str(count)] = by_seed
    settings = {key: value for key, value in vars(options).items() if key not in ("folder", "pictures")}
    figures = {**settings, "accuracy": accuracies}
    (options.pictures / "word-vectors.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(markdown_table(accuracies))


if __name__ == "__main__":
    main()
