"""Row `start-up`: the time of short commands, in wall-clock and CPU seconds (user and system)."""

import os
import subprocess
import sys
from collections.abc import Sequence

from rows.data import prepare_run, wikipedia_task
from rows.side_args import SideArgs
from rows.side_process import TurnReporter

GPT_RUN = "gpt-random"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    sets = [f"vocab_size={args.sizes['vocabulary']}"]
    prepare_run(args, GPT_RUN, args.sizes["model"], wikipedia_task(args, "wikipedia-lm"), sets)


def time_command(reporter: TurnReporter, words: Sequence[str]) -> None:
    """Run a command of zoo from start to end in each turn."""
    while True:
        before = os.times()
        subprocess.run([sys.executable, "-m", "zoo", *words], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        cpu_seconds = after.children_user + after.children_system - before.children_user - before.children_system
        reporter.report(1, processor=cpu_seconds)


def help_zoo(reporter: TurnReporter, args: SideArgs) -> None:
    time_command(reporter, ["--help"])


def list_zoo(reporter: TurnReporter, args: SideArgs) -> None:
    time_command(reporter, ["list"])


def first_token(reporter: TurnReporter, args: SideArgs) -> None:
    """`zoo predict` of one token: load the model, read the text, generate a token."""
    time_command(reporter, ["predict", str(args.cache / GPT_RUN), "The first", "--set", "generate.max_new_tokens=1"])
