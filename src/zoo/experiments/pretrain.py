"""zoo pretrain: train a model from scratch, with a tokenizer trained on the task's text."""

import logging
from collections.abc import Mapping
from pathlib import Path

from zoo.data.sources.rows import SplitRows
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.disk import expand_user, is_file
from zoo.experiments.experiment import Experiment
from zoo.experiments.fill_in import fit_vocabulary
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_pretraining
from zoo.experiments.session import Start, Watcher, run_session
from zoo.experiments.tokenizers import check_tokenizer, train_tokenizer
from zoo.models.model import Model
from zoo.models.settings import ModelSettings
from zoo.models.vectors import refuse_missing, start_from_vectors
from zoo.runs.checkpoint import can_resume
from zoo.runs.files import refuse_unreadable
from zoo.runs.layout import CHECKPOINTS, TOKENIZER
from zoo.runs.request import read_first_changes
from zoo.training.state import State
from zoo.training.weights.adapters import KEY as LORA

logger = logging.getLogger(__name__)


def pretrain(request: Request, watcher: Watcher) -> State:
    """Train a model from scratch.

    Raises:
        ValueError: the request is wrong; nothing is written then.
    """
    if request.resume:
        request = request.repeat(read_first_changes(request.folder))
    experiment = resolve_pretraining(request)
    if experiment.training.lora is not None:
        raise ValueError(f"{LORA}: adapts a trained model, but pretrain starts from random weights; use zoo finetune")
    if experiment.task.columns:
        experiment.mixture.form(experiment.task.columns, experiment.traits)
    if experiment.traits.has_text:
        check_tokenizer(experiment.task)
    vectors = vectors_to_start_from(experiment.model, request)

    def make_tokenizer(settled: Experiment, rows: Mapping[str, SplitRows]) -> Tokenizer:
        with refuse_unreadable(request.folder):
            stored = {name: path.read_bytes() for name in TOKENIZER if is_file(path := request.folder / name)}
        if request.resume and BACKEND_FILE in stored and can_resume(request.folder / CHECKPOINTS):
            return Tokenizer.from_files(stored, str(request.folder))
        tokenizer = train_tokenizer(settled.task, rows["train"])
        tokenizer.add_sentinels(settled.mixture.sentinels)
        return tokenizer

    def fill(model: Model, settled: Experiment, tokenizer: Tokenizer | None) -> None:
        if vectors is not None and tokenizer is not None:
            found, size = start_from_vectors(model, vectors, tokenizer.words())
            logger.info("embeddings: %d of %d tokens (%.1f %%) found in %s", found, size, 100 * found / size, vectors)

    return run_session(request, experiment, Start(make_tokenizer, fit_vocabulary, fill), watcher)


def vectors_to_start_from(settings: ModelSettings, request: Request) -> Path | None:
    """The file of pretrained word vectors to start from; None if none is set, or a checkpoint is resumed.

    Raises:
        ValueError: no such file.
    """
    if settings.embeddings.vectors is None or (request.resume and can_resume(request.folder / CHECKPOINTS)):
        return None
    path = expand_user(settings.embeddings.vectors)
    refuse_missing(path)
    return path
