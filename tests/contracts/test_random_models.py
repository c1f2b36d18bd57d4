"""Random mixtures of variants, other ones in each layer, keep what each variant keeps alone; `make long` tries 300."""

import copy
import random
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from small_models import DOCUMENTS, SLOTS, SOURCE, SOURCE_DOCUMENTS, TOKENS, VARIANTS
from torch import Tensor

from attending import gpu_backends_on_the_cpu
from zoo import create_model
from zoo.blocks.backends.backend import backends
from zoo.models.attention_backend import attentions, layer_obstacle, layers_of
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import parse_generate
from zoo.models.model import Model

EACH = pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 300))])
EXACT = {"rtol": 1e-8, "atol": 1e-8}
REAL = DOCUMENTS > 0
LEFT_PADDED = torch.tensor([[1] * 10, [0] * 4 + [1] * 6])
PROMPTS, END = [[1, 5, 7], [1]], 2


def mixture(drawn: random.Random, side: str) -> dict[str, Any]:
    """A stack of one to three layers, each slot with one variant for all of them or with one for each."""
    layers = drawn.randint(1, 3)
    sets: dict[str, Any] = {"n_layers": layers, "n_heads": 4}
    for slot in SLOTS:
        known = [choice for name, choice in VARIANTS if name == slot and list not in map(type, choice.values())]
        choices = drawn.choices(known, k=layers)
        sets[slot] = drawn.choice([choices, choices[0]])
    return {f"{side}.{key}": value for key, value in sets.items()}


@cache
def first_drawn(seed: int) -> Model:
    """The first mixture of a seed that is a model at all."""
    drawn = random.Random(seed)
    while True:
        name, *sides = drawn.choice([("gpt-nano", "decoder"), ("transformer-nano", "encoder", "decoder")])
        stacks = {key: value for side in sides for key, value in mixture(drawn, side).items()}
        try:
            model = create_model(name, vocab_size=30, d_model=16, max_length=24, dropout=0.0, **stacks)
        except ValueError:  # such as a number of heads that no layer reads, or learned positions in one layer alone
            continue
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
        return model.double().eval()


def draw(seed: int) -> Model:
    return copy.deepcopy(first_drawn(seed))


def sources(model: Model, source: Tensor, documents: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """What the encoder reads, in a model that has one."""
    return (None, None) if model.encoder is None else (source, documents)


def say(model: Model, tokens: Tensor = TOKENS) -> Tensor:
    """Logits of the packed rows."""
    source, source_documents = sources(model, SOURCE, SOURCE_DOCUMENTS)
    return model(tokens, source, DOCUMENTS, source_documents).logits


@EACH
@torch.no_grad()
def test_packed_a_document_says_what_it_says_alone(seed: int):
    model = draw(seed)
    packed = say(model)
    for row, number in ((0, 1), (0, 2), (0, 3), (1, 1), (1, 2)):
        ours, theirs = DOCUMENTS[row] == number, SOURCE_DOCUMENTS[row] == number
        source, _ = sources(model, SOURCE[row, theirs][None], None)
        torch.testing.assert_close(packed[row, ours], model(TOKENS[row, ours][None], source).logits[0], **EXACT)


@EACH
@torch.no_grad()
def test_a_later_token_changes_nothing_before_it(seed: int):
    model, at = draw(seed), 5
    later = TOKENS.clone()
    later[:, at] = (later[:, at] + 1) % 30
    before, after = say(model), say(model, later)
    torch.testing.assert_close(after[:, :at], before[:, :at], rtol=0, atol=0)
    assert not torch.equal(after[:, at], before[:, at])


@EACH
@torch.no_grad()
def test_steps_are_whole_rows(seed: int):
    model = draw(seed)
    source, source_documents = sources(model, SOURCE, (SOURCE_DOCUMENTS > 0).long())
    whole = model(TOKENS, source, LEFT_PADDED, source_documents).logits
    for sizes in ([1] * 10, [4, 1, 3, 2]):
        state, said = model.decoder.start(2, model.encode_source(source, source_documents)), []
        for tokens, documents in zip(TOKENS.split(sizes, 1), LEFT_PADDED.split(sizes, 1), strict=True):
            states = model.decoder.step(tokens, documents, state)
            said.append(model.heads["language"](states, model.decoder.embeddings.tokens.weight))
        seen = LEFT_PADDED > 0
        torch.testing.assert_close(torch.cat(said, 1)[seen], whole[seen], **EXACT)


def naive(model: Model, prompt: Sequence[int], source: Tensor | None, most: int) -> list[int]:
    """The likeliest tokens, each from all before it at once."""
    written: list[int] = []
    while len(written) < most and END not in written:
        logits = model(torch.tensor([[*prompt, *written]]), source).logits
        written.append(int(logits[0, -1].argmax()))
    return [token for token in written if token != END]


@EACH
@torch.no_grad()
def test_texts_are_those_of_a_naive_loop_and_beams_those_of_a_text_alone(seed: int):
    model = draw(seed)
    source, source_documents = sources(model, SOURCE, (SOURCE_DOCUMENTS > 0).long())
    both = source, source_documents
    alone = [tuple(None if x is None else x[row : row + 1] for x in both) for row in range(len(PROMPTS))]
    lone = [None if source is None else SOURCE[row, SOURCE_DOCUMENTS[row] > 0][None] for row in range(len(PROMPTS))]
    expected = [naive(model, prompt, one, 8) for prompt, one in zip(PROMPTS, lone, strict=True)]
    for fast in (True, False):
        greedy, beams = (parse_generate({"max_new_tokens": 8, "fast": fast, "beams": width}) for width in (1, 3))
        assert [one.tokens for one in generate(model, PROMPTS, greedy, END, *both)] == expected
        together = [one.tokens for one in generate(model, PROMPTS, beams, END, *both)]
        pairs = zip(PROMPTS, alone, strict=True)
        assert together == [generate(model, [prompt], beams, END, *given)[0].tokens for prompt, given in pairs]


@EACH
def test_every_backend_has_the_gradients_of_the_formula(seed: int):
    model = draw(seed)

    def learn(name: str) -> list[Tensor]:
        for layer, attention in zip(layers_of(model), attentions(model), strict=True):
            attention.backend = backends[name if layer_obstacle(backends[name](), layer) is None else "eager"]()
        model.zero_grad()
        logits = say(model)
        logits[REAL].square().mean().backward()
        return [logits.detach()[REAL], *(p.grad for p in model.parameters() if p.grad is not None)]

    with gpu_backends_on_the_cpu(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        expected = learn("eager")
        for name in backends.names():
            torch.testing.assert_close(learn(name), expected, **EXACT)
