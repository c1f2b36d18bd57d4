"""Attention maps as one HTML page that needs nothing else: choose layer and head, point at a token, step through words.

The page's program and looks lie beside this file: attention_drawing.js, attention.js, attention.css, attention.html.
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
from zoo.inference.attend import Attended, Map

TITLES = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Cross-attention",
}
STEPS = 255  # of a byte
QUALITY = 88  # of JPEG
MARK = re.compile(r"\{\{(\w+)\}\}")


def draw_page(attended: Attended, title: str) -> str:
    """The page: markup, looks, data and program in one file that asks no server for anything."""
    parts = {
        "title": html.escape(title),
        "style": template("attention.css"),
        "data": as_json(page_data(attended, title)),
        "program": template("attention_drawing.js") + template("attention.js"),
    }
    return MARK.sub(lambda mark: parts[mark[1]], template("attention.html"))


def template(name: str) -> str:
    """The text of a file that lies beside this one."""
    return Path(__file__).with_name(name).read_text("utf-8")


def as_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin another."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def page_data(attended: Attended, title: str) -> dict[str, Any]:
    """What the page's program reads."""
    return {
        "title": title,
        "texts": attended.texts,
        "picture": None if attended.picture is None else data_uri(attended.picture),
        "maps": [map_data(found, name) for found, name in zip(attended.maps, names(attended.maps), strict=True)],
    }


def names(maps: list[Map]) -> list[str]:
    """What each map is called; grids of different sizes are told apart by them."""
    kinds = [found.kind for found in maps]
    grids = [found.queries.grid for found in maps]
    return [
        TITLES[kind] if grid is None or kinds.count(kind) == 1 else f"{TITLES[kind]}, {grid[0]} × {grid[1]}"
        for kind, grid in zip(kinds, grids, strict=True)
    ]


def map_data(found: Map, name: str) -> dict[str, Any]:
    """A map with its weights as bytes."""
    layers = [
        {"layer": layer, "heads": len(weights), "weights": base64.b64encode(quantise(weights).tobytes()).decode()}
        for layer, weights in found.layers.items()
    ]
    return {**asdict(replace(found, layers={})), "name": name, "layers": layers}


def quantise(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """round(255 sqrt(w)): small weights, which are many, keep more of their digits than large ones."""
    steps: NDArray[np.uint8] = np.rint(np.sqrt(weights) * STEPS).astype(np.uint8)
    return steps


def data_uri(picture: Picture) -> str:
    """A picture as an address that holds it."""
    written = io.BytesIO()
    Image.fromarray(picture.transpose(1, 2, 0)).save(written, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
