"""Toy tasks, each with an answer that a rule decides: rows drawn from a seed, none of which stands in both splits."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

Tree = dict[str, Any]
Draw = Callable[[Random], Tree]
LETTERS = "abcdefgh"
COLORS = {"red": (220, 40, 30), "green": (30, 200, 60), "blue": (40, 60, 210)}
ANSWERS = ("tags", "label", "target", "answers", "text")  # which column a model has to say: the first that there is
WORDS = {"name": "wordpiece", "vocab_size": 400, "min_frequency": 1}
BASE = {"tokenizer": WORDS, "length": 96, "longest": 24}


@dataclass(frozen=True)
class Toy:
    """A toy task.

    Args:
        draw: makes a row. about: what it asks, in a sentence.
        task: its file, without the source; the first metric is what the bar measures.
        without: settings that take from a model what the task needs, so that it cannot reach the bar.
        rows: of validation and of train.
        chance: of the best answer that reads nothing; None: the commonest one of validation.
    """

    draw: Draw
    about: str
    task: Tree
    without: Mapping[str, Any]
    rows: tuple[int, int]
    chance: float | None = field(default=None)

    def splits(self) -> dict[str, list[Tree]]:
        """The rows of each split, the same ones each time."""
        random, seen = Random(0), set[str]()
        drawn: list[Tree] = []
        while len(drawn) < sum(self.rows):
            row = self.draw(random)
            if (written := repr(row)) not in seen:
                seen.add(written)
                drawn.append(row)
        return {"validation": drawn[: self.rows[0]], "train": drawn[self.rows[0] :]}

    def guess(self) -> float:
        """What the best answer scores that reads nothing."""
        if self.chance is not None:
            return self.chance
        said = Counter(answer for row in self.splits()["validation"] for answer in answers(row))
        return said.most_common(1)[0][1] / said.total()

    def write(self, folder: Path) -> Path:
        """Rows and the task's file in a folder; JSON is YAML."""
        for split, rows in self.splits().items():
            lines = [json.dumps({**row, **draw_picture(row, folder, f"{split}-{n}")}) for n, row in enumerate(rows)]
            (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        files = {split: str(folder / f"{split}.jsonl") for split in ("train", "validation")}
        path = folder / "task.yaml"
        path.write_text(json.dumps({**self.task, "source": {"files": files}}), "utf-8")
        return path


TOYS: dict[str, Toy] = {}


def toy(
    objective: str | Tree,
    metric: str,
    without: Mapping[str, Any],
    rows: tuple[int, int] = (200, 4000),
    chance: float | None = None,
    **task: Any,
) -> Callable[[Draw], Draw]:
    """Register what draws a row as a toy task of its name."""

    def add(draw: Draw) -> Draw:
        name, about = draw.__name__.replace("_", " "), (draw.__doc__ or "").partition("\n")[0]
        tree = {**BASE, "objective": objective, "metrics": [metric], **task}
        TOYS[name] = Toy(draw, about, tree, without, rows, chance)
        return draw

    return add


def answers(row: Tree) -> Iterator[str]:
    """What a model has to say to a row."""
    said = next(row[column] for column in ANSWERS if column in row)
    yield from map(str, said) if isinstance(said, list) else [str(said)]


def draw_picture(row: Tree, folder: Path, name: str) -> Tree:
    """The picture of a row that has pixels, as a file."""
    if "image" not in row:
        return {}
    Image.fromarray(np.array(row["image"], dtype=np.uint8)).save(folder / f"{name}.png")
    return {"image": f"{name}.png"}


def some(random: Random, low: int, high: int, of: str = LETTERS) -> list[str]:
    """So many letters, any of them as often as it comes."""
    return random.choices(of, k=random.randint(low, high))


def different(random: Random, low: int, high: int) -> list[str]:
    """So many letters, each at most once."""
    return random.sample(LETTERS, random.randint(low, high))
