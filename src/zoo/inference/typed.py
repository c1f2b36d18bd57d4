"""Texts that someone typed, and pictures that someone named, as the examples that the model was trained on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zoo.batches.collate import changed, documents_in, lay_rows
from zoo.blocks.documents import Documents
from zoo.data.ids import Ids, Lengths, Piece
from zoo.data.sources.pictures import decode, read_file
from zoo.examples.example import Example
from zoo.examples.form import Form, Limits, forms
from zoo.inference.loaded import Loaded

BATCH = 32  # texts, or rows, in one pass of the model
WINDOW = 64  # batches whose texts, or rows, are sorted by length together: an answer waits for no more than these


def refuse_longer(count: int, most: int, what: str) -> None:
    """Check that tokens fit.

    Raises:
        ValueError: they do not.
    """
    if count > most:
        raise ValueError(f"{what} has {count} tokens, special tokens included: the model reads at most {most}")


def typed_examples(loaded: Loaded, texts: Sequence[Ids], pairs: Sequence[Ids] | None) -> list[Example]:
    """Each text, or pair of texts, in the template of the model's training, uncut.

    Raises:
        ValueError: a text is too long for the model.
    """
    fields = {"text": texts} if pairs is None else {"text": texts, "pair": pairs}
    form: Form = forms.build("text" if pairs is None else "pair", loaded.stream, True)
    flat = {name: np.concatenate([*ids, np.empty(0, dtype=np.int64)]) for name, ids in fields.items()}
    lengths = Lengths({name: np.cumsum([0, *map(len, ids)]) for name, ids in fields.items()})
    limits = Limits(loaded.model.stream.max_length)

    def read(piece: Piece) -> Ids:
        return flat[piece.field][piece.start : piece.stop]

    built = []
    for number in range(len(texts)):
        (plan,) = form.plan(lengths, number, 0, 0, limits)
        if plan.truncated:
            limit = f"the model reads at most {limits.longest}, special tokens included"
            raise ValueError(f"the text is {plan.truncated} tokens too long: {limit}")
        built.append(form.build(plan, read, loaded.tokenizer.roles))
    return built


def as_inputs(loaded: Loaded, examples: Sequence[Example]) -> dict[str, Tensor | Documents]:
    """Examples as the model's keyword arguments, one a row, as long as the longest."""
    longest = max(len(example.tokens) for example in examples)
    tokens, documents = lay_rows([[e.tokens] for e in examples], (len(examples), longest), loaded.tokenizer.roles.pad)
    inputs = {"tokens": torch.from_numpy(tokens), "documents": documents_in(documents)}
    if loaded.stream.segments:
        segments = [[np.zeros_like(e.tokens) if e.segments is None else e.segments] for e in examples]
        inputs["segments"] = torch.from_numpy(lay_rows(segments, tokens.shape, 0)[0])
    return {name: changed(value, lambda tensor: tensor.to(loaded.model.device)) for name, value in inputs.items()}


def summary_places(loaded: Loaded, examples: Sequence[Example]) -> Tensor:
    """The flat places that stand for the texts of rows; the model would look for them, and wait for its device."""
    longest = max(len(example.tokens) for example in examples)
    places = [row * longest + one.summary % len(one.tokens) for row, one in enumerate(examples)]
    return torch.tensor(places, device=loaded.model.device)


def source_inputs(loaded: Loaded, sources: Sequence[Ids]) -> tuple[Tensor, Documents]:
    """Source rows `x… </s>` and their documents, padded on the right.

    Raises:
        ValueError: a source is too long for the model.
    """
    encoder = loaded.model.encoder
    assert encoder is not None
    ended = [np.append(ids, loaded.tokenizer.roles.id("end")) for ids in sources]
    longest = max(map(len, ended))
    refuse_longer(longest, encoder.max_length, "the text")
    tokens, documents = lay_rows([[ids] for ids in ended], (len(ended), longest), loaded.tokenizer.roles.pad)
    return torch.from_numpy(tokens).to(loaded.model.device), documents_in(documents).to(loaded.model.device)


def picture_inputs(loaded: Loaded, files: Sequence[str]) -> tuple[Tensor, Documents]:
    """The pictures of files as the model reads them, and their documents: each is one.

    Raises:
        ValueError: a file is missing, or no picture.
    """
    size = loaded.stream.image_size
    assert size is not None
    pictures = np.stack([decode(read_file(Path(file).expanduser(), "IMAGE"), file, size) for file in files])
    documents = documents_in(np.ones((len(files), 1), dtype=np.int64))
    return torch.from_numpy(pictures).to(loaded.model.device), documents.to(loaded.model.device)
