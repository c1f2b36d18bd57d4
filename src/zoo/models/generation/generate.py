"""Generate tokens: one loop for every decoder and every way of choosing."""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.models.generation.beams import BeamSearch
from zoo.models.generation.sampler import Sampler
from zoo.models.generation.search import Generated, Search
from zoo.models.generation.settings import GenerateSettings
from zoo.models.model import Model


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    settings: GenerateSettings,
    end: int | None,
    source: Tensor | None = None,
    source_documents: Tensor | None = None,
) -> list[Generated]:
    """Continue each prompt until its end token or the limit; the model is left in evaluation mode.

    Args:
        prompts: token ids, each beginning with the start token; lengths may differ.
        end: the token that ends a text; None: only the limit does.
        source: what the encoder reads, in a model that has both parts: one row a prompt.
        source_documents: 0 where a source row is empty.

    Raises:
        ValueError: the model has no decoder with a language head, or a prompt leaves no room.
    """
    decoder = model.decoder
    if decoder is None or "language" not in model.heads:
        raise ValueError("this model does not generate text: it has no decoder with a language head")
    longest, room = max(map(len, prompts)), decoder.max_length
    if min(map(len, prompts)) < 1 or longest > room:
        raise ValueError(f"a prompt must have 1 to {room} tokens, special tokens included; got {longest}")
    model.eval()
    limit = min(settings.max_new_tokens, room - longest + 1)
    memory = model.remember(source, source_documents)
    tokens, documents = pad_left(prompts, model.device)
    state = decoder.start(len(prompts), memory)
    search = begin(len(prompts), limit, end, settings, model.device)
    states = decoder.step(tokens, documents, state)
    logits = next_logits(model, states)
    if search.width > 1:
        copies = torch.arange(len(prompts), device=model.device).repeat_interleave(search.width)
        decoder.reorder(state, copies)
        logits = logits[copies]
    while True:
        chosen, parents = search.choose(logits)
        if search.done():
            return search.results()
        if parents is not None:
            decoder.reorder(state, parents)
        logits = next_logits(
            model, decoder.step(chosen[:, None], None if documents is None else torch.ones_like(chosen[:, None]), state)
        )


def begin(rows: int, limit: int, end: int | None, settings: GenerateSettings, device: torch.device) -> Search:
    if settings.beams > 1:
        return BeamSearch(rows, limit, end, settings, device)
    return Sampler(rows, limit, end, settings)


def next_logits(model: Model, states: Tensor) -> Tensor:
    """Logits of the token after the last place."""
    assert model.decoder is not None and model.decoder.embeddings is not None
    logits: Tensor = model.heads["language"](states[:, -1], model.decoder.embeddings.tokens.weight)
    return logits


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts as one tensor, padded on the left with document 0; documents are None where nothing is padded."""
    longest = max(map(len, prompts))
    tokens = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
    if all(len(p) == longest for p in prompts):
        return tokens, None
    documents = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    return tokens, documents
