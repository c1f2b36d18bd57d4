"""Attention maps as one self-contained HTML page: choose layer and head, point at a token, step through words.

Its scripts, style and markup are beside this file: attention_drawing.js, attention.js, attention.css, attention.html.
"""

import base64
import html
import io
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.data.ids import Picture
from zoo.inference.attend import AttentionMap, AttentionMaps

TITLES = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Cross-attention",
}
STEPS = 255  # levels of a quantized weight
QUALITY = 88  # of JPEG
MARK = re.compile(r"\{\{(\w+)\}\}")


def draw_page(attention: AttentionMaps, title: str) -> str:
    """The page: markup, style, data and scripts in one file that loads nothing else."""
    parts = {
        "title": html.escape(title),
        "style": template("attention.css"),
        "data": as_json(page_data(attention, title)),
        "program": template("attention_drawing.js") + template("attention.js"),
    }
    return MARK.sub(lambda mark: parts[mark[1]], template("attention.html"))


def template(name: str) -> str:
    """The content of a file in this folder."""
    return Path(__file__).with_name(name).read_text("utf-8")


def as_json(value: Any) -> str:
    """JSON that is safe inside a script element: without `<`, it cannot close the element or open another."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def page_data(attention: AttentionMaps, title: str) -> dict[str, Any]:
    """The data that the page's scripts read."""
    return {
        "title": title,
        "texts": attention.texts,
        "picture": None if attention.picture is None else data_uri(attention.picture),
        "maps": [map_data(found, name) for found, name in zip(attention.maps, names(attention.maps), strict=True)],
    }


def names(maps: list[AttentionMap]) -> list[str]:
    """The title of each map; several image grids of one kind are distinguished by their size."""
    kinds = [found.kind for found in maps]
    grids = [found.queries.grid for found in maps]
    return [
        TITLES[kind] if grid is None or kinds.count(kind) == 1 else f"{TITLES[kind]}, {grid[0]} × {grid[1]}"
        for kind, grid in zip(kinds, grids, strict=True)
    ]


def map_data(found: AttentionMap, name: str) -> dict[str, Any]:
    """A map with its weights quantized and base64-encoded."""
    layers = [
        {"layer": layer, "heads": len(weights), "weights": base64.b64encode(quantize(weights).tobytes()).decode()}
        for layer, weights in found.layers.items()
    ]
    return {**asdict(replace(found, layers={})), "name": name, "layers": layers}


def quantize(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """round(255 sqrt(w)): the square root gives small weights, which are frequent, more levels than large ones."""
    steps: NDArray[np.uint8] = np.rint(np.sqrt(weights) * STEPS).astype(np.uint8)
    return steps


def data_uri(picture: Picture) -> str:
    """An image as a JPEG data URI."""
    written = io.BytesIO()
    Image.fromarray(picture.transpose(1, 2, 0)).save(written, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
