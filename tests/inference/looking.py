"""Tiny loaded models of every way to attend, with a tokenizer of a few sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.objectives.mixture import Mixture

TEXTS = ["the red cat sleeps on the house", "a blue dog runs over the trees", "cats and dogs sleeping , running"] * 3


def loaded(name: str, objective: Any, kind: str = "wordpiece", columns: Any = None, **sets: Any) -> Loaded:
    """A model that has learned nothing yet; `sets` are keys of the model, with __ for dots."""
    tree = {"objective": objective, "source": {"files": {"train": "a.tsv"}}, "columns": columns or {}}
    task = read_task({**tree, "generate": {"max_new_tokens": 5}}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": kind, "vocab_size": 290}, "tokenizer"), TEXTS)
    mixture = Mixture.parse(task.objective)
    options = {"classification": {"labels": 2}}
    heads = [{"name": head, **options.get(head, {})} for head in mixture.heads]
    pairs = [(tuple(key.split("__")), value) for key, value in {"vocab_size": 300, "heads": heads, **sets}.items()]
    model = Model(load_settings(name, pairs)).initialize(0)
    return Loaded(model.eval(), tokenizer, task, mixture)


def overflowing(model: Loaded) -> Loaded:
    """The same model, whose weights are so large that what it says is no number."""
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(1e30)
    return model


def picture(folder: Path) -> str:
    """The path of a small picture."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    path = folder / "small.png"
    Image.fromarray(pixels).save(path)
    return str(path)
