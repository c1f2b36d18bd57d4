"""Turn texts and image files from a user into model inputs, in the form of the examples that it was trained on."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.batches.collate import concatenate_rows, documents_from, map_input
from zoo.blocks.rows.documents import Documents
from zoo.data.columns.pictures import decode, read_file
from zoo.data.ids import Ids, Piece
from zoo.disk import expand_user, refuse_empty
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import forms
from zoo.examples.template import Template, fill_template, overhead
from zoo.inference.loaded import Loaded
from zoo.models.heads.scores import Scores
from zoo.wording import counted

BATCH = 32  # texts or rows per forward pass
SORT_WINDOW = 64  # batches that are sorted by length together; an answer waits for no more than these


def refuse_too_long(count: int, most: int, what: str) -> None:
    """Refuse more tokens than the model reads.

    Raises:
        ValueError: `count` exceeds `most`.
    """
    if count > most:
        raise ValueError(f"{what} has {count} tokens, special tokens included: the model reads at most {most}")


def build_examples(loaded: Loaded, texts: Sequence[Ids], pairs: Sequence[Ids] | None) -> list[Example]:
    """Put each text or pair into the template of the model's training; nothing is truncated.

    Raises:
        ValueError: a text is too long for the model, or an example has no tokens.
    """
    template, most = template_of(loaded, 1 if pairs is None else 2), loaded.model.stream.max_length
    built = []
    for given in zip(*([texts] if pairs is None else [texts, pairs]), strict=True):
        pieces = {Piece(str(number), 0, len(ids)): ids for number, ids in enumerate(given)}
        plan = ExamplePlan(0, 0, 0, pieces=tuple(pieces))
        beyond = sum(map(len, given)) + overhead(template) - most
        if beyond > 0:
            limit = f"the model reads at most {most}, special tokens included"
            raise ValueError(f"the text is {counted(beyond, 'token')} too long: {limit}")
        built.append(fill_template(template, plan, pieces.__getitem__, loaded.tokenizer.roles, loaded.traits.causal))
        if not len(built[-1].tokens):
            raise ValueError("the text is empty, and the tokenizer adds no special tokens: there is nothing to read")
    return built


def template_of(loaded: Loaded, texts: int) -> Template:
    """The template for one text or two: that of the training form if it takes as many, else of `text` or `pair`."""
    known = (*loaded.mixture.forms, ("text", "pair")[texts - 1])
    templates = (forms.build(name, loaded.traits, True).template for name in known)
    return next(template for template in templates if template.count(None) == texts)


def collate_inputs(loaded: Loaded, examples: Sequence[Example]) -> dict[str, Tensor | Documents]:
    """Convert examples to the model's keyword arguments: one example per row, padded to the longest."""
    longest = max(len(example.tokens) for example in examples)
    shape, pad = (len(examples), longest), loaded.tokenizer.roles.pad
    tokens, documents = concatenate_rows([example.split() for example in examples], shape, pad)
    inputs = {"tokens": torch.from_numpy(tokens), "documents": documents_from(documents)}
    if loaded.traits.segments:
        segments = [[np.zeros_like(e.tokens) if e.segments is None else e.segments] for e in examples]
        inputs["segments"] = torch.from_numpy(concatenate_rows(segments, tokens.shape, 0)[0])
    return {name: map_input(value, lambda tensor: tensor.to(loaded.model.device)) for name, value in inputs.items()}


def score_texts(loaded: Loaded, examples: Sequence[Example], head: str) -> Scores:
    """The scores of a head per example, at its summary position."""
    longest = max(len(example.tokens) for example in examples)
    # given as flat positions: the model would search for them on the device, and wait for it
    flat = [row * longest + one.summary % len(one.tokens) for row, one in enumerate(examples)]
    places = {head: torch.tensor(flat, device=loaded.model.device)}
    return loaded.run(**collate_inputs(loaded, examples), places=places).scores[head]


def source_inputs(loaded: Loaded, sources: Sequence[Ids]) -> tuple[Tensor, Documents]:
    """Build source rows `x… </s>` and their documents, padded on the right.

    Raises:
        ValueError: a source is too long for the model.
    """
    encoder = loaded.model.encoder
    assert encoder is not None
    ended = [np.append(ids, loaded.tokenizer.roles.id("end")) for ids in sources]
    longest = max(map(len, ended))
    refuse_too_long(longest, encoder.max_length, "the text")
    tokens, documents = concatenate_rows([[ids] for ids in ended], (len(ended), longest), loaded.tokenizer.roles.pad)
    return torch.from_numpy(tokens).to(loaded.model.device), documents_from(documents).to(loaded.model.device)


def image_inputs(loaded: Loaded, files: Sequence[str]) -> tuple[Tensor, Documents]:
    """Read images from files, at the model's size; return them and their documents, one per image.

    Raises:
        ValueError: a path is empty, or a file is missing or not an image.
    """
    size = loaded.traits.image_size
    assert size is not None
    for file in files:  # such as a blank line of standard input
        refuse_empty(file, "IMAGE")
    pictures = np.stack([decode(read_file(expand_user(file), "IMAGE"), file, size) for file in files])
    documents = documents_from(np.ones((len(files), 1), dtype=np.int64))
    return torch.from_numpy(pictures).to(loaded.model.device), documents.to(loaded.model.device)
