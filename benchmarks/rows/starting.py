"""Row `start-up`: the time of short commands, in wall-clock and CPU seconds (user and system)."""

import os
import subprocess
import sys
from collections.abc import Sequence

from rows.contents import start, wikipedia
from rows.given import Given
from rows.turns import Turn

RUN = "gpt-random"


def prepare(turn: Turn, given: Given) -> None:
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    start(given, RUN, given.sizes["model"], wikipedia(given, "wikipedia-lm"), sets)


def command(turn: Turn, words: Sequence[str]) -> None:
    """Run a command from start to end, as one turn."""
    while True:
        before = os.times()
        subprocess.run([sys.executable, "-m", "zoo", *words], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        turn.done(1, processor=spent)


def help_zoo(turn: Turn, given: Given) -> None:
    command(turn, ["--help"])


def list_zoo(turn: Turn, given: Given) -> None:
    command(turn, ["list"])


def first_token(turn: Turn, given: Given) -> None:
    """`zoo predict` of one token: load the model, read the text, generate a token."""
    command(turn, ["predict", str(given.made / RUN), "The first", "--set", "generate.max_new_tokens=1"])
