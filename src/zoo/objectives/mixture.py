"""The objectives that a run trains together: one head each, one form of example for all."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from zoo.annotations import PerLayer
from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, ModelTraits, forms, inputs
from zoo.objectives.objective import Objective, Term, Weights, objectives
from zoo.registry import refuse_unknown

T = TypeVar("T")
DEFAULT_FORM = "text"  # of objectives that all take any form


class Mixture:
    """Objectives by name, in the order of the file: the first one decides what a checkpoint is for.

    Raises:
        ValueError: two objectives train one head, or no form of example suits all.
    """

    def __init__(self, members: Mapping[str, Objective], place: str = "objective") -> None:
        self.members = dict(members)
        self.place = place
        owners: dict[str, str] = {}
        for name, member in self.members.items():
            if member.head in owners:
                both = f"{owners[member.head]} and {name}"
                raise ValueError(f"{place}: {both} train the same head '{member.head}'; keep one")
            owners[member.head] = name
        named = {name: member.forms for name, member in self.members.items() if member.forms}
        lists = list(named.values()) or [(DEFAULT_FORM,)]
        self.forms = [form for form in lists[0] if all(form in others for others in lists)]
        if not self.forms:
            needed = "; ".join(f"{name} needs the form {' or '.join(found)}" for name, found in named.items())
            raise ValueError(f"{place}: no form of example suits all objectives: {needed}; keep one")
        self.names_by_head = owners

    @staticmethod
    def parse(value: Any, place: str = "objective") -> "Mixture":
        """Read `causal_lm`, or `{masked_lm: {whole_word: true}, next_sentence: {}}`.

        Raises:
            ValueError: an unknown objective or option, a wrong type or value.
        """
        if isinstance(value, str):
            value = {value: {}}
        if not isinstance(value, Mapping) or not value:
            allowed = ", ".join(objectives.names())
            raise ValueError(f"{place}: expected an objective or a map of them, got {value!r}; allowed: {allowed}")
        members = {}
        for name, options in value.items():
            if not isinstance(options, Mapping | None) or (options and "name" in options):
                raise ValueError(f"{place}.{name}: expected a map of options, got {options!r}")
            choice = objectives.parse({"name": name, **(options or {})}, place)
            for key, option in choice.options.items():
                if isinstance(option, PerLayer):
                    raise ValueError(f"{place}.{name}.{key}: an objective has no layers, so a list is not allowed")
            members[str(name)] = choice.build()
        return Mixture(members, place)

    @property
    def heads(self) -> list[str]:
        """The heads that are trained, in order."""
        return list(self.names_by_head)

    @property
    def whole(self) -> bool:
        return any(member.whole for member in self.members.values())

    @property
    def metrics(self) -> dict[str, tuple[str, ...]]:
        """The metrics that each objective offers beside its loss."""
        return {name: member.metrics for name, member in self.members.items()}

    def form(self, columns: Collection[str], stream: ModelTraits) -> Form:
        """The form of the examples, for the columns of the data and what the model makes of its tokens.

        Raises:
            ValueError: a column is unknown or missing, or the model cannot be trained on an objective.
        """
        form = self.form_class(columns)(stream, self.whole)
        self.check(stream, form)
        return form

    def form_class(self, columns: Collection[str]) -> type[Form]:
        """The first form that suits every objective and whose columns the data has."""
        for column in columns:
            refuse_unknown(column, inputs(), "input", "task.columns")
        lacking = {name: [field for field in forms[name].stored.names if field not in columns] for name in self.forms}
        name = next((name for name in self.forms if not lacking[name]), self.forms[-1])
        if lacking[name]:
            given, names = ", ".join(columns), " and ".join(self.members)
            raise ValueError(f"task.columns: '{lacking[name][0]}' is missing, which {names} needs; given: {given}")
        return forms[name]

    def trains(self, stream: ModelTraits) -> bool:
        """Whether the objectives can train such a model, on data of some form."""
        return not all(self.obstacles(stream))

    def check_model(self, stream: ModelTraits) -> None:
        """Refuse a model that the objectives cannot train, whatever the data is.

        Raises:
            ValueError: with the reason for the form that suits the objectives best.
        """
        obstacles = self.obstacles(stream)
        if all(obstacles):
            raise ValueError(obstacles[0])

    def obstacles(self, stream: ModelTraits) -> list[str]:
        """For each form that suits the objectives, why they cannot train such a model on it; '' where they can."""
        found = []
        for name in self.forms:
            try:
                self.check(stream, forms.build(name, stream, self.whole))
                found.append("")
            except ValueError as obstacle:
                found.append(str(obstacle))
        return found

    def check(self, stream: ModelTraits, form: Form) -> None:
        """Refuse a model that an objective cannot train, with the reason."""
        kinds = {True: "a decoder, such as gpt2 or gpt", False: "an encoder alone, such as bert-base"}
        for name, member in self.members.items():
            if member.causal is not None and member.causal != stream.causal:
                needed = kinds[member.causal]
                raise ValueError(f"{self.place}: {name} cannot train this model: {member.why}. It needs {needed}")
        names = " and ".join(self.members)
        if form.pictures and stream.image_size is None:
            example = "captioner-rnn" if form.source else "cnn-attention"
            raise ValueError(f"{self.place}: {names} gives pictures, which this model does not read; {example} does")
        if stream.image_size is not None and not form.pictures:
            raise ValueError(
                f"{self.place}: this model reads pictures, but {names} gives it texts; captioning, or classification "
                "of a column 'image', gives pictures"
            )
        if form.source and not stream.source:
            raise ValueError(f"{self.place}: {names} needs an encoder and a decoder, such as transformer-base")
        if stream.source and not form.source:
            example = "captioning" if form.pictures else "translation"
            raise ValueError(f"{self.place}: {names} gives the model's encoder nothing to read; {example} does")

    def roles(self, form: Form) -> tuple[str, ...]:
        """The roles that a tokenizer needs for the form and for the objectives, each once."""
        own = (role for member in self.members.values() for role in member.roles)
        return tuple(dict.fromkeys([*form.roles, *own]))

    def scored(self, plan: ExamplePlan) -> dict[str, int]:
        """By head, the most places of an example that are scored."""
        return {member.head: member.scored(plan) for member in self.members.values()}

    def capacities(self, length: int) -> dict[str, int]:
        """By head, the most scored places in a row; heads that may score every place are left out."""
        known = {member.head: member.capacity(length) for member in self.members.values()}
        return {head: capacity for head, capacity in known.items() if capacity is not None}

    def annotate(self, example: Example, generator: np.random.Generator, roles: Roles) -> None:
        """Write the places and targets of every objective."""
        for member in self.members.values():
            member.annotate(example, generator, roles)

    @property
    def asks(self) -> dict[str, tuple[str, ...]]:
        """What a model is asked for beside its scores, as keyword arguments."""
        kinds = dict.fromkeys(kind for member in self.members.values() for kind in member.reads_weights)
        return {"weights": tuple(kinds)} if kinds else {}

    def terms(
        self, heads: Mapping[str, Tensor], targets: Mapping[str, Tensor], weights: Weights | None = None
    ) -> dict[str, Term]:
        """By objective, its loss summed and counted."""
        return self.each(lambda member, name: member.term(heads[member.head], targets[name], weights))

    def likelihoods(self, heads: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By objective, the summed -log p(target) without smoothing."""
        return self.each(lambda member, name: member.likelihood(heads[member.head], targets[name]))

    def counts(self, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By objective, how many places are scored; needs no forward pass."""
        return self.each(lambda member, name: member.count(targets[name]))

    def measure(self, heads: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
        """By `<objective>/<metric>`, a sum and a count."""
        measured = self.each(lambda member, name: member.measure(heads[member.head], targets[name]))
        return {f"{name}/{metric}": value for name, found in measured.items() for metric, value in found.items()}

    def each(self, ask: Callable[[Objective, str], T]) -> dict[str, T]:
        return {name: ask(member, name) for name, member in self.members.items()}
