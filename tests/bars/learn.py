"""Learning one bar: by zoo's own training and evaluation, on rows that training never saw."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from table import GOAL, Bar

from zoo.devices.choose import EXACT, choose_placement
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.evaluate_split import evaluate_split
from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.models.generation.settings import parse_generate
from zoo.strict_yaml import Tree

TRAINING: Tree = {  # of every bar, unless its own settings say otherwise
    **{"batch": 8, "learning_rate": 2e-3, "schedule": "cosine", "warmup_steps": 0.1, "precision": "float32"},
    **{"optimizer": {"name": "adamw", "betas": [0.9, 0.98]}, "evaluate_every": 0, "save_every": 0, "peak_flops": 1e9},
}


@dataclass(frozen=True)
class Learned:
    """How well a bar was learned.

    Args:
        share: of the best that its metric can be. metric: its name. seconds: of one core.
    """

    share: float
    metric: str
    seconds: float

    @property
    def reached(self) -> bool:
        return self.share >= GOAL


def learn(bar: Bar) -> Learned:
    """Train a bar's model and measure it on the rows that were held out."""
    began = time.process_time()
    with TemporaryDirectory() as folder:
        task, run = bar.task.write(Path(folder)), Path(folder) / "run"
        training = {f"training.{key}": value for key, value in {**TRAINING, "steps": bar.steps}.items()}
        sets = [(tuple(key.split(".")), value) for key, value in {"dropout": 0.0, **training, **bar.sets}.items()]
        pretrain(Request(bar.model, str(task), run, sets), Watcher())
        loaded = load_checkpoint(run, choose_placement("auto", EXACT))
        found = evaluate_split(loaded, "validation", None, parse_generate(loaded.task.generate))
        (metric,) = parse_metrics(loaded.task.metrics, loaded.mixture.metrics)
    return Learned(share_of(metric, found[metric.name]), metric.metric, time.process_time() - began)


def share_of(metric: ChosenMetric, value: float) -> float:
    """A value as a share of the best: of a perplexity, the mean probability that the right token gets."""
    best = metric.variant.best
    return 1 / value if best is None else value / best
