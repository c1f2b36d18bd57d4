"""A trained run, ready to be used: its model, its tokenizer, and what it was trained to do."""

from dataclasses import dataclass

from zoo.data.task import Task, read_task
from zoo.data.tokenizer import Tokenizer
from zoo.models.model import Model
from zoo.models.settings import parse_settings
from zoo.objectives.form import Stream
from zoo.objectives.mixture import Mixture
from zoo.runs.saved import SavedRun
from zoo.runs.tensors import load_tensors


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer and task; the first objective says what it is for."""

    model: Model
    tokenizer: Tokenizer
    task: Task
    mixture: Mixture

    @property
    def purpose(self) -> str:
        """The name of the first objective."""
        return next(iter(self.mixture.members))

    @property
    def stream(self) -> Stream:
        return stream_of(self.model)


def stream_of(model: Model) -> Stream:
    """What examples must know of a model."""
    embeddings = model.stream.embeddings
    both = model.encoder is not None and model.decoder is not None
    return Stream(model.stream.causal, both, embeddings is not None and embeddings.segments is not None)


def load_run(saved: SavedRun) -> Loaded:
    """Build a run's model and fill it with the checkpoint's weights.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    model = Model(parse_settings(saved.config, place=str(saved.folder / "config.yaml")))
    load_tensors(model, saved.weights)
    task = read_task(saved.task, str(saved.folder / "task.yaml"))
    tokenizer = Tokenizer.from_files(saved.tokenizer, str(saved.folder))
    if tokenizer.vocab_size > model.settings.vocab_size:
        sizes = f"the tokenizer has {tokenizer.vocab_size} tokens, the model {model.settings.vocab_size} token vectors"
        raise ValueError(f"{saved.folder}: {sizes}; they do not belong together")
    return Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
