"""A trained run, ready to be used: its model, its tokenizer, and what it was trained to do."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoo.data.ids import NO_ROLES, Roles
from zoo.data.task import Task, read_task
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer, roles_by_id
from zoo.devices.choose import AS_STORED, Placement
from zoo.devices.precision import AUTO
from zoo.examples.form import ModelTraits
from zoo.models.blank import blank
from zoo.models.cost import Bounds, on_meta, parameters
from zoo.models.model import Model
from zoo.models.output import Output
from zoo.models.settings import ModelSettings, parse_settings
from zoo.objectives.mixture import Mixture
from zoo.runs.environment import missing_since
from zoo.runs.saved import SavedRun
from zoo.runs.tensors import finite, load_tensors, refuse, wrong_shapes

SMALL = 2**20  # parameters that cost next to no memory
NO_TOKENIZER = (
    "this checkpoint has no tokenizer, so it reads token ids only (in Python, zoo.load gives the model); "
    "put a tokenizer.json beside its config.json and import it again"
)


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer and task; the first objective says what it is for.

    Args:
        given_tokenizer: None for a model that was imported without one, or that reads pictures and writes nothing.
        special: the roles of a model that was imported without one.
        untrained: heads whose weights are newly initialised: the checkpoint that was imported has no trained ones.
        trained_in: the precision of its training, as that was set.
    """

    model: Model
    given_tokenizer: Tokenizer | None
    task: Task
    mixture: Mixture
    special: Roles = NO_ROLES
    untrained: tuple[str, ...] = ()
    trained_in: str = AUTO

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns texts into ids and back.

        Raises:
            ValueError: the checkpoint has none.
        """
        if not self.stream.has_text:
            raise ValueError("this checkpoint reads images and writes no text, so it has no tokenizer, and needs none")
        if self.given_tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        return self.given_tokenizer

    @property
    def stream(self) -> ModelTraits:
        return stream_of(self.model)

    def refuse_untrained(self, objective: str) -> None:
        """Check that the head of an objective was trained.

        Raises:
            ValueError: it is newly initialised.
        """
        head = self.mixture.members[objective].head
        if head in self.untrained:
            raise ValueError(
                f"the head '{head}' is newly initialised (the imported checkpoint has no trained one), so its "
                f"answers would be random: train it first, with zoo finetune on a task of objective {objective}"
            )

    @torch.no_grad()
    def run(self, **inputs: Any) -> Output:
        """What the model makes of its inputs.

        Raises:
            RuntimeError: it fails.
        """
        with working():
            said: Output = self.model(**inputs)
        return said


@contextmanager
def working() -> Iterator[None]:
    """What has been asked was checked before: a library's ValueError in here is a failure of the work, as in training.

    Raises:
        RuntimeError: in the place of a ValueError, which stands for a wrong request (exit status 2).
    """
    try:
        yield
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def refuse_not_finite(outputs: Iterable[float], what: str = "the model's outputs") -> None:
    """Check what a model gives; training does not ask this, because it logs such numbers and goes on.

    Raises:
        RuntimeError: a number is NaN or infinite.
    """
    if not all(map(math.isfinite, outputs)):
        raise RuntimeError(
            f"{what} are not finite (NaN or infinite): the weights are damaged, or training diverged; "
            "run zoo check on the checkpoint, or use an earlier one"
        )


def stream_of(model: Model) -> ModelTraits:
    """What examples must know of a model."""
    embeddings = model.stream.embeddings
    both = model.encoder is not None and model.decoder is not None
    size = None if model.encoder is None else model.encoder.image_size
    segments = embeddings is not None and model.settings.embeddings.segments > 1
    return ModelTraits(model.stream.causal, both, segments, size)


def settings_of(saved: SavedRun) -> ModelSettings:
    """What a run's model is made of.

    Raises:
        ValueError: config.yaml says something that zoo does not know, perhaps since a package is missing.
    """
    with naming_missing(saved):
        return parse_settings(saved.config, place=str(saved.folder / "config.yaml"))


@contextmanager
def naming_missing(saved: SavedRun) -> Iterator[None]:
    """Let errors about unknown names also say which packages a run was made with that are not here."""
    try:
        yield
    except ValueError as error:
        missing = ", ".join(missing_since(saved.environment))
        if missing and "unknown" in str(error):
            raise ValueError(f"{error}; the run was made with {missing}, not installed here") from None
        raise


def load_run(saved: SavedRun, where: Placement = AS_STORED) -> Loaded:
    """Build a run's model and fill it with the checkpoint's weights.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    settings, weights = settings_of(saved), saved.weights
    finite(weights, str(saved.checkpoint.folder))
    check_sizes(saved, settings, weights)
    model = blank(settings)
    load_tensors(model, weights)
    with naming_missing(saved):
        task = read_task(saved.task, str(saved.folder / "task.yaml"))
        mixture = Mixture.of(task)
    place = str(saved.folder)
    tokenizer = Tokenizer.from_files(saved.tokenizer, place) if BACKEND_FILE in saved.tokenizer else None
    check_vocabulary(tokenizer, settings.vocab_size, place)
    special = NO_ROLES if tokenizer is not None else roles_by_id(saved.tokenizer, settings.vocab_size, place)
    trained_in = saved.training.get("precision", AUTO)
    model = where.move(model.eval())
    return Loaded(model, tokenizer, task, mixture, special, saved.checkpoint.untrained, trained_in)


def check_vocabulary(tokenizer: Tokenizer | str | None, rows: int, place: str) -> None:
    """Refuse a tokenizer, where there is one, with tokens that the model has no vectors for.

    Args:
        rows: how many vectors it has.
    """
    if isinstance(tokenizer, Tokenizer) and tokenizer.vocab_size > rows:
        sizes = f"the tokenizer has {tokenizer.vocab_size} tokens, the model {rows} token embeddings"
        raise ValueError(f"{place}: {sizes}; they do not match")


def check_sizes(saved: SavedRun, settings: ModelSettings, weights: Mapping[str, Tensor]) -> None:
    """Refuse a model that a run's weights cannot fill, before memory is taken for it.

    Raises:
        ValueError: its sizes are not those of the weights.
    """
    Bounds(tensor.numel() for tensor in weights.values()).check(saved.config, str(saved.folder / "config.yaml"))
    model = on_meta(settings)
    refuse(wrong_shapes(model.state_dict(), weights))
    needed, given = parameters(model), sum(tensor.numel() for tensor in weights.values())
    if needed > 2 * given + SMALL:  # what lacks less is named tensor by tensor
        raise ValueError(f"the weights do not fit the model: it has {needed:,} parameters, the checkpoint {given:,}")
