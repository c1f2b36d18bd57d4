"""Generate tokens: one loop for every decoder and every search."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from zoo.blocks.rows.documents import Documents
from zoo.models.generation.beams import BeamSearch
from zoo.models.generation.captured import CapturedStep, max_remaining_rows, uses_cuda_graphs
from zoo.models.generation.fast import fast_generation
from zoo.models.generation.sampler import Sampler
from zoo.models.generation.search import Generated, Search
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import Decoder
from zoo.models.model import Model

CHECK_EVERY = 8  # steps between checks for finished rows on an asynchronous device, which each check waits for


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    settings: GenerateSettings,
    end: int | None,
    source: Tensor | None = None,
    source_documents: Tensor | Documents | None = None,
    numbers: Sequence[int] | None = None,
) -> list[Generated]:
    """Continue each prompt until its end token or the limit; the model is left in evaluation mode.

    Args:
        prompts: token ids, each beginning with the start token; lengths may differ.
        end: id of the token that ends a text; None: only the limit does.
        source: the encoder's tokens or images, in a model that has both parts: one row per prompt.
        source_documents: of `source`: 0 is padding, 1 the row's source; None: no row is padded.
        numbers: each text's number among all that are generated, which its samples depend on; None: counted from 0.

    Raises:
        ValueError: the model has no decoder with a language head, a prompt is empty or longer than the model reads,
            or the source does not have one row per prompt.
    """
    decoder = generating_decoder(model, prompts)
    model.eval()
    # the last generated token is never read, so it needs no position
    limits = [min(settings.max_new_tokens, decoder.max_length - len(prompt) + 1) for prompt in prompts]
    tokens, documents = pad_left(prompts, model.device)
    search = build_search(settings, limits, end, numbers, model.device)
    with fast_generation(model) if settings.fast else nullcontext():
        memory = model.encode_source(source, source_documents)
        if memory is not None:
            memory.refuse_other_rows(tokens)
        state = decoder.start(len(prompts), memory, tokens.shape[1] + max(limits) - 1)
        logits = build_step(model, state)(tokens, documents)
        if search.width > 1:  # all beams of a row start from its prompt's state
            copies = torch.arange(len(prompts), device=model.device).repeat_interleave(search.width)
            decoder.reorder(state, copies)
            logits = logits[copies]
        found = run_search(model, search, state, logits, max(limits), settings.fast)
    ends = zip(found, limits, strict=True)
    return [one._replace(full=len(one.tokens) == limit < settings.max_new_tokens) for one, limit in ends]


def run_search(model: Model, search: Search, state: Any, logits: Tensor, steps: int, fast: bool) -> list[Generated]:
    """Choose one token per row and read it, step by step; finished rows leave the batch.

    Args:
        logits: of the first new token of each sequence (sequences, vocab_size).
        fast: capture the steps as a CUDA graph where that pays.
    """
    here: Sequence[int] = range(len(search.ended))
    found: dict[int, Generated] = {}
    captured, read = fast and uses_cuda_graphs(model.device, steps), build_step(model, state)
    patience = 1 if model.device.type == "cpu" and not captured else CHECK_EVERY
    if captured:
        assert model.decoder is not None
        model.decoder.settle(state)  # a graph replays fixed addresses, so the state must stay in the same tensors
        read = CapturedStep(read, model.device, steps)
    for step in range(1, steps + 1):
        chosen, parents = search.choose(logits)
        stay = None
        if step % patience == 0 or step == steps:
            # a captured step is captured anew for fewer rows; else rows leave as soon as one is finished
            most = max_remaining_rows(len(here), steps - step) if captured else len(here) - 1
            here, stay = drop_finished(search, here, found, most)
        if not here:
            break
        if stay is not None:
            # indices of the remaining rows' sequences, `width` adjacent ones per row
            kept = (stay[:, None] * search.width + torch.arange(search.width, device=stay.device)).flatten()
            chosen, parents = chosen[kept], kept if parents is None else parents[kept]
        # a finished row that is still in the batch reads padding: it may have used up its positions
        there = None if patience == 1 else (~search.ended).long().repeat_interleave(search.width)[:, None]
        logits = read(chosen[:, None], there, parents, stay)
    return [found[number] for number in range(len(found))]


def build_step(model: Model, state: Any) -> Callable[..., Tensor]:
    """Return a function that reads new tokens of each row and returns the logits of the token after them."""
    decoder = model.decoder
    assert decoder is not None

    def read(
        tokens: Tensor, documents: Tensor | None, parents: Tensor | None = None, sources: Tensor | None = None
    ) -> Tensor:
        if parents is not None:
            decoder.reorder(state, parents, sources)
        return next_logits(model, decoder.step(tokens, documents, state))

    return read


def drop_finished(
    search: Search, here: Sequence[int], found: dict[int, Generated], most: int
) -> tuple[Sequence[int], Tensor | None]:
    """Drop finished rows; return the text numbers of the others, and their rows (None: no row leaves).

    Args:
        here: the text number of each row.
        found: gets the results of the rows that leave, by text number.
        most: rows that may remain; if more would, finished rows do not leave yet.
    """
    ended = search.ended.tolist()
    stay = [row for row, gone in enumerate(ended) if not gone]
    if len(stay) > most:
        return here, None
    results = zip(here, search.results(), ended, strict=True)
    found.update({number: one for number, one, gone in results if gone})
    rows = torch.tensor(stay, dtype=torch.long, device=search.ended.device)
    search.take(rows)
    return [here[row] for row in stay], rows


def build_search(
    settings: GenerateSettings, limits: list[int], end: int | None, numbers: Sequence[int] | None, device: torch.device
) -> Search:
    """Return the search that `settings` asks for, with one text for each of `limits`."""
    if settings.beams > 1:
        return BeamSearch(limits, end, settings, device)
    return Sampler(torch.tensor(numbers or range(len(limits)), device=device), limits, end, settings)


def generating_decoder(model: Model, prompts: Sequence[Sequence[int]]) -> Decoder:
    """Return the decoder that continues the prompts.

    Raises:
        ValueError: the model cannot generate, or a prompt is empty or too long.
    """
    decoder = model.decoder
    if decoder is None or "language" not in model.heads:
        raise ValueError("this model does not generate text: it has no decoder with a language head")
    room = decoder.max_length
    for length in map(len, prompts):
        if not 1 <= length <= room:
            raise ValueError(f"a prompt must have 1 to {room} tokens, special tokens included; got {length}")
    return decoder


def next_logits(model: Model, states: Tensor) -> Tensor:
    """Return the logits (rows, vocab_size) of the token after the last position of states (rows, length, d_model)."""
    assert model.decoder is not None and model.decoder.embeddings is not None
    return model.heads["language"](states[:, -1], model.decoder.embeddings.tokens.weight)


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the prompts, padded on the left (rows, longest), and their documents (0: padding; None: no padding)."""
    longest = max(map(len, prompts))
    tokens = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
    if all(len(p) == longest for p in prompts):
        return tokens, None
    documents = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    return tokens, documents
