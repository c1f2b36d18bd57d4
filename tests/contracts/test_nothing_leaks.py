"""What one document says cannot be told from another one's outputs, loss or gradients: whole models, bit by bit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.blocks.rows.view import Visibility
from zoo.models.create import create_model, list_models
from zoo.models.kinds.part import PARTS
from zoo.models.model import Model

NANO = {name: create_model(name) for name in list_models("*-nano")}
NAMES = [
    name for name, model in NANO.items() if all(part.embeddings is not None for part in model.parts)
]  # no pictures
EACH = pytest.mark.parametrize("name", NAMES)
VOCABULARY = 30
SHORT = [[5, 7, 4], [6, 3, 7]]  # tokens of each document, row by row
SHORT_SOURCES = [[4, 6, 3], [3, 7, 2]]
LONG = [[210, 330, 61]]  # more keys than one block of a fused kernel holds
LONG_SOURCES = [[330, 120, 140]]
OTHER = 2  # the document whose content is replaced


def lay(lengths: list[list[int]], empty: int = 3) -> Tensor:
    """The documents of rows, with empty positions at their ends."""
    most = max(sum(row) for row in lengths) + empty
    rows = [[k for k, length in enumerate(row, 1) for _ in range(length)] for row in lengths]
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])


class Rows(NamedTuple):
    """Packed rows with a source for models that read one."""

    tokens: Tensor
    documents: Tensor
    source: Tensor
    source_documents: Tensor

    @staticmethod
    def draw(lengths: list[list[int]], sources: list[list[int]]) -> "Rows":
        generator = torch.Generator().manual_seed(0)
        documents, source_documents = lay(lengths), lay(sources)
        drawn = [torch.randint(0, VOCABULARY, d.shape, generator=generator) for d in (documents, source_documents)]
        return Rows(drawn[0], documents, drawn[1], source_documents)

    def with_another_content(self) -> "Rows":
        """Other tokens in document 2 of every row, and of its source."""
        tokens, source = (
            torch.where(documents == OTHER, (tokens + 11) % VOCABULARY, tokens)
            for tokens, documents in ((self.tokens, self.documents), (self.source, self.source_documents))
        )
        return self._replace(tokens=tokens, source=source)

    def alone(self, row: int, number: int) -> "Rows":
        """One document of one row, with its source, in a row of its own."""
        ours, theirs = self.documents[row] == number, self.source_documents[row] == number
        one, ones = torch.ones(1, int(ours.sum()), dtype=torch.long), torch.ones(1, int(theirs.sum()), dtype=torch.long)
        return Rows(self.tokens[row, ours][None], one, self.source[row, theirs][None], ones)

    def segments(self) -> Tensor:
        """A sentence pair is one document: segment 0, and 1 from a position inside of each document on."""
        places = torch.arange(self.documents.shape[1]).expand_as(self.documents)
        segments = torch.zeros_like(self.documents)
        for row, number in {(r, int(k)) for r, ks in enumerate(self.documents) for k in ks if k > 0}:
            inside = self.documents[row] == number
            segments[row, inside & (places[row] > places[row, inside].float().mean())] = 1
        return segments


def build(name: str, dtype: torch.dtype = torch.float32) -> Model:
    """The model with parameters that are all different, and dropout."""
    model = create_model(name, vocab_size=VOCABULARY, max_length=400, dropout=0.1)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


class Said(NamedTuple):
    """What a pass says, by head, row and document: its logits and its loss; and the gradients of the input vectors.

    Args:
        vectors: by embedded sequence, the gradients of the token vectors.
    """

    logits: dict[tuple[str, int, int], Tensor]
    losses: dict[tuple[str, int, int], Tensor]
    vectors: list[Tensor]


@contextmanager
def token_vectors(model: Model) -> Iterator[list[Tensor]]:
    """What the token embeddings put out, in the order of the calls: the source first."""
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        out.retain_grad()
        kept.append(out)

    tables = {part.embeddings.tokens for part in model.parts if part.embeddings is not None}
    handles = [table.register_forward_hook(keep) for table in tables]
    yield kept
    for handle in handles:
        handle.remove()


def say(model: Model, rows: Rows, weights: bool = False) -> Said:
    """One forward and backward pass, its dropout drawn from seed 0."""
    torch.manual_seed(0)
    embeddings = model.stream.embeddings
    given: dict[str, Tensor] = {"documents": rows.documents}
    if model.encoder is not None and model.decoder is not None:
        given |= {"source": rows.source, "source_documents": rows.source_documents}
    if embeddings is not None and embeddings.segments is not None:
        given["segments"] = rows.segments()
    with token_vectors(model) as kept:
        heads = model(rows.tokens, **given, weights=weights).heads
        logits = {key: value for name in heads for key, value in by_document(model, name, heads[name], rows)}
        targets = {key: torch.arange(len(value)) % value.shape[-1] for key, value in logits.items()}
        # beside a class more, since one class alone always costs nothing
        against = {key: F.pad(value, (0, 1)) for key, value in logits.items()}
        losses = {key: F.cross_entropy(value, targets[key], reduction="sum") for key, value in against.items()}
        torch.stack(list(losses.values())).sum().backward()
    assert all(vectors.grad is not None for vectors in kept)
    return Said(logits, losses, [vectors.grad for vectors in kept if vectors.grad is not None])


def by_document(model: Model, name: str, logits: Tensor, rows: Rows) -> Iterator[tuple[tuple[str, int, int], Tensor]]:
    """A head's logits of each document; (positions, n)."""
    at = 0
    for row, documents in enumerate(rows.documents):
        for number in documents[documents > 0].unique().tolist():
            scored = logits[at : at + 1] if model.heads[name].scores_documents else logits[row, documents == number]
            yield (name, row, number), scored
            at += 1


def check_nothing_leaks(model: Model, rows: Rows, weights: bool) -> None:
    before, after = say(model, rows, weights), say(model, rows.with_another_content(), weights)
    assert before.logits.keys() == after.logits.keys()
    for head, row, number in before.logits:
        key = (head, row, number)
        same = torch.equal(before.logits[key], after.logits[key]) and torch.equal(before.losses[key], after.losses[key])
        assert same == (number != OTHER), key  # bit by bit
    translates = model.encoder is not None and model.decoder is not None
    streams = [rows.source_documents, rows.documents] if translates else [rows.documents] * len(before.vectors)
    for documents, old, new in zip(streams, before.vectors, after.vectors, strict=True):
        others = (documents != OTHER) & (documents > 0)
        assert torch.equal(old[others], new[others])
        assert not torch.equal(old[documents == OTHER], new[documents == OTHER])
        assert bool(old.isfinite().all()) and not bool(old[documents == 0].any())


@EACH
@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "dropping"])
@pytest.mark.parametrize("weights", [False, True], ids=["sdpa", "eager"])
def test_what_a_document_says_is_nobody_elses_business(name: str, training: bool, weights: bool):
    check_nothing_leaks(build(name).train(training), Rows.draw(SHORT, SHORT_SOURCES), weights)


@EACH
def test_nor_in_rows_longer_than_a_kernels_block(name: str):
    """Attention that shows its weights has no blocks."""
    check_nothing_leaks(build(name).eval(), Rows.draw(LONG, LONG_SOURCES), weights=False)


@EACH
def test_nor_in_bfloat16(name: str):
    check_nothing_leaks(build(name, torch.bfloat16).eval(), Rows.draw(SHORT, SHORT_SOURCES), weights=False)


@EACH
@pytest.mark.parametrize("weights", [False, True], ids=["sdpa", "eager"])
def test_packed_a_document_says_what_it_says_alone(name: str, weights: bool):
    model, rows = build(name).eval(), Rows.draw(SHORT, SHORT_SOURCES)
    packed = say(model, rows, weights)
    for head, row, number in packed.logits:
        alone = say(model, rows.alone(row, number)).logits[(head, 0, 1)]
        difference = (packed.logits[(head, row, number)] - alone).abs().max()
        assert difference <= 1e-6 * alone.abs().max().clamp_min(1)


def test_every_kind_of_part_that_reads_tokens_is_here():
    reached = {type(part) for name in NAMES for part in NANO[name].parts}
    pictures = {type(part) for model in NANO.values() for part in model.parts if part.embeddings is None}
    assert {kinds[kind] for kinds in PARTS.values() for kind in kinds.names()} == reached | pictures


@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "transformer-nano"])
def test_attention_beyond_documents_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    build_mask = Visibility.build_mask

    def as_if_whole(seen: Visibility, window: int | None) -> Tensor | None:
        seen.whole = True
        return build_mask(seen, window)

    monkeypatch.setattr(Visibility, "build_mask", as_if_whole)
    with pytest.raises(AssertionError):
        check_nothing_leaks(build(name).eval(), Rows.draw(SHORT, SHORT_SOURCES), weights=True)
