"""Generate tokens: one loop for every decoder and every way of choosing."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.models.generation.beams import BeamSearch
from zoo.models.generation.sampler import Sampler
from zoo.models.generation.search import Generated, Search
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import Decoder
from zoo.models.model import Model

logger = logging.getLogger(__name__)


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    settings: GenerateSettings,
    end: int | None,
    source: Tensor | None = None,
    source_documents: Tensor | None = None,
    numbers: Sequence[int] | None = None,
) -> list[Generated]:
    """Continue each prompt until its end token or the limit; the model is left in evaluation mode.

    Args:
        prompts: token ids, each beginning with the start token; lengths may differ.
        end: the token that ends a text; None: only the limit does.
        source: what the encoder reads, in a model that has both parts: one row a prompt.
        source_documents: 0 where a source row is empty.
        numbers: of the texts among all that are written, which samples depend on; None: counted from 0.

    Raises:
        ValueError: the model has no decoder with a language head, or a prompt leaves no room.
    """
    decoder = writer(model, prompts)
    room = decoder.max_length
    model.eval()
    # the last token that is written is never read, so it needs no place
    limits = [min(settings.max_new_tokens, room - len(prompt) + 1) for prompt in prompts]
    tokens, documents = pad_left(prompts, model.device)
    state = decoder.start(len(prompts), model.remember(source, source_documents))
    search = started(settings, limits, end, numbers, model.device)
    logits = next_logits(model, decoder.step(tokens, documents, state))
    if search.width > 1:
        copies = torch.arange(len(prompts), device=model.device).repeat_interleave(search.width)
        decoder.reorder(state, copies)
        logits = logits[copies]
    while True:
        chosen, parents = search.choose(logits)
        running = search.running()
        if not any(running):
            break
        if parents is not None:
            decoder.reorder(state, parents)
        if documents is not None:  # what a row reads after its end counts for nothing: its positions are used up
            documents = tokens.new_tensor(running).repeat_interleave(search.width)[:, None]
        logits = next_logits(model, decoder.step(chosen[:, None], documents, state))
    found = search.results()
    full = [len(one.tokens) == most < settings.max_new_tokens for one, most in zip(found, limits, strict=True)]
    if any(full):
        logger.info("%d of %d texts end at the model's max_length (%d tokens), unfinished", sum(full), len(full), room)
    return found


def started(
    settings: GenerateSettings, limits: list[int], end: int | None, numbers: Sequence[int] | None, device: torch.device
) -> Search:
    """Return the search that `settings` asks for, with one text for each of `limits`."""
    if settings.beams > 1:
        return BeamSearch(limits, end, settings, device)
    return Sampler(torch.tensor(numbers or range(len(limits)), device=device), limits, end, settings)


def writer(model: Model, prompts: Sequence[Sequence[int]]) -> Decoder:
    """What continues the prompts.

    Raises:
        ValueError: as `generate`.
    """
    decoder = model.decoder
    if decoder is None or "language" not in model.heads:
        raise ValueError("this model does not generate text: it has no decoder with a language head")
    longest, room = max(map(len, prompts)), decoder.max_length
    if min(map(len, prompts)) < 1 or longest > room:
        raise ValueError(f"a prompt must have 1 to {room} tokens, special tokens included; got {longest}")
    return decoder


def next_logits(model: Model, states: Tensor) -> Tensor:
    """Logits of the token after the last place."""
    assert model.decoder is not None and model.decoder.embeddings is not None
    return model.heads["language"](states[:, -1], model.decoder.embeddings.tokens.weight)


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts as one tensor, padded on the left with document 0; documents are None where nothing is padded."""
    longest = max(map(len, prompts))
    tokens = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
    if all(len(p) == longest for p in prompts):
        return tokens, None
    documents = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    return tokens, documents
