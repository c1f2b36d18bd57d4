"""What holds for every registered target: its example goes to transformers and back, and no setting is forgotten."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from strangers import disturb, look_up
from untold import untold, untold_run

from programs import load_program
from zoo.config import parse_set
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import export_model, write_files
from zoo.hub.exporting.reloading import KeepFloat64, logits_of, reload
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.sources.folder import TOKENIZER_CONFIG
from zoo.hub.targets.choose import choose_target, fitting_targets, obstacles
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.key import Key
from zoo.hub.targets.declare.registry import register, targets
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, load_settings
from zoo.registry import REQUIRED

SIZES = {"d_model": 24, "max_length": 37, "n_heads": 4, "d_ff": 96, "n_layers": 3}
CLASSES = [(target, chosen) for target in targets.values() for chosen in target.classes]
every_class = pytest.mark.parametrize(("target", "chosen"), CLASSES, ids=[chosen.name for _, chosen in CLASSES])
every_target = pytest.mark.parametrize("target", targets.values(), ids=list(targets))


def example_settings(target: Target, changed: Mapping[str, Any] = {}) -> ModelSettings:
    """The settings of a target's example, some of them changed (dotted path -> value)."""
    model, *sets = target.example.split()
    more = [(tuple(path.split(".")), value) for path, value in changed.items()]
    return load_settings(model, [*map(parse_set, sets), *more])


def folder_of(target: Target, chosen: NativeClass, tokenizer: Tokenizer, folder: Path) -> Path:
    """What transformers reads of an export of a small model; nothing compares it here."""
    folder.mkdir()
    write_files(folder, small(target, chosen, tokenizer), target, chosen)
    return folder


def small(target: Target, chosen: NativeClass, tokenizer: Tokenizer) -> TrainedModel:
    """A small model of a class, no parameter as it began."""
    sides = {f"{side}.{name}": SIZES[name] for side in target.sides for name in ("n_heads", "d_ff", "n_layers")}
    sizes = {"d_model": SIZES["d_model"], "max_length": SIZES["max_length"], "vocab_size": tokenizer.vocab_size}
    settings = example_settings(target, {**sizes, **sides, "heads": list(chosen.heads)})
    return untold(disturb(Model(settings).initialize(0)), tokenizer, list(chosen.heads))


@every_target
def test_its_example_is_exported_to_it_by_default(target: Target):
    settings = example_settings(target)
    assert choose_target(settings).name == target.name
    assert set(obstacles(settings)) == set(targets) - set(fitting_targets(settings))


@pytest.mark.usefixtures("quick")
@every_class
def test_its_example_is_reloaded_by_transformers_and_imported_back_as_it_was(
    target: Target, chosen: NativeClass, trained: dict[str, Tokenizer], tmp_path: Path
):
    given = small(target, chosen, trained["bpe"])
    report = export_model(given, tmp_path / "hf", target.name, reload)
    assert (report.target, report.class_name) == (target.name, chosen.name)
    assert report.check.differences["float64"] < 1e-11
    loaded = load_checkpoint(tmp_path / "hf")
    before, after = given.model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    again = untold_run(loaded)
    (tmp_path / "again").mkdir()
    write_files(tmp_path / "again", again, target, again.with_special_tokens(chosen))
    for path in (tmp_path / "again").iterdir():
        # decoders that write no text come back without the role of a separator
        assert path.name == TOKENIZER_CONFIG or path.read_bytes() == (tmp_path / "hf" / path.name).read_bytes(), (
            path.name
        )
    assert loaded.tokenizer.role_tokens.items() <= trained["bpe"].role_tokens.items()


@every_class
def test_a_model_that_transformers_made_gives_its_logits(
    target: Target, chosen: NativeClass, trained: dict[str, Tokenizer], tmp_path: Path
):
    folder, cls = folder_of(target, chosen, trained["bpe"], tmp_path / "hf"), getattr(transformers, chosen.name)
    torch.manual_seed(1)
    theirs = cls(cls.config_class.from_pretrained(folder)).eval()
    with torch.no_grad():
        for parameter in filter(lambda parameter: parameter.requires_grad, theirs.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_checkpoint(tmp_path / "theirs").model.double().eval()
    tokens = torch.randint(7, trained["bpe"].vocab_size, (3, 8), generator=torch.Generator().manual_seed(2))
    both = len(target.sides) > 1
    inputs = {"input_ids": tokens.flip(0), "decoder_input_ids": tokens} if both else {"input_ids": tokens}
    if chosen.choices:  # each row is the one choice of an example
        inputs = {"input_ids": tokens[:, None]}
    with torch.no_grad(), KeepFloat64():
        expected = theirs.double()(**inputs)
        found = ours(tokens, tokens.flip(0) if both else None).heads
    for head, field in chosen.heads.items():
        torch.testing.assert_close(
            found[head], logits_of(expected, field, chosen.choices > 0), atol=1e-6, rtol=1e-6
        )  # their sinusoids are float32


@every_target
@torch.no_grad()
def test_a_config_that_changes_which_positions_are_seen_is_refused(
    target: Target, trained: dict[str, Tokenizer], tmp_path: Path
):
    folder = folder_of(target, target.classes[0], trained["bpe"], tmp_path / "hf")
    cls, path = getattr(transformers, target.classes[0].name), folder / "config.json"
    config = json.loads(path.read_text())
    tokens = torch.randint(7, trained["bpe"].vocab_size, (1, 8), generator=torch.Generator().manual_seed(2))
    field = [*target.classes[0].heads.values()][0].removesuffix("[]")
    asked = {"input_ids": tokens} | ({"decoder_input_ids": tokens} if len(target.sides) > 1 else {})
    before = getattr(cls.from_pretrained(folder).eval()(**asked), field)
    for said in (False, True):
        path.write_text(json.dumps({**config, "is_causal": said}))
        after = getattr(cls.from_pretrained(folder).eval()(**asked), field)
        if torch.equal(before, after) and len(target.sides) == 1:  # it is so anyway, or GPT-1's code asks nobody
            load_checkpoint(folder)
            continue
        with pytest.raises(ValueError, match="is_causal is (false|true); zoo imports .* only (with|without) "):
            load_checkpoint(folder)


@every_target
def test_every_key_has_the_default_of_its_config_class(target: Target):
    theirs = transformers.CONFIG_MAPPING[target.model_type]()
    declared: list[Key] = [*target.keys, *(key for chosen in target.classes for key in chosen.keys)]
    for key in declared:
        assert key.default is not REQUIRED, key.theirs
        if key.null_means is None and hasattr(theirs, key.theirs.split(".")[0]):
            assert key.default == look_up(theirs, key.theirs), key.theirs


@every_target
def test_every_constant_is_a_default_or_is_said_to_be_lenient(target: Target):
    theirs = transformers.CONFIG_MAPPING[target.model_type]().to_dict()
    demanded = {key: value for key, value in target.constants.items() if key not in target.lenient}
    assert {key: look_up(theirs, key) for key in demanded} == demanded


@every_target
def test_no_setting_of_a_stack_is_forgotten(target: Target):
    """Every option of every slot of a stack is either demanded, written or known to act in training only."""
    free = {"dropout", "kind"}  # training only, or checked elsewhere
    derived = {f"{side}.{name}" for side in ("encoder", "decoder") for name in ("layers", "attention.n_kv_heads")}
    paths = [path for key in target.keys for path in key.paths] + [r.path for r in target.requirements]
    spoken = {path.partition(" in ")[0] for path in paths} | derived
    for path in flatten(example_settings(target)):
        of_stack = path.startswith(("encoder.", "decoder.")) and " in " not in path
        if of_stack and path.split(".")[-1] not in free:
            assert path in spoken, f"{target.name} says nothing of {path}"


@every_class
def test_no_option_of_a_head_is_forgotten(target: Target, chosen: NativeClass):
    """Every option is demanded, written, or decides whether a tensor is there; others act in training only."""
    demanded = {r.path for r in chosen.requirements} | {path for k in chosen.keys for path in k.paths}
    spoken = demanded | {r.when[0] for r in chosen.renames if r.when is not None}
    for head in chosen.heads:
        options = {f"heads.{head}.{option}" for option in heads.options(head)} - {f"heads.{head}.labels"}
        missing = {path for path in options - spoken if not path.endswith((".dropout", "_width", "_depth"))}
        assert not missing, f"{target.name} ({chosen.name}) says nothing of {', '.join(missing)}"
    if any(rename.ours[0].startswith("pooler.") for rename in chosen.renames):
        assert {"pooler.activation", "pooler.norm", "pooler.bias", "pooler.mean"} <= demanded
    if "encoder" in target.sides and any(heads[head].pools_positions for head in chosen.heads):
        assert "pooler.places" in demanded


@every_target
def test_every_other_name_of_a_key_that_its_config_class_reads_is_read(target: Target):
    assert transformers.CONFIG_MAPPING[target.model_type].attribute_map.items() <= target.aliases.items()


@every_class
def test_tied_embeddings_are_demanded_where_a_head_scores_tokens_of_the_vocabulary(target: Target, chosen: NativeClass):
    if "tie_word_embeddings" in target.constants:
        free = {"masked_lm", "language"}.isdisjoint(chosen.heads)
        assert ("tie_word_embeddings" in chosen.ignored_constants) == free


INV_FREQ = ("model.layers.0.self_attn.rotary_emb.inv_freq",)
OLD = {  # tensors of published files that are no weights
    "bert": ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),
    "electra": ("electra.embeddings.position_ids",),
    "gpt2": ("transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"),
    "openai-gpt": ("transformer.h.0.attn.bias", "transformer.position_ids"),
    **{name: INV_FREQ for name in ("llama", "mistral", "qwen3")},
    "t5": ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
}


@pytest.mark.parametrize("name", OLD)
def test_tensors_of_old_files_that_are_no_weights_are_left_out(
    name: str, trained: dict[str, Tokenizer], tmp_path: Path
):
    target = targets[name]
    folder = folder_of(target, target.classes[0], trained["bpe"], tmp_path / "hf")
    before = load_checkpoint(folder).model.state_dict()
    old = {tensor: torch.zeros(1) for tensor in OLD[name]}
    save_file(load_file(folder / "model.safetensors") | old, folder / "model.safetensors", {"format": "pt"})
    after = load_checkpoint(folder).model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"target 'gpt2' \(gpt2\): 'gpt2' is already registered"):
        register(targets["gpt2"])


def test_the_program_that_compares_versions_of_transformers_makes_an_export_for_them(trained: dict[str, Tokenizer]):
    program, marian = load_program("benchmarks/transformers_versions.py"), targets["marian"]
    assert program.check_versions(marian, marian.classes[0], trained["bpe"], pythons=[]) == []
