"""Does a captioner attend to what it names? Measured at color words, which can be checked against pixels.

    python benchmarks/pointing.py runs/captioner --split test

The model reads every caption of a split with its image (teacher forcing). At `red`, `snow` and the other words of
COLORS, the attention weights (mean over layers and heads) are compared with the image. Printed per word: the share of
the weights on pixels of that color, and two baselines: the same share at the other words of the captions (attention
that ignores the word), and the color's share of the image (uniform attention). Also the pointing game: how often the
grid position with the largest weight has the color, and how often any position has it. Only images with the color on
2 to 60 % of their pixels count. The last line gives the share of all weight on the rim of the grid, the rim's share of
the positions, and over how many positions a word's attention spreads.

Source: Zhang et al. 2018, arXiv:1608.00507, section 4.2 (pointing game); the bounds of the colors are ours.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

from zoo.data.sources.find import load_rows
from zoo.examples.form import inputs
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.loaded import Loaded

MIN_AREA, MAX_AREA = 0.02, 0.6  # bounds on the share of pixels with the color
Floats = NDArray[np.float64]


class Color(NamedTuple):
    """Bounds on the hue (degrees), saturation and value of a pixel; a range of hues may wrap around 360."""

    hue: tuple[float, float] = (0, 360)
    saturation: tuple[float, float] = (0, 1)
    value: tuple[float, float] = (0, 1)

    def share(self, picture: NDArray[np.uint8], grid: tuple[int, int]) -> Floats:
        """The share of pixels with the color in each cell of a grid, (rows, columns)."""
        hsv = np.asarray(Image.fromarray(picture.transpose(1, 2, 0)).convert("HSV")) / 255
        hue, (low, high) = hsv[..., 0] * 360, self.hue
        has_color = (low <= hue) & (hue <= high) if low <= high else (low <= hue) | (hue <= high)
        for channel, (lowest, highest) in enumerate([self.saturation, self.value], 1):
            has_color &= (lowest <= hsv[..., channel]) & (hsv[..., channel] <= highest)
        shares = Image.fromarray(has_color.astype(np.float32)).resize(grid[::-1], Image.Resampling.BOX)
        return np.asarray(shares, dtype=np.float64)


PALE = Color(saturation=(0, 0.2), value=(0.75, 1))
PLANTS = Color((60, 165), (0.25, 1), (0.2, 1))
COLORS = {
    "red": Color((345, 15), (0.5, 1), (0.3, 1)),
    "orange": Color((15, 40), (0.6, 1), (0.5, 1)),
    "yellow": Color((42, 66), (0.5, 1), (0.5, 1)),
    "green": Color((70, 165), (0.25, 1), (0.2, 1)),
    "blue": Color((190, 255), (0.35, 1), (0.25, 1)),
    "pink": Color((290, 350), (0.25, 1), (0.5, 1)),
    "white": PALE,
    "black": Color(value=(0, 0.2)),
    "grass": PLANTS,
    "grassy": PLANTS,
    "snow": PALE,
    "snowy": PALE,
}


class WordMeasurement(NamedTuple):
    """What is measured at one color word of a caption.

    Args:
        weight: share of the attention weights on the word's color.
        elsewhere: the same share at the other words of the caption.
        area: the color's share of the image.
        hit: 1 if the grid position with the largest weight has the color, else 0.
        chance: the share of positions that have it.
    """

    weight: float
    elsewhere: float
    area: float
    hit: float
    chance: float


Measurements = dict[str, list[WordMeasurement]]  # color word -> its measurements


class CaptionMaps(NamedTuple):
    """An image and one of its captions: token ids, and the attention map of each, (tokens, rows, columns)."""

    picture: NDArray[np.uint8]
    ids: list[int]
    maps: Floats


def single_token_words(loaded: Loaded) -> dict[int, str]:
    """Token id -> color word, for the words that are a single token inside a text."""
    start, *texts = loaded.tokenizer.encode(["a", *(f"a {word}" for word in COLORS)])
    pairs = zip(COLORS, texts, strict=True)
    return {int(ids[-1]): word for word, ids in pairs if len(ids) == len(start) + 1}


@torch.no_grad()
def caption_maps(loaded: Loaded, picture: NDArray[np.uint8], texts: list[str]) -> Iterator[CaptionMaps]:
    """Yield the attention maps of an image's captions.

    Raises:
        ValueError: the model has no cross-attention to its grid.
    """
    tokenizer, encoder = loaded.tokenizer, loaded.model.encoder
    assert encoder is not None
    encoded = [ids.tolist() for ids in tokenizer.encode(texts)]
    tokens = torch.full((len(encoded), 1 + max(map(len, encoded))), tokenizer.roles.pad or 0)
    documents = torch.zeros_like(tokens)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids) + 1] = torch.tensor([tokenizer.roles.id("start"), *ids])
        documents[row, : len(ids) + 1] = 1
    pictures = torch.from_numpy(picture.copy()).expand(len(encoded), -1, -1, -1)
    output = loaded.model(tokens, pictures, documents, torch.ones(len(encoded), 1, dtype=torch.long), weights=True)
    layers = [weights.mean(1) for weights in output.weights["decoder.cross"] if weights is not None]
    if not layers:
        raise ValueError("this run does not attend to its pictures; train one with attention")
    maps = torch.stack(layers).mean(0).double().numpy()
    for row, ids in enumerate(encoded):
        yield CaptionMaps(picture, ids, maps[row, : len(ids)].reshape(-1, *encoder.grids[-1]))


def measure_words(caption: CaptionMaps, words: dict[int, str]) -> Iterator[tuple[str, WordMeasurement]]:
    """Yield each color word of a caption with its measurements.

    Args:
        words: token id -> color word.
    """
    for index, token in enumerate(caption.ids):
        if token not in words:
            continue
        shares = COLORS[words[token]].share(caption.picture, caption.maps.shape[1:])
        others = [i for i, other in enumerate(caption.ids) if other != token]
        if others and MIN_AREA <= shares.mean() <= MAX_AREA:
            weights, other_weights = caption.maps[index], caption.maps[others].mean(0)
            hit = float(shares.flat[weights.argmax()] >= 0.5)
            on_color, elsewhere = (weights * shares).sum(), (other_weights * shares).sum()
            yield words[token], WordMeasurement(on_color, elsewhere, shares.mean(), hit, (shares >= 0.5).mean())


def rim_and_spread(maps: Floats) -> Floats:
    """Each token's weight on the rim of the grid, and exp(entropy): the number of positions over which it spreads."""
    inside = maps[:, 1:-1, 1:-1].sum((1, 2))
    spread = np.exp(-(maps * np.log(np.maximum(maps, 1e-12))).sum((1, 2)))
    return np.stack([maps.sum((1, 2)) - inside, spread], axis=1)


def measure(loaded: Loaded, options: argparse.Namespace) -> tuple[Measurements, Floats, tuple[int, ...]]:
    """Measure a split; returns all measurements, `rim_and_spread` of every token, and the shape of the grid."""
    rows = load_rows(loaded.task, inputs(), options.data, [options.split])[options.split]
    assert loaded.traits.image_size is not None
    measurements: Measurements = {word: [] for word in COLORS}
    rims_and_spreads, words, grid = [], single_token_words(loaded), ()
    pictures = rows.pictures(rows.parts[0])
    for number, captions in enumerate(row["text"] for row in islice(rows, options.limit)):
        texts = [captions] if isinstance(captions, str) else list(captions)
        for caption in caption_maps(loaded, pictures.read(number, loaded.traits.image_size), texts):
            grid = caption.maps.shape[1:]
            rims_and_spreads.append(rim_and_spread(caption.maps))
            for word, measurement in measure_words(caption, words):
                measurements[word].append(measurement)
    return measurements, np.concatenate(rims_and_spreads), grid


def print_results(measurements: Measurements, rims_and_spreads: Floats, grid: tuple[int, ...]) -> None:
    """Print a line per color word, and the rim and the spread."""
    table = Table("word", "times", "weight on it", "at other words", "of the picture", "points at it", "by chance")
    all_words = [one for measured in measurements.values() for one in measured]
    for word, measured in {**measurements, "all": all_words}.items():
        if measured or word == "all":
            table.add_row(word, f"{len(measured)}", *(f"{100 * mean:.1f} %" for mean in np.mean(measured, axis=0)))
    Console(width=110).print(table)
    weight, spread = rims_and_spreads.mean(0)
    share = 1 - max(0, grid[0] - 2) * max(0, grid[1] - 2) / (grid[0] * grid[1])
    print(f"rim: {100 * weight:.1f} % of the weight, {100 * share:.1f} % of the places")
    print(f"a word spreads over {spread:.0f} of {grid[0] * grid[1]} places; {len(rims_and_spreads)} words")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a captioner with attention")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, help="so many pictures; default: all")
    parser.add_argument("--data", type=Path, help="folder of the data; default: $ZOO_DATA")
    options = parser.parse_args()
    print_results(*measure(load_checkpoint(options.run), options))


if __name__ == "__main__":
    main()
