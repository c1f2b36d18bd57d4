"""Random models of transformers, of every family: imported they give the same logits, and go back unchanged."""

import json
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from safetensors.torch import load_file
from strangers import DTYPES, STRANGERS, Stranger, look_up
from untold import untold_run

import zoo
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.config_files import config_file
from zoo.hub.exporting.reloading import KeepFloat64, logits_of
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.registry import targets

ROUNDS = settings(max_examples=5, derandomize=True, deadline=None, phases=[Phase.generate])


@torch.no_grad()
def compare(stranger: Stranger, theirs: Any, folder: Path) -> None:
    """Our logits are theirs, in both precisions."""
    ours = zoo.load(folder)
    generator = torch.Generator().manual_seed(1)
    decoder_vocabulary = stranger.sizes.get("decoder_vocab_size", stranger.sizes["vocab_size"])
    tokens = torch.randint(3, decoder_vocabulary, (3, 8), generator=generator)
    both = ours.encoder is not None and ours.decoder is not None
    source = torch.randint(3, stranger.sizes["vocab_size"], (3, 5), generator=generator) if both else None
    given = {"input_ids": tokens} if source is None else {"input_ids": source, "decoder_input_ids": tokens}
    for dtype, tolerance in DTYPES.items():
        kind = getattr(torch, dtype)
        with KeepFloat64() if dtype == "float64" else nullcontext():
            expected = theirs.to(kind)(**given)
        heads = ours.to(kind)(tokens, source).heads
        assert set(heads) == set(stranger.outputs)
        for head, field in stranger.outputs.items():
            wanted = logits_of(expected, field)
            torch.testing.assert_close(heads[head], wanted, atol=tolerance, rtol=tolerance)
    theirs.float()


def check_round_trip(stranger: Stranger, folder: Path, tokenizer: Tokenizer) -> None:
    """What export writes of the imported model is what was imported: every tensor and every key."""
    loaded = load_checkpoint(folder)
    exported = untold_run(loaded, tokenizer)
    config = json.loads((folder / "config.json").read_text())
    target = next(t for t in targets.values() if t.model_type == config["model_type"])
    assert target.obstacle(exported.settings) is None
    chosen = target.native_class(exported.settings)
    assert chosen is not None and chosen.name == stranger.class_name
    before, after = load_file(folder / "model.safetensors"), native_tensors(exported, target, chosen)
    assert before.keys() - set(target.tables) == after.keys() - set(target.tables)
    assert all(torch.equal(before[name], after[name]) for name in after if name not in target.tables)
    written = config_file(exported, target, chosen)
    same_words = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new"}
    flat = flatten(exported.settings)
    telling = [
        key for key in (*target.keys, *chosen.keys) if key.conversion is None or key.conversion.inverse is not None
    ]
    for key in telling:
        value = look_up(config, key.theirs)
        if value is not None and key.merge is None and key.values(flat):
            assert look_up(written, key.theirs) == (same_words.get(value, value) if key.names else value), key.theirs


@pytest.mark.parametrize("name", list(STRANGERS))
def test_random_models_of_transformers_keep_their_logits_their_tensors_and_their_keys(
    name: str, trained: dict[str, Tokenizer]
):
    @ROUNDS
    @given(stranger=STRANGERS[name])
    def check(stranger: Stranger) -> None:
        with TemporaryDirectory() as place:
            folder = Path(place)
            theirs = stranger.save(folder)
            compare(stranger, theirs, folder)
            check_round_trip(stranger, folder, trained["characters"])

    check()
