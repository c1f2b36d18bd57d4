"""Models that no class of transformers is, in zoo's own: loaded, generated with, trained and saved."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from shell_choices import ALIBI, BOTH, ENCODER, MIXED, MODELS, SCALED, Shelled, load
from torch import Tensor
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.modeling.config import ZooConfig
from zoo.hub.modeling.shell import ZooForCausalLM
from zoo.hub.targets.zoo_target import plain_settings
from zoo.models.settings import load_settings
from zoo.runs.tensors import unique_tensors

PROMPTS = [[9, 10, 11, 12, 13], [14, 15], [16]]


@pytest.mark.parametrize(("name", "sets", "wanted"), MODELS)
def test_any_choice_is_loaded_as_it_was_and_saved_as_it_is(
    shelled: Shelled, tmp_path: Path, name: str, sets: Any, wanted: str
):
    report = shelled(name, sets)
    assert report.class_name == wanted and report.target == "zoo"
    assert report.check.differences["float32"] < 1e-4 and report.check.differences["float64"] < 1e-12
    assert report.check.losses["float64"] < 1e-12
    assert report.check.left == (
        wanted not in ("ZooForNextSentencePrediction", "ZooForSequenceClassification") or "gpt" in name
    )
    first = load(report)
    first.save_pretrained(tmp_path / "again")
    stored = load_file(report.folder / "model.safetensors"), load_file(tmp_path / "again" / "model.safetensors")
    assert stored[0].keys() == stored[1].keys() == unique_tensors(first.zoo_model).keys()
    assert all(torch.equal(tensor, stored[1][key]) for key, tensor in stored[0].items())
    configs = [json.loads((folder / "config.json").read_text()) for folder in (report.folder, tmp_path / "again")]
    assert configs[0]["settings"] == configs[1]["settings"] and "auto_map" not in configs[0]


def left(rows: list[list[int]]) -> dict[str, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


WRITERS = [MODELS[0], MODELS[1], MODELS[2], MODELS[8], MODELS[9], MODELS[11]]


@pytest.mark.parametrize(("name", "sets", "wanted"), WRITERS)
def test_generation_is_the_same_with_a_cache_and_without_and_however_it_is_padded(
    shelled: Shelled, name: str, sets: Any, wanted: str
):
    model = load(shelled(name, sets), dtype=torch.float64)
    ways = ({}, {"num_beams": 3, "num_return_sequences": 2}, {"do_sample": True, "top_k": 9})
    for way in ways:
        said = []
        for use_cache in (True, False):
            torch.manual_seed(3)
            options = {"num_beams": 1, **way, "use_cache": use_cache, "max_new_tokens": 7, "eos_token_id": None}
            said.append(model.generate(**left(PROMPTS), max_length=None, **options))
        assert torch.equal(*said)
    alone = [
        model.generate(**left([row]), max_length=None, max_new_tokens=7, num_beams=1, eos_token_id=None)
        for row in PROMPTS
    ]
    together = model.generate(**left(PROMPTS), max_length=None, max_new_tokens=7, num_beams=1, eos_token_id=None)
    assert all(torch.equal(row[-7:], one[0, -7:]) for row, one in zip(together, alone, strict=True))


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_cache_takes_several_tokens_at_once_and_refuses_to_forget(name: str, shelled: Shelled):
    """Its two names are those of transformers since 5.24 and before; an output has the one of the version at hand."""
    model = load(shelled("gpt2-nano", ALIBI))
    ids = torch.tensor([[9, 10, 11, 12, 13]])
    kept = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
    first = model(ids[:, :2], use_cache=True)
    second = model(ids[:, 2:], **{name: first[kept]}, logits_to_keep=1)
    torch.testing.assert_close(second.logits, model(ids).logits[:, -1:])
    torch.testing.assert_close(model(ids, logits_to_keep=3).logits, model(ids).logits[:, -3:])
    assert second[kept].get_seq_length() == 5 and kept not in model(ids)
    for refused in (second[kept].crop, second[kept].batch_repeat_interleave, second[kept].reset):
        with pytest.raises(ValueError, match="cannot be cropped to fewer tokens"):
            refused(1)
    with pytest.raises(ValueError, match="two names of one thing"):
        model(ids[:, :1], cache=first[kept], past_key_values=first[kept])
    with pytest.raises(ValueError, match="DynamicCache does not fit this model; use_cache=True creates"):
        model(ids, **{name: DynamicCache()})


@pytest.mark.parametrize("rows", [[1], [1, 0]])
def test_a_cache_goes_on_with_the_rows_that_are_chosen_and_their_sources(rows: list[int], shelled: Shelled):
    model = load(shelled("transformer-nano", BOTH))
    source, target = torch.tensor([[9, 10, 3], [11, 12, 3]]), torch.tensor([[2, 20, 21], [2, 22, 23]])
    first = model(source, decoder_input_ids=target[:, :2], use_cache=True)
    cache = first["cache" if "cache" in first else "past_key_values"]
    cache.batch_select_indices(torch.tensor(rows))
    wanted = model(source, decoder_input_ids=target).logits[rows, 2:]
    torch.testing.assert_close(model(decoder_input_ids=target[rows, 2:], cache=cache).logits, wanted)


@pytest.mark.parametrize(("name", "start"), [("gpt2-nano", ALIBI), ("transformer-nano", BOTH)])
def test_generate_goes_on_from_a_cache_of_its_own(name: str, start: tuple[str, ...], shelled: Shelled):
    """A second call that is handed the first one's cache reads what is new, and no token of its prompt twice."""
    model = load(shelled(name, start))
    options = {"num_beams": 1, "do_sample": False, "eos_token_id": None, "max_length": None}
    options["return_dict_in_generate"] = True
    given = {"input_ids": torch.tensor([[9, 10, 11, 12, 13]]), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    whole = model.generate(**given, **options, max_new_tokens=8).sequences
    first = model.generate(**given, **options, max_new_tokens=4)
    kept = "cache" if "cache" in first else "past_key_values"
    said = first.sequences
    if model.config.is_encoder_decoder:
        more = given | {"decoder_input_ids": said, "decoder_attention_mask": torch.ones_like(said)}
    else:
        more = {"input_ids": said, "attention_mask": torch.ones_like(said)}
    second = model.generate(**more, **options, max_new_tokens=4, **{kept: first[kept]})
    assert torch.equal(second.sequences, whole) and second[kept].get_seq_length() == whole.shape[1] - 1


def test_the_loss_counts_what_transformers_counts(shelled: Shelled):
    model = load(shelled("gpt2-nano", ALIBI))
    ids = torch.tensor([[9, 10, 11, 12]])
    labels = torch.tensor([[9, -100, 11, 12]])
    said = model(ids, labels=labels)
    expected = torch.nn.functional.cross_entropy(said.logits[0, 1:3], labels[0, 2:])
    torch.testing.assert_close(said.loss, expected)
    torch.testing.assert_close(model(ids, labels=labels, num_items_in_batch=8).loss, expected / 4)
    assert model(ids, labels=torch.full_like(ids, -100)).loss == 0
    assert len(model(ids, labels=labels, return_dict=False)) == 2


def test_an_answer_that_was_cut_off_does_not_count_as_in_transformers(shelled: Shelled):
    model, ids = load(shelled("bert-nano", {**SCALED, "heads": ["span"]})), torch.tensor([[2, 9, 4], [2, 4, 10]])
    config = transformers.BertConfig(vocab_size=20, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    theirs, said = transformers.BertForQuestionAnswering(config).eval(), model(ids)
    theirs.qa_outputs.register_forward_hook(lambda *_: torch.stack([said.start_logits, said.end_logits], -1))
    for places in ([1, 2], [1, 3], [300, 2], [-1, 2], [-100, 1]):
        labels = {"start_positions": torch.tensor(places), "end_positions": torch.tensor(places[::-1])}
        torch.testing.assert_close(model(ids, **labels).loss, theirs(ids, **labels).loss)


def test_labels_of_a_translation_are_its_inputs_one_position_later(shelled: Shelled):
    model = load(shelled("transformer-nano", BOTH))
    source, labels = torch.tensor([[9, 10, 3], [9, 3, 0]]), torch.tensor([[20, 21, 22, 3], [22, 3, -100, -100]])
    given = {"input_ids": source, "attention_mask": (source != 0).long()}
    inputs = torch.tensor([[2, 20, 21, 22], [2, 22, 3, 0]])
    said = model(**given, labels=labels)
    torch.testing.assert_close(said.logits, model(**given, decoder_input_ids=inputs).logits)
    assert said.loss > 0
    with pytest.raises(ValueError, match="also needs decoder_input_ids or labels"):
        model(**given)


def test_types_of_tokens_are_segments(shelled: Shelled):
    model = load(shelled("bert-nano", SCALED))
    ids, types = torch.tensor([[2, 9, 4, 10, 4]]), torch.tensor([[0, 0, 0, 1, 1]])
    theirs = model(ids, token_type_ids=types)
    ours = model.zoo_model(ids, segments=types).heads
    assert torch.equal(theirs.prediction_logits, ours["masked_lm"])
    assert torch.equal(theirs.seq_relationship_logits, ours["next_sentence"])
    losses = model(ids, token_type_ids=types, labels=ids, next_sentence_label=torch.tensor([1])).loss
    apart = model(ids, token_type_ids=types, labels=ids).loss, theirs.seq_relationship_logits.log_softmax(-1)[0, 1]
    torch.testing.assert_close(losses, apart[0] - apart[1])


def test_a_cache_refuses_types_of_tokens_other_than_the_first():
    settings = load_settings("gpt2-nano", [(("embeddings", "segments"), 2)])
    model = ZooForCausalLM(ZooConfig(settings=plain_settings(settings))).eval()
    ids, types = torch.tensor([[2, 9, 4]]), torch.tensor([[0, 0, 1]])
    with pytest.raises(ValueError, match="token_type_ids: with a cache all tokens are of type 0; pass use_cache=False"):
        model(ids, token_type_ids=types, use_cache=True)
    said = [model(ids, token_type_ids=given, use_cache=True).logits for given in (None, torch.zeros_like(ids))]
    assert torch.equal(*said) and not torch.equal(model(ids, token_type_ids=types).logits, said[0])


def test_token_vectors_that_both_parts_share_stay_one_tensor(shelled: Shelled):
    report = shelled("transformer-nano", BOTH)
    model = load(report)
    encoder, decoder = (part.embeddings.tokens.weight for part in (model.encoder, model.decoder))
    assert encoder is decoder and model.get_input_embeddings().weight is encoder
    assert "decoder.stack.embeddings.tokens.weight" not in load_file(report.folder / "model.safetensors")


def test_half_precision_is_loaded_where_it_is_asked_for(shelled: Shelled, tmp_path: Path):
    model = load(shelled("gpt2-nano", MIXED), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    ids = torch.tensor([[9, 10, 11]])
    said = model(ids, labels=ids)
    exact = torch.nn.functional.cross_entropy(said.logits[0, :2].float(), ids[0, 1:])
    assert said.logits.isfinite().all() and said.loss.dtype == torch.float32
    torch.testing.assert_close(said.loss, exact)
    model.save_pretrained(tmp_path / "half")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "half")
    assert again.dtype == torch.bfloat16
    assert load_checkpoint(tmp_path / "half").model(torch.tensor([[9, 10]])).logits.dtype == torch.float32


def test_the_plain_model_gives_states(shelled: Shelled):
    ids = torch.tensor([[9, 10, 11]])
    report = shelled("transformer-nano", BOTH)
    said = load(report, "AutoModel")(ids, decoder_input_ids=ids[:, :2])
    assert said.last_hidden_state.shape == (1, 2, 12) and said.encoder_last_hidden_state.shape == (1, 3, 12)
    logits = load(report)(ids, decoder_input_ids=ids[:, :2]).logits
    table = load(report).get_input_embeddings().weight
    torch.testing.assert_close(said.last_hidden_state @ table.T, logits)


def test_a_folder_becomes_a_classifier_whose_head_begins_anew(shelled: Shelled, tmp_path: Path):
    report = shelled("bert-nano", {**SCALED, "heads": ["masked_lm"]})
    auto = transformers.AutoModelForSequenceClassification
    torch.manual_seed(0)
    model, faults = auto.from_pretrained(report.folder, num_labels=5, output_loading_info=True)
    assert {name.split(".")[0] for name in faults["missing_keys"]} == {"heads", "pooler"}
    assert {name.split(".")[1] for name in faults["unexpected_keys"]} == {"masked_lm"}
    assert model(torch.tensor([[2, 9, 4]])).logits.shape == (1, 5)
    assert 0 < model.heads["classification"].output.weight.std() < 0.05
    assert not model.heads["classification"].output.bias.any()
    old = load(report).encoder.state_dict()
    assert all(torch.equal(tensor, old[name]) for name, tensor in model.encoder.state_dict().items())
    model.save_pretrained(tmp_path / "classifier")
    assert next(iter(load_checkpoint(tmp_path / "classifier").mixture.members)) == "classification"


@pytest.mark.parametrize("auto", ["AutoModelForSequenceClassification", "AutoModelForTokenClassification"])
def test_two_classes_without_names_which_transformers_does_not_write_are_read(
    auto: str, shelled: Shelled, tmp_path: Path
):
    report = shelled("bert-nano", {**SCALED, "heads": ["masked_lm"]})
    model = getattr(transformers, auto).from_pretrained(report.folder).eval()
    model.save_pretrained(tmp_path / "two")
    assert "id2label" not in json.loads((tmp_path / "two" / "config.json").read_text())
    loaded, ids = load_checkpoint(tmp_path / "two"), torch.tensor([[2, 9, 4]])
    assert loaded.task.labels == ["LABEL_0", "LABEL_1"]
    torch.testing.assert_close(loaded.model(ids).logits, model(ids).logits)


def test_a_model_that_is_made_of_its_config_alone_begins_as_ours_do(shelled: Shelled):
    config = transformers.AutoConfig.from_pretrained(
        shelled("gpt2-nano", {**ALIBI, "heads.language.bias": True}).folder
    )
    tables = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config)
        tables.append(model.get_input_embeddings().weight)
    assert torch.equal(tables[0], tables[2]) and not torch.equal(tables[0], tables[1])
    assert model.decoder.stack.blocks[0].norms["mixer"].weight.eq(1).all()
    assert not model.heads["language"].bias.any()
    assert float(model.get_input_embeddings().weight.detach().std()) == pytest.approx(0.02, rel=0.2)


def test_a_class_for_other_parts_is_refused(shelled: Shelled):
    folder = shelled("bert-nano", {**ENCODER, "heads": ["masked_lm"]}).folder
    with pytest.raises(ValueError, match="ZooForCausalLM has a decoder alone; this model has an encoder alone"):
        transformers.AutoModelForCausalLM.from_pretrained(folder)


def test_what_the_shell_cannot_do_is_refused(shelled: Shelled):
    model = load(shelled("gpt2-nano", MIXED))
    size = model.config.vocab_size
    assert model.resize_token_embeddings(size) is model.get_input_embeddings()
    for wanted, factor, refused in ((7, None, 7), (None, 1 + size, 1 + size), (7, 4, 8)):
        with pytest.raises(
            ValueError, match=f"has {size} token embeddings and cannot be resized to {refused} here; `zoo finetune`"
        ):
            model.resize_token_embeddings(wanted, pad_to_multiple_of=factor)
    with pytest.raises(
        ValueError, match=r"attention_mask: expected one number per token, \(1, 2\); got \(1, 1, 2, 2\)"
    ):
        model(torch.tensor([[9, 10]]), attention_mask=torch.ones(1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"attention_mask: expected one number per token, \(2, 2\); got \(1, 2\)"):
        model(torch.tensor([[9, 10], [9, 10]]), attention_mask=torch.ones(1, 2))
    with pytest.raises(ValueError, match="ZooForCausalLM does not take inputs_embeds, output_attentions"):
        model(None, inputs_embeds=torch.ones(1, 2, 12), output_attentions=True, output_hidden_states=None)
    with pytest.raises(ValueError, match="assisted generation is not supported with stateful models"):
        model.generate(torch.tensor([[9, 10]]), prompt_lookup_num_tokens=2)


def test_activations_computed_again_give_the_same_gradients(shelled: Shelled):
    model = load(shelled("gpt2-nano", ALIBI)).train()
    ids, found = torch.tensor([[9, 10, 11, 12]]), []
    for again in (False, True):
        model.zero_grad()
        (model.gradient_checkpointing_enable if again else model.gradient_checkpointing_disable)()
        torch.manual_seed(0)
        model(ids, labels=ids).loss.backward()
        found.append(model.get_input_embeddings().weight.grad.clone())
        assert model.decoder.checkpointing == model.is_gradient_checkpointing == again
    torch.testing.assert_close(*found)
