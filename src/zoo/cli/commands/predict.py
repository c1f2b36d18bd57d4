"""zoo predict."""

import sys
from typing import Annotated

import typer

from zoo.cli.options import Checkpoint, Json, Set, read_section
from zoo.cli.visible import say, say_json
from zoo.config import merge
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.predict import predict as run_predict
from zoo.models.generation.settings import parse_generate

INPUTS = "A text, or the file of a picture; none: the lines of standard input."
PAIR = "The second text; once for each TEXT."


def predict(
    checkpoint: Checkpoint,
    inputs: Annotated[list[str], typer.Argument(metavar="[TEXT|IMAGE]", help=INPUTS)] = [],  # noqa: B006
    pair: Annotated[list[str], typer.Option("--pair", metavar="TEXT", help=PAIR)] = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Generate, fill masks, classify, translate or caption: what the checkpoint does."""
    changes = read_section(sets, "generate", "predict")
    loaded = load_checkpoint(checkpoint)
    settings = parse_generate(merge(loaded.task.generate, changes))
    texts = list(inputs) or [line.rstrip("\n") for line in sys.stdin]
    if not texts:
        raise ValueError("there is no text: give one, or lines on standard input")
    found = run_predict(loaded, texts, list(pair) or None, settings, writes=bool(trees["generate"]))
    if as_json:
        return say_json([prediction._asdict() for prediction in found])
    for prediction in found:
        say(prediction.output)
        if isinstance(prediction.scores, dict):
            say("  " + "  ".join(f"{name} {share:.3f}" for name, share in prediction.scores.items()))
        elif isinstance(prediction.scores, list):
            for scores in prediction.scores:
                say("  " + "  ".join(f"{token} {share:.3f}" for token, share in scores.items()))
