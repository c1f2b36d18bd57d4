"""Claims about strategies: DDP and FSDP2 train the same run and write the same files, on any number of processes."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import losses, settings, tensors
from torch import distributed
from torch.distributed.tensor import DTensor

from zoo.blocks.rows.documents import Documents
from zoo.devices.precision import autocast_to
from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.training.devices.shards import gather_full
from zoo.training.devices.strategy import choose_strategy, shard
from zoo.training.supervision.launch import start_processes
from zoo.training.weights.freezing import freeze

# a large eps: the bias of keys has no gradient but rounding errors, which Adam would blow up
COMMON = {"ema": 0.9, "batch": 6, "eps": 1e-3, "layer_decay": 0.9, "freeze": ["*.blocks.0.norms"]}


@pytest.fixture(scope="module")
def trained(server: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Six steps of the same run in one process, and spread in several ways; all at once."""
    folder = tmp_path_factory.mktemp("strategies")
    ways = {"one": (1, "auto"), "ddp2": (2, "ddp"), "fsdp2": (2, "fsdp"), "fsdp4": (4, "fsdp")}
    ranks = {
        name: server.start(folder / name, count, training={**COMMON, "strategy": strategy})
        for name, (count, strategy) in ways.items()
    }
    for name, each in ranks.items():
        assert set(each.wait()) == {0}, each.said()
        count, strategy = ways[name]
        expected = "one process" if count == 1 else f"{count} processes ({strategy.upper()}, MULTI_CPU)"
        assert each.said().startswith(f"started: {expected} on cpu")
    return {name: folder / name for name in ways}


@pytest.mark.parametrize("name", ["ddp2", "fsdp2", "fsdp4"])
def test_every_strategy_gives_the_losses_and_weights_of_one_process(trained: dict[str, Path], name: str):
    assert losses(trained[name]) == pytest.approx(losses(trained["one"]), abs=1e-5)
    one, other = tensors(trained["one"]), tensors(trained[name])
    assert one.keys() == other.keys()
    for key, tensor in one.items():
        torch.testing.assert_close(other[key], tensor, rtol=1e-3, atol=1e-4)


def test_fsdp_writes_the_files_of_ddp(trained: dict[str, Path]):
    found = [(trained[name] / "checkpoints/6").glob("*.safetensors") for name in ("ddp2", "fsdp2")]
    ddp, fsdp = ({path.name: path.stat().st_size for path in paths} for paths in found)
    assert ddp == fsdp and ddp.keys() == {"weights.safetensors", "optimizer.safetensors", "ema.safetensors"}


def test_a_run_is_resumed_by_the_other_strategy_and_by_one_process(trained: dict[str, Path], server: Any):
    again = {"ddp2": (2, "fsdp"), "fsdp2": (2, "ddp"), "fsdp4": (1, "auto"), "one": (2, "fsdp")}
    ranks = [
        server.start(trained[name], count, training={**COMMON, "steps": 9, "strategy": strategy}, resume=True)
        for name, (count, strategy) in again.items()
    ]
    for each in ranks:
        assert set(each.wait()) == {0}, each.said()
    whole = losses(trained["one"])
    assert len(whole) == 9
    for name in again:
        # sums in another order, nine updates long: 1.1e-5 on a processor without AVX-512
        assert losses(trained[name]) == pytest.approx(whole, abs=5e-5)


def train_sharded_and_whole(
    server: Any, folder: Path, count: int, model: dict[str, Any], training: dict[str, Any]
) -> None:
    """Train over so many processes with FSDP and in one: their losses and weights are the same."""
    one = server.start(folder / "one", 1, training=training, model=model)
    many = server.start(folder / "many", count, training={**training, "strategy": "fsdp"}, model=model)
    for each in (one, many):
        assert set(each.wait()) == {0}, each.said()
    assert losses(folder / "many") == pytest.approx(losses(folder / "one"), abs=1e-5)
    sharded = tensors(folder / "many")
    for key, tensor in tensors(folder / "one").items():
        torch.testing.assert_close(sharded[key], tensor, rtol=1e-3, atol=1e-4)


def test_fsdp_shards_a_norm_of_one_number_over_three_processes(server: Any, tmp_path: Path):
    train_sharded_and_whole(server, tmp_path, 3, {"norm": "scalenorm"}, COMMON)


def test_fsdp_trains_a_head_above_a_frozen_part(server: Any, tmp_path: Path):
    untied = {"heads": [{"name": "language", "tied": False}]}
    train_sharded_and_whole(server, tmp_path, 2, untied, {**COMMON, "ema": None, "freeze": ["decoder"]})


@pytest.fixture
def here() -> Iterator[Any]:
    """This process alone, as the group that shards are spread over."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield SimpleNamespace(device=torch.device("cpu"), num_processes=1)
    distributed.destroy_process_group()


def gradients(model: Model, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    """Of one pass over packed rows, as collating lays them."""
    rows = [[3, 2], [8], []]
    laid = torch.tensor([[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (8 - sum(row)) for row in rows])
    documents, tokens = Documents.packed(rows, laid), torch.arange(24).view(3, 8)
    source = (None, None) if model.encoder is None or model.decoder is None else (tokens, documents)
    with autocast_to(torch.device("cpu"), dtype):
        said = model(tokens, source[0], documents, source[1])
    said.states.float().pow(3).mean().backward()
    return {name: gather_full(p.grad).flatten() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["gpt2-nano", "bert-nano", "transformer-nano", "t5-nano"])
def test_shards_give_the_gradient_of_packed_rows(name: str, here: Any):
    plain, sharded = (create_model(name, dropout=0.0).initialize(0) for _ in range(2))
    shard(sharded, None, here)
    expected, found = gradients(plain, None), gradients(sharded, None)
    assert expected.keys() == found.keys() and expected
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for key, gradient in expected.items():  # a memory's gradients are added up in another order
        torch.testing.assert_close(found[key], gradient, rtol=0, atol=1e-6 * largest)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-nano", {}),
        ("electra-nano", {}),
        ("gpt2-nano", {"heads": [{"name": "language", "tied": False}]}),
        ("transformer-nano", {"heads": [{"name": "language", "tied": False}]}),
        ("rnn-classifier", {"d_model": 8, "embeddings": {"width": 8}}),
        ("cnn-attention-nano", {}),
    ],
)
def test_shards_give_the_gradient_of_heads_above_frozen_parts(name: str, changes: dict[str, Any], here: Any):
    plain, sharded = (create_model(name, dropout=0.0, **changes).initialize(0) for _ in range(2))
    for model in (plain, sharded):
        freeze(model, [part for part, _ in model.named_children() if part not in ("heads", "pooler")])
    shard(sharded, None, here)
    for model in (plain, sharded):
        inputs = [part.blank(4, "cpu") for part in (model.decoder, model.encoder) if part is not None]
        sum(logits.pow(3).mean() for logits in model(*inputs).heads.values()).backward()
    for (key, one), other in zip(plain.named_parameters(), sharded.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None) == (not one.requires_grad), key
        if one.grad is not None:
            assert isinstance(other.grad, DTensor), key  # exchanged: it lies in shards again
            torch.testing.assert_close(gather_full(other.grad), one.grad, rtol=1e-5, atol=1e-7)


def test_blocks_are_gathered_in_bfloat16_and_no_further_from_float32_than_its_products_are(here: Any):
    plain, autocast, narrow = (create_model("gpt-modern-nano", dropout=0.0).initialize(0) for _ in range(3))
    shard(narrow, torch.bfloat16, here)
    seen: dict[str, torch.dtype] = {}
    for key, module in narrow.named_modules():
        module.register_forward_pre_hook(
            lambda module, _, key=key: seen.update(
                {f"{key}.{n}": p.dtype for n, p in module.named_parameters(key, False)}
            )
        )
    exact, usual, found = (
        torch.cat(list(gradients(model, dtype).values()))
        for model, dtype in ((plain, None), (autocast, torch.bfloat16), (narrow, torch.bfloat16))
    )
    assert {dtype for key, dtype in seen.items() if ".blocks." in key} == {torch.bfloat16}
    assert {dtype for key, dtype in seen.items() if ".blocks." not in key} == {torch.float32}
    assert {p.dtype for p in narrow.parameters()} == {found.dtype} == {torch.float32}
    assert 0 < (found - exact).norm() < 1.5 * (usual - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize(
    ("given", "count", "words"),
    [
        ({"strategy": "fsdp"}, 1, "training.strategy: fsdp needs several processes, but one started"),
        ({"strategy": "ddp"}, 1, "training.strategy: ddp needs several processes, but one started"),
        ({"strategy": "fsdp", "micro_batch": "auto"}, 2, "micro_batch: auto does not combine with strategy fsdp"),
        (
            {"strategy": "fsdp", "optimizer": "muon"},
            2,
            "training.optimizer: muon needs whole matrices, and strategy fsdp",
        ),
        ({"strategy": "fsdp", "optimizer": "adafactor"}, 2, "training.optimizer: adafactor needs whole matrices"),
        ({"strategy": "fsdp", "precision": "float16"}, 2, "float16 does not combine with strategy fsdp"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(given: dict[str, Any], count: int, words: str):
    with pytest.raises(ValueError, match=words):
        choose_strategy(settings(**given), count)


def test_the_launchers_own_fsdp_is_refused_for_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ValueError, match="leave out --use_fsdp; --set training.strategy=fsdp shards the model"):
        start_processes(settings(), tmp_path)


def test_the_launchers_own_compiling_is_refused_for_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR")
    with pytest.raises(ValueError, match="set --dynamo_backend no, .*; --set training.compile=true compiles"):
        start_processes(settings(), tmp_path)


def test_a_run_needs_a_compiler_where_it_is_told_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-c++")
    start_processes(settings(), tmp_path)
    with pytest.raises(ValueError, match="training.compile: true on a CPU needs a C"):
        start_processes(settings(compile=True), tmp_path)
