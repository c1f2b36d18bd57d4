"""zoo predict."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from zoo.cli.main import FAILED
from zoo.cli.options import Batch, Checkpoint, Device, Json, Precision, SetGenerate, read_section
from zoo.cli.output import print_to_stderr, say, say_found, say_json, say_spans
from zoo.config import as_tree, merge
from zoo.data.formats.lines import BYTE_ORDER_MARK, CR_ALONE
from zoo.devices.choose import choose_placement
from zoo.devices.precision import AUTO
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.model_inputs import BATCH
from zoo.inference.predict import Unanswered, predict_each
from zoo.inference.predict import predict as run_predict
from zoo.inference.predictors.predictor import Prediction
from zoo.models.generation.settings import parse_generate

INPUTS = "Texts or image files (default, or for - alone: the lines of standard input)."
STDIN = ["-"]
NO_ANSWER, NO_CLASS = "(no answer)", "(none of the classes)"
PAIR = "The second text of a pair, once for each TEXT."


def predict(
    checkpoint: Checkpoint,
    inputs: Annotated[list[str], typer.Argument(metavar="[TEXT|IMAGE]", help=INPUTS)] = [],  # noqa: B006
    pair: Annotated[list[str], typer.Option("--pair", metavar="TEXT", help=PAIR)] = [],  # noqa: B006
    sets: SetGenerate = [],  # noqa: B006
    device: Device = AUTO,
    precision: Precision = AUTO,
    batch: Batch = BATCH,
    as_json: Json = False,
) -> None:
    """Generate, fill masks, classify, translate or caption: what the checkpoint does."""
    changes = as_tree(read_section(sets, "generate", "predict"))
    loaded = load_checkpoint(checkpoint, choose_placement(device, precision))
    settings = parse_generate(merge(loaded.task.generate, changes))
    if changes:
        loaded.mixture.refuse_generate()
    typed = [] if inputs == STDIN else list(inputs)
    texts, pairs, writes = typed or read_lines(), list(pair) or None, bool(changes)
    # texts given as arguments are all answered or none; a bad line of standard input must not stop the others
    work = run_predict if typed else predict_each
    found: Iterable[Prediction | Unanswered] = work(loaded, texts, pairs, settings, writes=writes, batch=batch)
    if as_json:
        found = list(found)
        say_json([answer._asdict() for answer in found])
    else:
        found = [say_answer(answer) for answer in found]
    if any(isinstance(answer, Unanswered) for answer in found):
        sys.exit(FAILED)


def read_lines() -> list[str]:
    """Read the lines of standard input, which may be a keyboard.

    Raises:
        ValueError: there is no line, or one is not text.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        print_to_stderr("reading texts from the keyboard, one per line; end with Ctrl-D", style=None)
    lines = [] if sys.stdin is None else [read_line(line, n) for n, line in enumerate(sys.stdin.buffer, 1)]
    if not lines:
        raise ValueError("no text; give one, or lines on standard input")
    return lines


def read_line(line: bytes, number: int) -> str:
    """Decode a line of standard input; Python's own decoding would not say which line is wrong.

    Raises:
        ValueError: it is not UTF-8, holds a NUL character, or ends lines with CR alone.
    """
    by_cr = number == 1 and not line.endswith(b"\n") and line.count(b"\r") > 1  # all of the input came as one line
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        # no line is answered: usually all of the input is in another encoding, in which many lines only look like UTF-8
        byte = f"byte 0x{line[error.start]:02X} at column {error.start + 1}"
        said = f"{byte} is not UTF-8; convert the text to UTF-8 (iconv); no line was answered"
        raise ValueError(f"standard input: line {number}: {said}") from None
    if "\0" in text:
        raise ValueError(f"standard input: line {number}: holds a NUL character, which a text cannot have")
    if by_cr:
        raise ValueError(f"standard input: {CR_ALONE}")
    return text


def format_output(output: object) -> str:
    """Format an answer in one line; of a number, four digits (--json prints all)."""
    if isinstance(output, list):
        return ", ".join(map(str, output)) or NO_CLASS
    if output is None:
        return NO_ANSWER
    return f"{output:.4g}" if isinstance(output, float) else str(output)


def say_answer(answer: Prediction | Unanswered) -> Prediction | Unanswered:
    """Print an answer as soon as it is available."""
    if isinstance(answer, Unanswered):
        say("")  # an empty answer, so that answers and lines stay in step
        print_to_stderr(f"error: line {answer.line}: {answer.error}")
        return answer
    # spans of the text, whose scores only --json prints; classes would have a dict of scores
    if isinstance(answer.output, list) and not isinstance(answer.scores, dict):
        say_spans(answer.input, answer.output)
        return answer
    if isinstance(answer.output, dict):  # an answer that was found in the second text
        say_found(answer.output["text"])
        return answer
    say(format_output(answer.output))
    scores = answer.scores if isinstance(answer.scores, list) else [answer.scores]
    for one in scores:
        if isinstance(one, dict):
            say("  " + "  ".join(f"{name} {share:.3f}" for name, share in one.items()))
    return answer
