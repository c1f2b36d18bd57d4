"""Every variant learns a toy task to 99 %, and a model that lacks what a task needs does not.

    python tests/bars/every_bar.py [--only WORD …] [--workers N] [--keep FILE] [--write]

--only takes the bars of a slot, a variant, a task or a model. --keep notes what came of each bar in a file, from which
another call goes on, if the source is the same. With --write the table goes into docs/bars.md.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from learn import TRAINING, Learned, learn
from table import BARS, BROKEN, GOAL, Bar
from toys import TOYS

PAGE = Path(__file__).parents[2] / "docs" / "bars.md"
BEGIN = "<!-- begin: python tests/bars/every_bar.py --write -->"
END = "<!-- end: python tests/bars/every_bar.py --write -->"
HEADER = "slot | variant | task | model | steps | seconds | measure | reached | chance | why"
ALONE = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def attempt(bar: Bar) -> Learned | str:
    """What came of a bar, or why nothing did."""
    torch.set_num_threads(1)
    here = "cuda" if torch.accelerator.is_available() else "cpu"
    if bar.device not in (None, here):
        return f"needs {bar.device}"
    try:
        return learn(bar)
    except (ValueError, RuntimeError) as error:
        return f"failed: {error}"


def is_good(bar: Bar, found: Learned | str) -> bool:
    """Whether it came out as it must: a broken model stays below the bar."""
    if isinstance(found, str):
        return not found.startswith("failed")
    return found.reached != (bar in BROKEN)


def line(bar: Bar, found: Learned | str) -> str:
    """A bar's row of the table."""
    measured = [found] if isinstance(found, str) else [f"{found.seconds:.0f}", found.metric, f"{found.share:.2%}"]
    measured = (measured + ["", ""])[:3]
    known = [bar.slot, f"`{bar.name}`", bar.toy, bar.model, str(bar.steps)]
    cells = [*known, *measured, f"{bar.task.guess():.0%}", bar.why]
    return f"| {' | '.join(cells)} |"


def run(bars: Sequence[Bar], workers: int, keep: Path | None) -> Iterator[tuple[Bar, Learned | str]]:
    """Each bar with what came of it, in their order; what a file keeps is not done again."""
    lines = keep.read_text("utf-8").splitlines() if keep is not None and keep.exists() else []
    kept = dict(json.loads(line) for line in lines)
    with ProcessPoolExecutor(workers) as pool:
        began = {name: pool.submit(attempt, bar) for bar in bars if (name := described(bar)) not in kept}
        for bar in bars:
            if (name := described(bar)) in kept:
                yield bar, Learned(**kept[name])
                continue
            found = began[name].result()
            if keep is not None and isinstance(found, Learned):
                with keep.open("a", encoding="utf-8") as file:
                    print(json.dumps([name, asdict(found)]), file=file)
            yield bar, found


def described(bar: Bar) -> str:
    """All that decides what is learned, but for the source."""
    return repr((bar, bar.task.task, bar.task.rows, TRAINING))


def chosen(words: Sequence[str] | None) -> list[Bar]:
    """The bars that are asked for."""
    return [bar for bar in (*BARS, *BROKEN) if not words or {bar.slot, bar.name, bar.toy, bar.model} & set(words)]


def tasks() -> str:
    """The table of the toy tasks."""
    rows = ["| task | what it asks for | broken: a model with |", "|---|---|---|"]
    for name, toy in TOYS.items():
        lacking = ", ".join(f"`{key}={json.dumps(value)}`" for key, value in toy.without.items())
        rows.append(f"| {name} | {toy.about} | {lacking} |")
    return "\n".join(rows)


def write(table: str) -> None:
    """Put both tables into the page."""
    text = PAGE.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    title = "## The toy tasks"
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{title}\n\n{tasks()}\n\n{END}{after}", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--workers", type=int, default=1, help="bars at once, one thread each")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, bad = [f"| {HEADER} |", "|---" * (HEADER.count("|") + 1) + "|"], []
    print("\n".join(rows))
    with TemporaryDirectory() as cache:
        os.environ |= {**ALONE, "ZOO_CACHE": cache}
        for bar, found in run(chosen(options.only), options.workers, options.keep):
            rows.append(line(bar, found))
            print(rows[-1], flush=True)
            if not is_good(bar, found):
                bad.append(f"{bar.slot} {bar.name}")
    if options.write and not options.only:
        write("\n".join(rows))
    if bad:
        print(f"{len(bad)} of {len(rows) - 2} are on the wrong side of {GOAL:.0%}: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
