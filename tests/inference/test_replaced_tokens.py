"""Which tokens look replaced, as predictions say it, and what a checkpoint with a generator does beside."""

from typing import Any

import pytest
import torch
from looking import loaded

from zoo.inference.attend import attend
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.inference.predict import predict
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.scores import Scores

SETTINGS = GenerateSettings()
TEXT = "the red cat sleeps"


def electra(suspects: bool, sure: float = 2.0) -> Loaded:
    """A model to which every token, or none, looks replaced; more or less so."""
    model = loaded("electra-nano", "replaced_token")
    with torch.no_grad():
        for parameter in model.model.heads["replaced_token"].output.parameters():  # type: ignore[union-attr]
            parameter.fill_(0.0)
        model.model.heads["replaced_token"].output.bias.fill_(sure if suspects else -sure)  # type: ignore[union-attr]
    return model


def test_what_looks_replaced_has_its_place_in_the_text():
    (found,) = Pipeline(electra(suspects=True))(TEXT)
    assert "".join(one["text"] for one in found["output"]) == TEXT.replace(" ", "")
    assert all(TEXT[one["start"] : one["end"]] == one["text"] for one in found["output"])
    assert found["scores"] == pytest.approx([1 / (1 + torch.e**-2)] * len(found["output"]), abs=1e-5)


def test_each_token_has_its_own_score(monkeypatch: pytest.MonkeyPatch):
    model, ask = electra(suspects=True), Loaded.run
    cat = int(model.tokenizer.encode(["cat"])[0][0])

    def run(self: Loaded, **inputs: Any) -> Any:
        said = ask(self, **inputs)
        said.scores["replaced_token"] = Scores.from_logits((inputs["tokens"] == cat)[..., None] * 4.0 - 2.0)
        return said

    monkeypatch.setattr(Loaded, "run", run)
    found = Pipeline(model)([TEXT, "cats"])
    assert [[one["text"] for one in each["output"]] for each in found] == [["cat"], []]


@pytest.mark.parametrize("sure", [2.0, 0.01])
@pytest.mark.parametrize("text", [TEXT, ""])
def test_where_nothing_looks_replaced_nothing_is_named(text: str, sure: float):
    (found,) = Pipeline(electra(suspects=False, sure=sure))(text)
    assert found["output"] == [] and found["scores"] == []


def test_the_generator_fills_masks():
    (found,) = predict(electra(suspects=True), ["the red [MASK] sleeps"], None, SETTINGS)
    assert isinstance(found.output, str) and "[MASK]" not in found.output and len(found.scores) == 1


def test_a_discriminator_alone_reads_a_mask_like_any_token():
    model = electra(suspects=True)
    alone = loaded("electra-nano", "replaced_token", heads=["replaced_token"])
    assert model.model.generator is not None and alone.model.generator is None
    (found,) = predict(alone, ["the [MASK]"], None, SETTINGS)
    assert isinstance(found.output, list)


def test_a_second_text_is_refused():
    with pytest.raises(ValueError, match="this checkpoint was trained for replaced_token, which reads one text"):
        predict(electra(suspects=True), [TEXT], ["runs"], SETTINGS)


def test_attention_is_that_of_the_discriminator():
    model = electra(suspects=True)
    seen = attend(model, TEXT, None, None, SETTINGS)
    (found,) = seen.maps
    assert found.kind == "encoder.self" and len(found.layers) == model.model.settings.parts["encoder"].settings.n_layers
