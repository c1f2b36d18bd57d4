"""Token by token gives what whole rows give, for every choice that a decoder's state has to remember."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo import create_model
from zoo.blocks.rows.cache import Cache
from zoo.models.model import Model

EXACT = {"rtol": 1e-9, "atol": 1e-9}
LENGTH = 9
TOKENS = torch.randint(0, 300, (3, LENGTH), generator=torch.Generator().manual_seed(0))
SOURCE = torch.randint(0, 300, (3, 5), generator=torch.Generator().manual_seed(1))
LEFT_PADDED = torch.tensor([[1] * 9, [0] * 4 + [1] * 5, [0] * 2 + [1] * 7])
SOURCE_DOCUMENTS = torch.tensor([[1] * 5, [1, 1, 0, 0, 0], [1] * 4 + [0]])
CHOICES: list[dict[str, Any]] = [
    {},
    {"position": "learned", "block": "pre_norm"},
    {"position": "rotary", "attention.window": 3},
    {"position": "alibi", "attention": {"name": "grouped", "n_kv_heads": 2, "window": [2, None]}},
    {"position": "relative", "attention.sinks": 2, "block": "sandwich"},
    {"position": "none", "attention": {"name": "grouped", "n_kv_heads": 1, "sinks": True, "window": 4}},
    {"position": ["rotary", "none"], "attention.qk_norm": True, "block": "parallel"},
    {"position": {"name": "rotary", "base": [100.0, 5000.0]}, "attention.d_value": 6, "norm": ["layernorm", "rmsnorm"]},
    {"position": "relative", "n_heads": [4, 2], "d_ff": [48, 7]},
    {"position": "relative", "n_heads": [4, 2], "attention.d_key": 8},
    {"position": "rotary", "attention.d_key": [8, 4]},
    {"attention.score": "additive", "position": "rotary"},
    {"mixer": ["recurrent", {"name": "recurrent", "cell": "lstm", "d_state": 5}]},
    {"mixer": ["convolution", {"name": "convolution", "kernel": 2, "dilation": 3, "depthwise": True}]},
    {"mixer": ["recurrent", "convolution", "attention"], "n_layers": 3, "block": "parallel"},
]
SPLITS = [[1] * LENGTH, [4, 1, 1, 3], [LENGTH]]


def build(name: str, choice: dict[str, Any]) -> Model:
    model = create_model(name, **{f"decoder.{key}": value for key, value in choice.items()}).double().eval()
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
    return model


def whole(model: Model, documents: Tensor | None, source_documents: Tensor | None = None) -> Tensor:
    """Logits of whole rows."""
    source = None if model.encoder is None else SOURCE
    return model(TOKENS, source, documents, source_documents).logits


def stepped(model: Model, sizes: list[int], documents: Tensor | None, source_documents: Tensor | None = None) -> Tensor:
    """The same, a few positions at a time."""
    source = None if model.encoder is None else SOURCE
    state, said, start = model.decoder.start(3, model.encode_source(source, source_documents)), [], 0
    for size in sizes:
        new = slice(start, start + size)
        states = model.decoder.step(TOKENS[:, new], None if documents is None else documents[:, new], state)
        said.append(model.heads["language"](states, model.decoder.embeddings.tokens.weight))
        start += size
    return torch.cat(said, dim=1)


@pytest.mark.parametrize("sizes", SPLITS, ids=str)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_steps_of_a_decoder_are_its_whole_rows(choice: dict[str, Any], padded: bool, sizes: list[int]):
    model, documents = build("gpt-nano", choice), LEFT_PADDED if padded else None
    seen = LEFT_PADDED > 0 if padded else torch.ones_like(TOKENS, dtype=torch.bool)
    torch.testing.assert_close(stepped(model, sizes, documents)[seen], whole(model, documents)[seen], **EXACT)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_steps_with_a_memory_are_whole_rows_with_it(choice: dict[str, Any], padded: bool):
    model = build("transformer-nano", choice)
    given = (LEFT_PADDED, SOURCE_DOCUMENTS) if padded else (None, None)
    seen = LEFT_PADDED > 0 if padded else torch.ones_like(TOKENS, dtype=torch.bool)
    torch.testing.assert_close(stepped(model, [2, 1, 6], *given)[seen], whole(model, *given)[seen], **EXACT)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_left_padded_row_says_what_the_row_alone_says(choice: dict[str, Any]):
    model = build("gpt-nano", choice)
    alone = model(TOKENS[1:2, 4:]).logits
    torch.testing.assert_close(stepped(model, [5, 2, 2], LEFT_PADDED)[1:2, 4:], alone, **EXACT)


@pytest.mark.parametrize("name", ["gpt-nano", "transformer-nano"])
@pytest.mark.parametrize("first", [0, 6], ids=["before the first step", "after some steps"])
def test_reordered_rows_continue_as_their_parents(name: str, first: int):
    model, rows = build(name, {"attention.window": 4}), torch.tensor([2, 0, 0])
    memory = model.encode_source(
        None if model.encoder is None else SOURCE, None if model.encoder is None else SOURCE_DOCUMENTS
    )
    state = model.decoder.start(3, memory)
    if first:
        model.decoder.step(TOKENS[:, :first], LEFT_PADDED[:, :first], state)
    model.decoder.reorder(state, rows, rows)
    states = model.decoder.step(TOKENS[rows, first:], LEFT_PADDED[rows, first:], state)
    table = model.decoder.embeddings.tokens.weight
    source_documents = None if model.encoder is None else SOURCE_DOCUMENTS
    expected = whole(model, LEFT_PADDED, source_documents)[rows, first:]
    seen = LEFT_PADDED[rows, first:] > 0
    torch.testing.assert_close(model.heads["language"](states, table)[seen], expected[seen], **EXACT)


def test_sinusoids_go_on_beyond_max_length_step_by_step():
    model = create_model("transformer-nano", max_length=4).double().eval()
    torch.testing.assert_close(stepped(model, [3] * 3, None), whole(model, None), **EXACT)


def test_a_text_beyond_learned_positions_is_refused():
    model = create_model("gpt-nano", max_length=4)
    with pytest.raises(ValueError, match="a text has 9 tokens, but this model learned positions up to 4"):
        model(TOKENS)
    with pytest.raises(ValueError, match="a text has 6 tokens, but this model learned positions up to 4"):
        stepped(model, [3, 3, 3], None)


def test_layers_share_where_a_new_token_goes_in_their_caches(monkeypatch: pytest.MonkeyPatch):
    """On a GPU each layer would start three kernels for it; one with a window has fewer slots."""
    asked: list[int] = []
    slots = Cache.slots
    monkeypatch.setattr(Cache, "slots", lambda cache, *given: asked.append(cache.room) or slots(cache, *given))
    model = create_model("gpt-nano", decoder={"n_layers": 4, "attention": {"name": "full", "window": [3, None]}})
    assert model.decoder is not None
    state = model.decoder.start(len(TOKENS), room=LENGTH)
    for at in range(2):
        model.decoder.step(TOKENS[:, at : at + 1], None, state)
    assert asked == [3, LENGTH] * 2
