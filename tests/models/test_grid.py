"""A picture's grid as a memory: its states, its summary, its weights, and decoders that write about it."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from zoo import create_model
from zoo.blocks.rows.view import View
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.grid import GridSettings, everywhere
from zoo.models.kinds.part import PartInput
from zoo.models.model import Model
from zoo.models.settings import dump_settings, load_settings, parse_settings

PICTURES = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 30, (3, 5), generator=torch.Generator().manual_seed(1))
CAPTIONERS = pytest.mark.parametrize("name", ["captioner-rnn-nano", "captioner-transformer-nano"])
EVERY = pytest.mark.parametrize("name", ["cnn-attention-nano", "captioner-rnn-nano", "captioner-transformer-nano"])
PLACES = 4 * 4


def build(name: str, dtype: torch.dtype = torch.float64, **changes: Any) -> Model:
    model = create_model(name, vocab_size=30, **changes)
    for seed, parameter in enumerate(model.parameters()):
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
    return model.to(dtype).eval()


def inputs(name: str, pictures: Tensor = PICTURES) -> dict[str, Tensor]:
    return {"tokens": TOKENS, "source": pictures} if name.startswith("captioner") else {"tokens": pictures}


def test_a_grid_is_a_memory_with_a_state_for_each_position_and_their_mean_as_its_summary():
    encoder = build("cnn-attention-nano").encoder
    assert encoder is not None
    memory = encoder(PartInput(PICTURES))
    x = PICTURES.double() / 127.5 - 1
    for stage in encoder.stages:
        x = stage(x, View.of(everywhere(x)))
    states = encoder.output(F.relu(encoder.norm(x)).permute(0, 2, 3, 1)).flatten(1, 2)
    assert memory.states.shape == (3, PLACES, 16) and memory.documents.whole
    torch.testing.assert_close(memory.states, states)
    torch.testing.assert_close(memory.summaries(), states.mean(1))


@pytest.mark.parametrize(("side", "last"), [(16, 4), (13, 4), (6, 2)])
def test_the_rows_and_columns_after_each_stage_are_known(side: int, last: int):
    encoder = build("cnn-attention-nano", **{"encoder.image_size": side}).encoder
    assert encoder is not None
    x, found = encoder.blank(1, "cpu").double(), []
    for stage in encoder.stages:
        x = stage(x, View.of(everywhere(x)))
        found.append(tuple(x.shape[2:]))
    assert list(encoder.grids) == found and found[-1] == (last, last)


def test_a_row_without_a_picture_has_no_document():
    encoder = build("captioner-rnn-nano").encoder
    assert encoder is not None
    memory = encoder(PartInput(PICTURES, torch.tensor([[1], [0], [1]])))
    assert memory.documents.numbers.sum(1).tolist() == [PLACES, 0, PLACES]
    torch.testing.assert_close(memory.summaries(), memory.states[[0, 2]].mean(1))


@EVERY
def test_a_picture_says_what_it_says_alone(name: str):
    model = build(name)
    together = model(**inputs(name)).logits
    for row in range(3):
        alone = model(**{key: value[row : row + 1] for key, value in inputs(name).items()}).logits[0]
        torch.testing.assert_close(together[row], alone, rtol=1e-9, atol=1e-9)


@EVERY
def test_every_parameter_gets_a_finite_gradient_and_depends_on_the_picture(name: str):
    model = build(name, torch.float32).train()
    model(**inputs(name)).logits.square().mean().backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    model.eval()
    assert not torch.equal(model(**inputs(name)).logits, model(**inputs(name, PICTURES.flip(3))).logits)


@EVERY
def test_bfloat16_stays_near(name: str):
    model = build(name, torch.float32)
    expected, found = model(**inputs(name)).logits, model.bfloat16()(**inputs(name)).logits
    assert (found.float() - expected).square().mean() < 0.01 * expected.square().mean()


@EVERY
def test_recomputing_the_stages_changes_no_gradient(name: str):
    gradients, runs = [], []
    for on in (False, True):
        model, calls = build(name, dropout=0.0).train(), []
        assert model.encoder is not None
        model.encoder.checkpointing = on
        model.encoder.stages[0].register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        model(**inputs(name)).logits.square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
        runs.append(len(calls))
    assert runs == [1, 2]
    for kept, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(kept, recomputed)


@EVERY
def test_weights_on_request_change_no_logits(name: str):
    model = build(name)
    out = model(**inputs(name), weights=True)
    torch.testing.assert_close(out.logits, model(**inputs(name)).logits, rtol=1e-9, atol=1e-9)
    assert out.weights is not None and len(out.weights["encoder.self"]) == len(model.encoder.stages)


def test_the_weights_of_an_attention_stage_are_over_its_own_grid():
    record = build("cnn-attention-nano")(PICTURES, weights=True).weights["encoder.self"]
    shapes = [None if weights is None else tuple(weights.shape) for weights in record]
    assert shapes == [None, (3, 1, 8 * 8, 8 * 8), None]


@CAPTIONERS
@pytest.mark.parametrize("documents", [None, torch.tensor([[1], [1], [0]])], ids=["plain", "with documents"])
def test_every_word_weighs_every_position_of_the_picture(name: str, documents: Tensor | None):
    model = build(name)
    rows = {} if documents is None else {"documents": documents.expand(-1, 5), "source_documents": documents}
    for weights in model(TOKENS, PICTURES, **rows, weights=True).weights["decoder.cross"]:
        assert weights.shape[2:] == (5, PLACES)
        torch.testing.assert_close(weights[:2].sum(-1), torch.ones_like(weights[:2, ..., 0]))
        assert documents is None or not weights[2].any()


@CAPTIONERS
@pytest.mark.parametrize("beams", [1, 3])
def test_writing_step_by_step_is_scoring_the_whole_text(name: str, beams: int):
    model = build(name)
    settings = GenerateSettings(max_new_tokens=6, beams=beams, length_penalty=0.0)
    written = generate(model, [[2]] * 3, settings, None, PICTURES)
    for row, generated in enumerate(written):
        tokens = torch.tensor([[2, *generated.tokens]])
        logits = model(tokens[:, :-1], PICTURES[row : row + 1]).logits.log_softmax(-1)
        score = logits.gather(2, tokens[:, 1:, None]).sum().item()
        assert generated.score == pytest.approx(score, rel=1e-5)


def test_stages_are_a_list_that_a_file_gives_and_reads_back():
    settings = load_settings("cnn-attention-nano", [(("encoder", "stages"), [{"name": "convolution", "width": 8}])])
    assert [choice.name for choice in settings.encoder.settings.stages] == ["convolution"]
    whole = load_settings("cnn-attention-nano")
    assert parse_settings(dump_settings(whole)) == whole


def test_arithmetic_is_that_of_the_convolutions_of_one_picture():
    stages = [{"name": "convolution", "width": 8, "stride": 2}]
    model = on_meta(load_settings("cnn-attention-nano", [(("encoder", "stages"), stages), (("d_model",), 8)]))
    convolution, output, pooler, head = 64 * 3 * 9 * 8, 64 * 8 * 8, 8 * 8, 8 * 2
    assert flops_per_token(model) == 3 * 2 * (convolution + output + pooler + head)


WRONG = [
    ({"encoder.stages": []}, "stages: a grid needs at least one"),
    ({"encoder.image_size": 0}, "image_size must be at least 1, got 0"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    (
        {"heads": ["masked_lm"]},
        "heads.masked_lm: it scores tokens, but the encoder reads none; allowed: choice, classification",
    ),
    (
        {"encoder.stages": [{"name": "convolution", "width": 8}, {"name": "residual", "width": 12}]},
        r"encoder: stages\[1\]: groups \(8\) must be at least 1 and divide",
    ),
    (
        {"encoder.stages": [{"name": "residual", "width": [8, 16]}]},
        r"encoder: stages\[0\]: stage 'residual': width: expected one value, not a list, got \[8, 16\]",
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=str)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        create_model("cnn-attention-nano", **changes)


def test_pictures_of_another_kind_are_refused():
    model = build("captioner-rnn-nano")
    with pytest.raises(ValueError, match=r"images: expected uint8 \(batch, 3, height, width\).* got uint8 \(3, 1, 16"):
        model(TOKENS, PICTURES[:, :1])


def test_a_kind_of_part_tells_which_of_its_settings_nothing_reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(GridSettings, "unused_settings", lambda _, reads_memory: {"groups": "a reason"}, raising=False)
    with pytest.raises(ValueError, match="encoder.groups: nothing reads it: a reason"):
        build("cnn-attention-nano", **{"encoder.groups": 2})
