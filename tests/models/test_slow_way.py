"""Generation says what reading every row anew for each token says, whatever a decoder has to remember."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo import create_model
from zoo.blocks.rows.documents import Documents
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import Decoder, Memory, PartInput
from zoo.models.model import Model

END, ROWS = 2, 3
PROMPTS = [[5, 9, 4, 17, 6], [8, 3], [1, 7, 7]]
SOURCE = torch.randint(3, 23, (ROWS, 5), generator=torch.Generator().manual_seed(1))
SOURCE_DOCUMENTS = torch.tensor([[1] * 5, [1, 1, 0, 0, 0], [1] * 4 + [0]])
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("gpt-nano", {}),
    ("gpt2-nano", {}),
    ("gpt-modern-nano", {}),
    ("gpt-modern-nano", {"decoder.attention": {"name": "grouped", "n_kv_heads": 2, "window": [3, None], "sinks": 1}}),
    ("gpt2-nano", {"decoder.attention.window": 1, "decoder.position": "alibi"}),
    ("gpt2-nano", {"decoder.mixer": ["convolution", "recurrent"]}),
    ("transformer-nano", {"decoder.position": "relative"}),
    ("t5-nano", {}),
    ("rnn-seq2seq-nano", {}),
    ("rnn-attention-nano", {}),
    ("captioner-rnn-nano", {}),
    ("captioner-transformer-nano", {}),
]
SETTINGS: list[dict[str, Any]] = [{}, {"beams": 3}, {"temperature": 2.0, "top_k": 9}]


def build(name: str, changes: dict[str, Any]) -> Model:
    """A model whose next tokens are far from uniform, and whose texts end at different times."""
    model = create_model(name, vocab_size=23, dropout=0.0, **changes).initialize(0).eval()
    drawn = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=drawn)
    model.heads["language"].bias = torch.nn.Parameter(2.0 * (torch.arange(23) == END))
    return model


def given(model: Model) -> tuple[list[list[int]], Tensor | None, Tensor | None]:
    """Prompts and sources that fit the model."""
    if model.encoder is None:
        return PROMPTS, None, None
    if model.encoder.image_size is None:
        return [[1]] * ROWS, SOURCE, SOURCE_DOCUMENTS
    pictures = model.encoder.blank(1, "cpu").repeat(ROWS, 1, 1, 1)
    return [[1]] * ROWS, pictures.random_(0, 255, generator=torch.Generator().manual_seed(4)), None


def write(model: Model, end: int | None = END, **settings: Any) -> list[tuple[list[int], Any]]:
    prompts, source, documents = given(model)
    found = generate(model, prompts, GenerateSettings(max_new_tokens=9, **settings), end, source, documents)
    return [(one.tokens, pytest.approx(one.score, abs=1e-4)) for one in found]


class Slow:
    """What a decoder offers for generation, by its forward pass over all positions so far."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def start(self, batch: int, memory: Memory | None = None, room: int | None = None) -> "Slow":
        self.tokens = self.documents = torch.zeros(batch, 0, dtype=torch.long)
        self.memory = memory
        return self

    def step(self, tokens: Tensor, documents: Tensor | None, state: "Slow") -> Tensor:
        documents = torch.ones_like(tokens) if documents is None else documents
        self.tokens = torch.cat([self.tokens, tokens], dim=1)
        self.documents = torch.cat([self.documents, documents], dim=1)
        memory = self.memory
        if memory is not None:
            rows = torch.arange(len(memory.states)).repeat_interleave(len(tokens) // len(memory.states))
            memory = Memory(memory.states[rows], Documents(memory.documents.numbers[rows]), memory.encoder)
        return self.decoder(PartInput(self.tokens, self.documents), memory)[:, -tokens.shape[1] :]

    def reorder(self, state: "Slow", rows: Tensor, sources: Tensor | None = None) -> None:
        self.tokens, self.documents = self.tokens[rows], self.documents[rows]
        if self.memory is not None and sources is not None:
            kept = Documents(self.memory.documents.numbers[sources])
            self.memory = Memory(self.memory.states[sources], kept, self.memory.encoder)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("name", "changes"), FAMILIES, ids=str)
def test_steps_write_what_whole_rows_write(
    name: str, changes: dict[str, Any], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    model = build(name, changes)
    written, slow = write(model, **settings), Slow(model.decoder)
    for method in ("start", "step", "reorder"):
        monkeypatch.setattr(model.decoder, method, getattr(slow, method))
    assert write(model, **settings) == written


@pytest.mark.parametrize(("name", "changes"), FAMILIES, ids=str)
def test_a_model_in_bfloat16_gives_the_scores_of_its_weights_in_float32(name: str, changes: dict[str, Any]):
    model = build(name, changes).bfloat16()
    written = write(model, end=None, beams=2)
    prompts, source, documents = given(model.float())
    for row, (tokens, score) in enumerate(written):
        one = torch.tensor([[*prompts[row], *tokens]])
        sources = [None if x is None else x[row : row + 1] for x in (source, documents)]
        logits = model(one, sources[0], None, sources[1]).logits[0, -10:-1]
        expected = logits.log_softmax(-1).gather(1, one[0, -9:, None]).mean()
        assert score.expected == pytest.approx(expected.item(), abs=0.1)


@pytest.mark.parametrize("beams", [1, 3])
def test_rows_that_have_ended_leave_the_batch(beams: int, monkeypatch: pytest.MonkeyPatch):
    model = build("rnn-seq2seq-nano", {})
    sizes, step = [], model.decoder.step
    monkeypatch.setattr(model.decoder, "step", lambda x, *rest: (sizes.append(len(x)), step(x, *rest))[1])
    lengths = {len(tokens) for tokens, _ in write(model, beams=beams)}
    assert len(lengths) > 1 and sizes[:2] == [ROWS, ROWS * beams] and sizes[-1] < ROWS * beams
