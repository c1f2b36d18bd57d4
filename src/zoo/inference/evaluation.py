"""Evaluate a model on a split: the loss of each objective, and the task's metrics."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

import torch

from zoo.batches.collate import MicroBatch, collate, documents_from, encoder_inputs
from zoo.batches.order import Examples, PackedRow
from zoo.data.store.split import Split
from zoo.data.store.store import Progress
from zoo.devices.memory import map_batches
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import METRIC_COLLECTORS, EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import BATCH, SORT_WINDOW
from zoo.inference.predictors.predictor import first_predictor
from zoo.inference.sums import Sums, numbers_of, read_at_once
from zoo.inference.text_generation import GeneratedCounts, TextGeneration, continue_prompts, generate_from_source
from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.metrics.metric import compute
from zoo.models.generation.settings import GenerateSettings

Gather = Callable[[Any], list[Any]]  # a process's value -> the values of all processes


def no_progress(*told: object) -> None:
    """Ignore reports of progress."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluates examples of a split.

    Args:
        examples: the examples to evaluate, all of the split or a sample.
        split: the split, whose rows hold the references.
        batch: rows per forward pass.
        generate: how text is generated, if a metric compares texts.
        process, processes: the index of this process and their number; it takes every `processes`-th batch.
        gather: collects a value from every process.
        between: called before each round of batches, one per process; an exception in it ends the evaluation.
        progress: called with the unit (`examples`, then `texts`), the number done and the total.
        collected: filled, by document, with what the first objective's predictor collects of its examples, or with the
            generated text; None: nothing is collected. If given, an objective without any label gives no metrics; else
            that is an error.
    """

    examples: Examples
    split: Split
    batch: int = BATCH
    generate: GenerateSettings = GenerateSettings()
    process: int = 0
    processes: int = 1
    gather: Gather = lambda mine: [mine]
    between: Callable[[], None] = lambda: None
    progress: Progress = no_progress
    collected: dict[int, list[Any]] | None = None

    def run(self, loaded: Loaded, wanted: Sequence[str]) -> dict[str, float]:
        """Return `examples`, `loss`, `loss/<objective>` and each metric, by name.

        With the task's `by_file`, these are means over the files, and `<file>/<metric>` is added per file.

        Raises:
            ValueError: a metric that no objective offers, or that has no answer to compare.
        """
        files = self.split.by_file if loaded.task.by_file else {}
        parts = {name: self.examples.of_documents(documents) for name, documents in files.items()}
        apart = {name: replace(self, examples=examples) for name, examples in parts.items() if examples.count}
        if len(apart) < 2:
            return self.evaluate_examples(loaded, wanted)
        found = {name: one.evaluate_examples(loaded, wanted, True) for name, one in apart.items()}
        asked = {metric.name for metric in parse_metrics(wanted, loaded.mixture.metrics)}
        if self.collected is None and not asked <= {name for values in found.values() for name in values}:
            return self.evaluate_examples(loaded, wanted)  # its error says why no file has the metric
        return mean_over_files(found, loaded, wanted)

    def evaluate_examples(self, loaded: Loaded, wanted: Sequence[str], lacking: bool = False) -> dict[str, float]:
        """Evaluate all files together; the result is as in `run`.

        Args:
            lacking: whether to leave out the metrics of an objective that has nothing to predict, instead of failing.
        """
        chosen = parse_metrics(wanted, loaded.mixture.metrics)
        members = loaded.mixture.members
        asked = {
            (m.variant.needs, m.objective) for m in chosen if m.metric not in members[m.objective].measured_metrics
        }
        compared = [(needs, objective) for needs, objective in sorted(asked) if needs in METRIC_COLLECTORS]
        total = Sums()
        for sums in self.gather(self.sum_losses(loaded, compared)):
            total.add(sums)
        found: dict[str, float] = {"examples": total.examples}
        terms = total.shares("loss", "count")
        weights = {name: member.weight for name, member in members.items()}
        if terms:
            found["loss"] = sum(weights[name] * value for name, value in terms.items())
        found |= {f"loss/{name}": value for name, value in terms.items()}
        found |= total.shares("right", "asked")
        writes = self.collected is not None and self.examples.form.writes
        texts = self.generated_texts(loaded) if writes or any(m.variant.needs == "texts" for m in chosen) else None
        if lacking or self.collected is not None:
            chosen = [m for m in chosen if total.numbers.get(("count", m.objective))]
        return found | {m.name: self.compute_metric(loaded, m, total, texts) for m in chosen if m.name not in found}

    @torch.no_grad()
    def sum_losses(self, loaded: Loaded, compared: Sequence[tuple[str, str]]) -> Sums:
        """Compute the losses of this process's share of the rows.

        Args:
            compared: the (`Metric.needs`, objective) pairs to gather answers for.
        """
        loaded.model.eval()
        sums, done = Sums(), 0
        self.progress("examples", done, self.examples.count)

        def scored(rows: Sequence[PackedRow]) -> Sums:
            places = self.examples.shape.needed_shape([row.plans for row in rows])
            part = collate(rows, self.examples, len(rows), places).to(loaded.model.device)
            return self.score(loaded, rows, part, compared)

        for number, rows in enumerate(by_length(self.examples.rows_in_order(), self.batch)):
            if number % self.processes == 0:
                self.between()
            if number % self.processes == self.process:
                for found in map_batches(rows, self.batch, scored):
                    sums.add(found)
            done += sum(len(row.plans) for row in rows)
            self.progress("examples", done, self.examples.count)
        return sums

    def score(
        self, loaded: Loaded, rows: Sequence[PackedRow], part: MicroBatch, compared: Sequence[tuple[str, str]]
    ) -> Sums:
        """Run one batch and sum up its losses and answers; add to `collected`."""
        mixture, output = loaded.mixture, loaded.run(**part.inputs, **loaded.mixture.model_arguments)
        targets = mixture.final_targets(part.targets, output.read)
        terms = mixture.terms(output.scores, targets, output.weights)
        sums = Sums(read_at_once(numbers_of(terms)), examples=len(part.examples))
        results = {
            name: ForwardResult(member, rows, part, targets[name], terms[name], output.scores[member.head])
            for name, member in mixture.members.items()
        }
        for needs, name in compared:
            sums.compared[needs, name] = METRIC_COLLECTORS[needs].collect(results[name])
        if self.collected is not None and not self.examples.form.writes:
            first = next(iter(results.values()))
            for plan, one in zip(first.plans, first_predictor(loaded).collect_results(first), strict=True):
                self.collected.setdefault(plan.document, []).append(one)
        return sums

    def generated_texts(self, loaded: Loaded) -> tuple[list[str], list[list[str]]]:
        """Generate a text per document; return the texts of all processes and their references.

        Sources and prompts are truncated as for the loss.
        """
        everyone = self.examples.documents
        mine, written, count = everyone[self.process :: self.processes], dict[int, str](), GeneratedCounts()
        lengths = {plan.document: plan.source_length or plan.length for plan in self.examples.plan(0, mine)}
        longest_first = sorted(mine, key=lambda document: lengths[document], reverse=True)
        self.progress("texts", 0, len(everyone))
        # equally many rounds in every process, so that `between` is called equally often
        for start in range(0, -(-len(everyone) // self.processes), self.batch):
            self.between()
            some = longest_first[start : start + self.batch]
            for found in map_batches(some, self.batch, lambda few: self.generate_batch(loaded, few, count)):
                written |= found
            self.progress("texts", min((start + self.batch) * self.processes, len(everyone)), len(everyone))
        if self.collected is not None:
            self.collected.update({document: [text] for document, text in written.items()})
        texts = [self.examples.form.reference_texts(self.split.rows[document]) for document in mine]
        references = [[t] if isinstance(t, str) else list(t) for t in texts]
        gathered = self.gather(([written[document] for document in mine], references, count))
        total = GeneratedCounts(sum(one.texts for *_, one in gathered), sum(one.full for *_, one in gathered))
        total.warn_unfinished(loaded)
        return [t for texts, *_ in gathered for t in texts], [r for _, refs, _ in gathered for r in refs]

    def generate_batch(self, loaded: Loaded, documents: Sequence[int], counts: GeneratedCounts) -> dict[int, str]:
        """Generate a text for each of some documents, and count them in `counts`."""
        examples, generation = self.examples, TextGeneration(self.generate, counts, documents)
        built = [examples.build(PackedRow(0, (plan,))) for plan in examples.plan(0, documents)]
        if not examples.form.source:
            found = continue_prompts(loaded, [example.prompt.tolist() for row in built for example in row], generation)
        else:
            longest = max(0 if example.source is None else len(example.source) for row in built for example in row)
            source, among = encoder_inputs(built, (len(built), longest), examples.roles.pad, examples.form.traits)
            device, documents_read = loaded.model.device, documents_from(among)
            inputs = torch.from_numpy(source).to(device), documents_read.to(device)
            found = generate_from_source(loaded, *inputs, generation)
        return {n: loaded.tokenizer.decode(new.tokens) for n, new in zip(documents, found, strict=True)}

    def bytes_scored(self, loaded: Loaded) -> int:
        """UTF-8 bytes of the predicted texts; of a truncated text, those of the part that is read."""
        examples, sampled = self.examples, self.examples.subset is not None
        total = int((self.split.bytes[examples.documents] if sampled else self.split.bytes).sum())
        if not (examples.truncates or sampled):
            return total
        for document, plans in groupby(examples.plans(0, examples.documents), lambda plan: plan.document):
            pieces = [piece for plan in plans for piece in examples.form.predicted_pieces(plan)]
            for span, text in examples.form.predicted(examples.lengths, document, self.split.rows[document]):
                own = [p for p in pieces if p.field == span.field and span.start <= p.start and p.stop <= span.stop]
                read = [(piece.start - span.start, piece.stop - span.start) for piece in own]
                if sum(stop - start for start, stop in read) < span.length and isinstance(text, str):
                    total -= len(text.encode()) - loaded.tokenizer.span_bytes(text, read)
        return total

    def compute_metric(
        self, loaded: Loaded, chosen: ChosenMetric, total: Sums, texts: tuple[list[str], list[list[str]]] | None
    ) -> float:
        """Compute one metric.

        Args:
            texts: generated texts and their references; None: no metric needs them.

        Raises:
            ValueError: there is no answer to compare.
        """
        needs = chosen.variant.needs
        if needs == "texts" and texts is not None:
            return compute(chosen.registered, predictions=texts[0], references=texts[1])
        if needs in METRIC_COLLECTORS:
            compared = total.compared.get((needs, chosen.objective))
            if not compared:
                labeled = loaded.mixture.members[chosen.objective].labeled
                why = "no row of this split has a label" if labeled else "nothing in this split is predicted"
                raise ValueError(f"{chosen.name}: {why}, so no answer can be compared")
            given = METRIC_COLLECTORS[needs].arguments(compared, EvaluatedSplit(loaded, self.examples, self.split))
            return compute(chosen.registered, **given)
        wanted = chosen.variant.inputs
        loss, count = (total.numbers[what, chosen.objective] for what in ("likelihood", "count"))
        inputs = {"loss": [loss], "count": [count]}
        if "bytes" in wanted:  # only then, since counting them may read every row again
            inputs["bytes"] = [self.bytes_scored(loaded)]
        return compute(chosen.registered, **{name: inputs[name] for name in wanted})


def mean_over_files(found: Mapping[str, dict[str, float]], loaded: Loaded, wanted: Sequence[str]) -> dict[str, float]:
    """Combine the results of several files: the mean of each number, the sum of `examples`, and each file's metrics."""
    known = dict.fromkeys(name for values in found.values() for name in values)
    each = {name: [values[name] for values in found.values() if name in values] for name in known}
    whole = {name: sum(values) / len(values) for name, values in each.items()}
    names = [metric.name for metric in parse_metrics(wanted, loaded.mixture.metrics)]
    apart = {f"{file}/{name}": values[name] for file, values in found.items() for name in names if name in values}
    return {**whole, "examples": sum(each["examples"]), **apart}


def by_length(rows: Iterator[PackedRow], size: int) -> Iterator[list[PackedRow]]:
    """Yield batches of `size` rows of similar length, the longest first in each window; the last may be smaller."""
    while window := list(islice(rows, min(SORT_WINDOW * size, sys.maxsize))):  # islice takes no larger number
        window.sort(key=lambda row: sum(plan.length + plan.source_length for plan in row.plans), reverse=True)
        yield from (window[start : start + size] for start in range(0, len(window), size))
