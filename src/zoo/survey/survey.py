"""What a task's data holds: `zoo check TASK`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.home import home
from zoo.data.ids import ANSWERS, CHOICES
from zoo.data.processes import LARGE, processes_for
from zoo.data.scratch import Scratch
from zoo.data.sources.find import load_rows
from zoo.data.sources.request import RowsRequest
from zoo.data.sources.rows import SplitRows, refuse_unlabeled
from zoo.data.store.store import SHARDS, Progress, StoreRecipe, open_store
from zoo.data.task import Task
from zoo.experiments.request import Pair
from zoo.experiments.resolve import resolve_task_alone
from zoo.experiments.tokenize import filling_of, own_tokenizer
from zoo.objectives.mixture import Mixture
from zoo.survey.guessing import guess_labels
from zoo.survey.near import INSTALL
from zoo.survey.rows import RowTally, SourceSurvey, label_counts
from zoo.survey.sizes import form_for_some_model, scaled_shape, training_refusals, try_sizes
from zoo.survey.tokens import TokenTally, unigram_costs
from zoo.survey.worker import survey_rows

NO_TOKENIZER = "the task names no tokenizer, so tokens are not counted: --set task.tokenizer.name=NAME"


@dataclass(frozen=True)
class TaskSurvey:
    """A task and its data, ready to be surveyed.

    Args:
        rows: split name -> its rows.
        data: the only folder to look for relative files in; None: the usual search (`$ZOO_DATA`, working directory).
    """

    task: Task
    mixture: Mixture
    rows: Mapping[str, SplitRows]
    data: Path | None

    @classmethod
    def find(cls, name: str, sets: Sequence[Pair], data: Path | None) -> "TaskSurvey":
        """Resolve a task and locate its source.

        Raises:
            ValueError: the task is wrong, or a file is missing.
        """
        task = resolve_task_alone(name, sets)
        mixture = Mixture.of(task)
        rows = load_rows(task, mixture.inputs(task.named_inputs), data, forms=mixture.form_columns)
        return cls(task, mixture, rows, data)

    @property
    def first(self) -> str:
        """The split that a model is trained on: train, or the first one if there is no train."""
        return "train" if "train" in self.rows else next(iter(self.rows))

    @property
    def request(self) -> RowsRequest:
        """The request by which another process finds the rows."""
        inputs, data = self.mixture.inputs(self.task.named_inputs), None if self.data is None else str(self.data)
        return RowsRequest(self.task.plain(), inputs, data, forms=self.mixture.form_columns)

    def run(self, progress: Progress) -> dict[str, Any]:
        """Survey the task; returns all statistics as JSON values.

        Raises:
            ValueError: the source cannot be read, or training refuses it.
        """
        refuse_unlabeled(self.rows, self.mixture.labeled)
        columns = self.rows[self.first].inputs
        form = form_for_some_model(self.mixture, columns)
        with Scratch() as scratch:
            source = survey_rows(self.rows, self.request, scratch.folder)
            source.refuse_unknown_labels()
            source.refuse_broken()
            if setting := self.mixture.equal_length_lists.get(CHOICES):
                source.refuse_uneven(setting)
            if setting := self.mixture.nonempty_lists.get(ANSWERS):
                source.refuse_unanswered(setting)
            repetition = describe_repetition(source)
        splits = {name: describe_rows(source.tallies[name], self.rows[name].labels) for name in self.rows}
        found: dict[str, Any] = {"splits": splits, "left_out": source.left_out, **repetition}
        found["guessing_labels"] = guess_labels(source.tallies, self.first, self.rows[self.first].labels)
        found["remarks"] += filter(None, [form.describe_unread(columns)])
        form.check(scaled_shape(self.task, form, 1).limits)
        if not form.texts:
            return found
        if self.task.tokenizer is None:
            return found | {"remarks": [*found["remarks"], NO_TOKENIZER]}
        tokenizer = own_tokenizer(self.task, self.rows, retrain=False)
        tokenizer.add_sentinels(self.mixture.sentinels)
        recipe = StoreRecipe(form.stored_fields_in(self.task.source.language), tokenizer)
        filling = filling_of(self.task, self.rows, self.data, recipe)
        if sum(shard.part.size for shard in filling.missing) >= LARGE:
            filling.fill_together(processes_for(len(filling.missing)))
        opened = open_store(self.rows, recipe.stored, tokenizer, progress)
        self.mixture.refuse_obstacles(opened)  # texts too long for a row are a remark: longer rows fit them
        found["remarks"] += training_refusals(self.task, form, self.mixture, opened)
        tallies = {name: TokenTally(split, form, tokenizer) for name, split in opened.items()}
        for name, tally in tallies.items():
            splits[name] |= {"empty": opened[name].skipped, **describe_tokens(tally)}
        first = tallies[self.first]
        sizes = try_sizes(self.task, form, self.mixture, opened[self.first], tokenizer.roles, first.lengths)
        entropy = describe_entropy(tallies, self.first, source.tallies)
        strangest = first.most_unusual(unigram_costs(first.counts))
        return found | {"row_sizes": sizes, "unigram": entropy, "strangest": strangest, "store": str(home() / SHARDS)}


def describe_rows(tally: RowTally, names: tuple[str, ...]) -> dict[str, Any]:
    """The counts of one split as JSON values."""
    counts = {"rows": tally.rows, "empty": tally.empty, "characters": tally.characters, "bytes": tally.bytes}
    if not tally.numbers.count:
        return counts | ({"labels": label_counts(tally, names)} if tally.labels else {})
    known = {"least": tally.numbers.least, "most": tally.numbers.most, "mean": tally.numbers.mean}
    return counts | {"numbers": known}


def describe_repetition(source: SourceSurvey) -> dict[str, Any]:
    """Exact and near duplicates, within a split and across splits, as JSON values."""
    found, names = source.repeats.find(len(source.names)), source.names
    near = source.near.find()
    rows = {name: tally.rows for name, tally in source.tallies.items()}
    leaks = [
        {"rows": count, "share": count / max(1, rows[names[other]]), "of": names[other], "also_in": names[one]}
        for (one, other), count in found.across.items()
    ]
    exact = {names[split]: count for split, count in found.within.items()}
    shown = [[source.where(place) for place in places] for places in found.shown]
    if near is not None:
        pairs = [[source.where(one), source.where(other), round(alike, 2)] for one, other, alike in near["shown"]]
        near |= {"shown": pairs, "of": source.near.seen}
    remarks = [INSTALL] if near is None else []
    return {"repeated": exact, "leaks": leaks, "repeated_shown": shown, "near": near, "remarks": remarks}


def describe_tokens(tally: TokenTally) -> dict[str, Any]:
    """The token statistics of one split as JSON values."""
    lengths = {name: lengths.describe() for name, lengths in tally.lengths.items()}
    documents = tally.split.lengths.documents
    return {"documents": documents, "tokens": tally.tokens, "unknown": tally.unknown, "lengths": lengths}


def describe_entropy(tallies: Mapping[str, TokenTally], first: str, sources: Mapping[str, RowTally]) -> dict[str, Any]:
    """Per split, the scores of a unigram model: one that knows only each target token's frequency in split `first`.

    Loss in nats per token, perplexity, and bits per byte of text.
    """
    costs = unigram_costs(tallies[first].target_counts)
    found: dict[str, Any] = {}
    for name, tally in tallies.items():
        loss, size = tally.loss(costs), sources[name].bytes if tally.whole else int(tally.split.bytes.sum())
        bits = loss * int(tally.target_counts.sum()) / math.log(2) / size
        found[name] = {"loss": loss, "perplexity": math.exp(loss), "bits_per_byte": bits}
    return found
