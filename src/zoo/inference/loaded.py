"""A trained run loaded for inference: its model, tokenizer and task."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from zoo.runs.tensors import load_tensors, refuse_faults, require_finite, wrong_shapes

SMALL = 2**20  # parameters, whose memory is negligible
NO_TOKENIZER = (
    "this checkpoint has no tokenizer, so it reads token ids only (in Python, zoo.load gives the model); "
    "put a tokenizer.json beside its config.json and import it again"
)


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer and task; the first objective decides what it predicts by default.

    Args:
        optional_tokenizer: None for a model that was imported without one, or that reads images and writes no text.
        special: the special tokens of a model that was imported without a tokenizer.
        untrained: heads with newly initialized weights, which the imported checkpoint lacks.
        training_precision: the run's `training.precision`.
        data: split name -> hash of the data that the run recorded; empty for another task.
    """

    model: Model
    optional_tokenizer: Tokenizer | None
    task: Task
    mixture: Mixture
    special: Roles = NO_ROLES
    untrained: tuple[str, ...] = ()
    training_precision: str = AUTO
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            ValueError: the checkpoint has none.
        """
        if not self.traits.has_text:
            raise ValueError("this checkpoint reads images and writes no text, so it has no tokenizer, and needs none")
        if self.optional_tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        return self.optional_tokenizer

    @property
    def traits(self) -> ModelTraits:
        """The model's traits that examples depend on."""
        return model_traits(self.model)

    def refuse_untrained(self, objective: str) -> None:
        """Check that the head of an objective was trained.

        Raises:
            ValueError: it is newly initialized.
        """
        head = self.mixture.members[objective].head
        if head in self.untrained:
            raise ValueError(
                f"the head '{head}' is newly initialized (the imported checkpoint has no trained one), so its "
                f"answers would be random: train it first, with zoo finetune on a task of objective {objective}"
            )

    @torch.no_grad()
    def run(self, **inputs: Any) -> Output:
        """Run the model without gradients.

        Raises:
            RuntimeError: the model fails.
        """
        with as_runtime_error():
            output: Output = self.model(**inputs)
        return output


@contextmanager
def as_runtime_error() -> Iterator[None]:
    """Context that turns a ValueError into a RuntimeError.

    A ValueError means a wrong request (exit status 2). Inside this context the request has been checked already, so a
    library's ValueError is a failure of the work (exit status 1).

    Raises:
        RuntimeError: instead of a ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def refuse_not_finite(outputs: Iterable[float], what: str = "the model's outputs") -> None:
    """Check that a model's outputs are finite; training does not, since it logs such numbers and continues.

    Raises:
        RuntimeError: a number is NaN or infinite.
    """
    if not all(map(math.isfinite, outputs)):
        raise RuntimeError(
            f"{what} are not finite (NaN or infinite): the weights are damaged, or training diverged; "
            "run zoo check on the checkpoint, or use an earlier one"
        )


def model_traits(model: Model) -> ModelTraits:
    """A model's traits that examples depend on."""
    embeddings = model.stream.embeddings
    both = model.encoder is not None and model.decoder is not None
    size = None if model.encoder is None else model.encoder.image_size
    segments = embeddings is not None and model.settings.embeddings.segments > 1
    return ModelTraits(model.stream.causal, both, segments, size)


def settings_of(saved: SavedRun) -> ModelSettings:
    """Parse the model settings of a run.

    Raises:
        ValueError: config.yaml has a name that zoo does not know, perhaps because a package is missing.
    """
    with naming_missing_packages(saved):
        return parse_settings(saved.config, place=str(saved.folder / "config.yaml"))


@contextmanager
def naming_missing_packages(saved: SavedRun) -> Iterator[None]:
    """Context that adds to errors about unknown names which packages of the run are not installed here.

    Raises:
        ValueError: the block raised one.
    """
    try:
        yield
    except ValueError as error:
        missing = ", ".join(missing_since(saved.environment))
        if missing and "unknown" in str(error):
            raise ValueError(f"{error}; the run was made with {missing}, not installed here") from None
        raise


def load_run(saved: SavedRun, where: Placement = AS_STORED) -> Loaded:
    """Build a run's model and load the checkpoint's weights.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    settings, weights = settings_of(saved), saved.weights
    require_finite(weights, str(saved.checkpoint.folder))
    check_sizes(saved, settings, weights)
    model = blank(settings)
    load_tensors(model, weights)
    with naming_missing_packages(saved):
        task = read_task(saved.task, str(saved.folder / "task.yaml"))
        mixture = Mixture.of(task)
    place = str(saved.folder)
    tokenizer = Tokenizer.from_files(saved.tokenizer, place) if BACKEND_FILE in saved.tokenizer else None
    check_vocabulary(tokenizer, settings.vocab_size, place)
    special = NO_ROLES if tokenizer is not None else roles_by_id(saved.tokenizer, settings.vocab_size, place)
    training_precision = saved.training.get("precision", AUTO)
    model = where.move(model.eval())
    untrained = saved.checkpoint.untrained
    return Loaded(model, tokenizer, task, mixture, special, untrained, training_precision, saved.data)


def check_vocabulary(tokenizer: Tokenizer | str | None, rows: int, place: str) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings.

    Args:
        tokenizer: None, or the reason why there is none: nothing is checked.
        rows: number of token embeddings.

    Raises:
        ValueError: there are fewer.
    """
    if isinstance(tokenizer, Tokenizer) and tokenizer.vocab_size > rows:
        sizes = f"the tokenizer has {tokenizer.vocab_size} tokens, the model {rows} token embeddings; they do not match"
        resize = f"its resize_token_embeddings({tokenizer.vocab_size}) in transformers"
        raise ValueError(f"{place}: {sizes}. Use the model's own tokenizer, or add embeddings with {resize}")


def check_sizes(saved: SavedRun, settings: ModelSettings, weights: Mapping[str, Tensor]) -> None:
    """Refuse a model whose sizes do not fit a run's weights, before memory is allocated for it.

    Raises:
        ValueError: the sizes do not fit.
    """
    Bounds(tensor.numel() for tensor in weights.values()).check(saved.config, str(saved.folder / "config.yaml"))
    model = on_meta(settings)
    refuse_faults(wrong_shapes(model.state_dict(), weights))
    needed, given = parameters(model), sum(tensor.numel() for tensor in weights.values())
    if needed > 2 * given + SMALL:  # a smaller gap is reported later, tensor by tensor
        raise ValueError(f"the weights do not fit the model: it has {needed:,} parameters, the checkpoint {given:,}")
