"""Train in every process that was launched: `two_processes.py FOLDER STEPS [resume]`."""

import sys
from pathlib import Path

from tiny import GOAL, TinyModel, TinyRows, begin, collate, settings

from zoo.batches.feed import Feed
from zoo.training.loop import train
from zoo.training.supervision.joining import join


def main(folder: Path, steps: int, resume: bool) -> None:
    """Five rows a step do not divide by two processes or by micro-batches of two."""
    training = settings(steps=steps, micro_batch=2, save_every=0, evaluate_every=0)
    with join(training, folder) as processes, begin(folder, resume, training) as run:
        train(TinyModel(), Feed(TinyRows(), collate), GOAL, training, run, processes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3)
