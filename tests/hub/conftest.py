"""Small models with every parameter away from 0 and 1, tokenizers of each kind, and exports checked in this process."""

import functools
import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http
from local_hub import LocalHub, local_hub
from strangers import disturb
from untold import untold

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting import samples, verify
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.samples import TEXTS
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.models.model import Model
from zoo.models.settings import load_settings

# each client reads all certificates anew, most of the time of a test that sends little to this machine alone
ssl.create_default_context = functools.cache(ssl.create_default_context)

KINDS: dict[str, dict[str, Any]] = {
    "wordpiece": {"vocab_size": 190},
    "bpe": {"vocab_size": 150},
    "byte_bpe": {"vocab_size": 290},
    "characters": {"vocab_size": 120},
    "unigram": {"vocab_size": 420, "byte_fallback": True, "normalization": "nfkc"},
}
SMALL = {"d_model": 20, "max_length": 37}
STACK = {"n_layers": 3, "n_heads": 5, "d_ff": 80}


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    """A tokenizer of each kind."""
    choices = {name: tokenizers.parse({"name": name, **options}) for name, options in KINDS.items()}
    return {name: Tokenizer.train(choice, [*TEXTS, *TEXTS]) for name, choice in choices.items()}


def copy_of(tokenizer: Tokenizer) -> Tokenizer:
    """One that a test may add tokens to."""
    return Tokenizer.from_files(tokenizer.files())


Build = Callable[..., TrainedModel]


@pytest.fixture(scope="session")
def build(trained: dict[str, Tokenizer]) -> Build:
    """A small model of a config, changed by `sets` (dotted path -> value), with a tokenizer."""

    def make(
        name: str, sets: dict[str, Any] | None = None, kind: str = "bpe", moved: bool = True, **known: Any
    ) -> TrainedModel:
        both, alone = name.startswith(("transformer", "t5")), "bert" in name or "electra" in name
        sides = ("encoder", "decoder") if both else ("encoder",) if alone else ("decoder",)
        small = {**SMALL, "vocab_size": trained[kind].vocab_size}
        small |= {f"{side}.{key}": value for side in sides for key, value in STACK.items()}
        pairs = [(tuple(path.split(".")), value) for path, value in {**small, **(sets or {})}.items()]
        model = Model(load_settings(name, pairs)).initialize(0)
        return untold(disturb(model) if moved else model, copy_of(trained[kind]), **known)

    return make


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., ExportReport]:
    """Export into a new folder, reloading in this process."""
    return lambda given, target=None: export_model(given, tmp_path / "out", target, reload)


@pytest.fixture
def thorough() -> None:
    """Asks for the checks that a user's export makes."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks of few lines and one short generated text, but for a test that asks for `thorough`."""
    if "thorough" not in request.fixturenames:
        monkeypatch.setattr(samples, "N_TEXTS", 30)
        monkeypatch.setattr(verify, "PROMPTS", 1)
        monkeypatch.setattr(verify, "NEW_TOKENS", 5)


@pytest.fixture(scope="session")
def shells() -> dict[str, ExportReport]:
    """What `shelled` has exported so far, by what it was asked for."""
    return {}


@pytest.fixture
def shelled(
    trained: dict[str, Tokenizer], shells: dict[str, ExportReport], tmp_path_factory: Any, tmp_path: Path
) -> Callable[..., ExportReport]:
    """A copy of a small model's export in zoo's own class, which is made and checked in this process, once."""

    def make(name: str, sets: dict[str, Any], kind: str = "bpe", **known: Any) -> ExportReport:
        asked = repr((name, sets, kind, known))
        if asked not in shells:
            values = {"d_model": 12, "max_length": 37, "vocab_size": trained[kind].vocab_size, **sets}
            settings = load_settings(name, [(tuple(path.split(".")), value) for path, value in values.items()])
            given = untold(disturb(Model(settings).initialize(0)), copy_of(trained[kind]), **known)
            shells[asked] = export_model(given, tmp_path_factory.mktemp("shell") / "out", "zoo", reload)
        return replace(shells[asked], folder=shutil.copytree(shells[asked].folder, tmp_path / "out"))

    return make


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub that the real client talks to over LFS, as somebody who is logged in; nobody waits."""
    with local_hub() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", running.token)
        monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))  # between the client's retries
        monkeypatch.setitem(_http.http_backoff.__kwdefaults__, "max_retries", 1)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)  # it would ask for a list of known agents
        yield running
