"""Row `start-up`: how long commands take to begin, in seconds of the clock and of the processor (user and system)."""

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
    """One turn: run a command from its start to its end."""
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
    """`zoo predict` of one token: the model is loaded, the text read, and a token written."""
    command(turn, ["predict", str(given.made / RUN), "The first", "--set", "generate.max_new_tokens=1"])
