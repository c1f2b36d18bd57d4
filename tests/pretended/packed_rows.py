"""A pass over packed rows on a pretended GPU, for the programs that take one."""

import load  # noqa: F401 - the device, before torch
import torch
from torch import Tensor

from zoo.blocks.rows.documents import Documents
from zoo.models.model import Model

CUDA, LENGTH = torch.device("cuda"), 8
ROWS = [[3, 2], [8], []]
DROPPING = (("dropout",), 0.1)


def learn(model: Model, rows: list[list[int]] = ROWS) -> None:
    """One forward and one backward pass."""
    read(model, rows).float().square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.device.type == "cuda", name


def read(model: Model, rows: list[list[int]] = ROWS) -> Tensor:
    """The states of rows as collating lays them."""
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] for row in rows]
    laid = torch.tensor([row + [0] * (LENGTH - len(row)) for row in numbers])
    documents, tokens = Documents.packed(rows, laid).to(CUDA), torch.ones_like(laid, device=CUDA)
    source = source_documents = None
    if model.encoder is not None and model.decoder is not None:
        source, source_documents = tokens, documents
        if model.encoder.image_size is not None:
            source = model.encoder.blank(1, CUDA).repeat(len(rows), 1, 1, 1)
            one = [[1], [1], []]
            source_documents = Documents.packed(one, torch.tensor([[1], [1], [0]])).to(CUDA)
    scored = {name: torch.zeros(2, dtype=torch.long, device=CUDA) for name in model.heads}
    said = model(tokens, source, documents, source_documents, places=scored).states
    assert said.device.type == "cuda" and said.dtype == torch.get_default_dtype()
    return said
