"""The objectives that a run trains together: each has its own head, and all share one form of examples."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from zoo.data.ids import LABEL, Roles, StoredFields
from zoo.data.store.split import Split
from zoo.data.task import Task, read_objectives
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits, forms, inputs
from zoo.examples.randomness import Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Objective, Term, Weights, objectives
from zoo.wording import refuse_unknown

# by `causal`
KINDS = {True: "a decoder, such as gpt2 or gpt", False: "an encoder without a decoder, such as bert-base"}
WRITES = "language"  # the head that generates text
MOST = 1 << 62
BOUNDLESS = Limits(MOST, MOST, MOST)


class Mixture:
    """Objectives by name, in the order of the task file; the first one decides the task of the checkpoint.

    Raises:
        ValueError: two objectives train the same head, or no form of examples suits all.
    """

    def __init__(self, members: Mapping[str, Objective]) -> None:
        self.members = dict(members)
        owners: dict[str, str] = {}
        for name, member in self.members.items():
            if member.head in owners:
                both = f"{owners[member.head]} and {name}"
                raise ValueError(f"objective: {both} train the same head '{member.head}'; keep one")
            owners[member.head] = name
        named = {name: member.forms for name, member in self.members.items() if member.forms}
        lists = list(named.values()) or [member.prefers for member in self.members.values()]
        self.forms = [form for form in lists[0] if all(form in others for others in lists)]
        if not self.forms:
            needed = "; ".join(f"{name} needs the form {' or '.join(found)}" for name, found in named.items())
            raise ValueError(f"objective: no form of example suits all objectives: {needed}; keep one")
        self.names_by_head = owners

    def refuse_generate(self) -> None:
        """Refuse `generate` settings for objectives that do not generate text.

        Raises:
            ValueError: no objective trains the language head.
        """
        if WRITES not in self.names_by_head:
            trained, verb = " and ".join(self.members), "generates" if len(self.members) == 1 else "generate"
            raise ValueError(f"generate.…: {trained} {verb} no text, so this has no effect; leave it out")

    @staticmethod
    def parse(value: Any) -> "Mixture":
        """Read `causal_lm`, or `{masked_lm: {whole_word: true}, next_sentence: {}}`.

        Objectives that must be trained with a named one (`Objective.trained_with`) are added at the end.

        Raises:
            ValueError: an unknown objective or option, a wrong type or value.
        """
        given = dict(read_objectives(value, "objective"))
        for name in list(given):
            for other, options in objectives[name].trained_with.items():
                given[other] = {**options, **given.pop(other, {})}
        return Mixture({name: objectives.build({"name": name, **options}) for name, options in given.items()})

    @staticmethod
    def of(task: Task) -> "Mixture":
        """Build the objectives of a task and tell them the kind and the names of its labels.

        Raises:
            ValueError: as `parse`; or no objective supports this kind of labels.
        """
        found = Mixture.parse(task.objective)
        asked = [member.take_labels(task.label_kind, task.labels or ()) for member in found.members.values()]
        if task.label_kind != "one" and not any(asked):
            able = ", ".join(name for name in objectives.names() if objectives.build(name).take_labels("one"))
            names = " and ".join(found.members)
            raise ValueError(f"task.labels: {names} takes no labels of kind {task.label_kind}; allowed: {able}")
        return found

    @property
    def heads(self) -> list[str]:
        """The trained heads, in order."""
        return list(self.names_by_head)

    @property
    def labeled(self) -> list[str]:
        """The names of the objectives that learn from the column 'label'."""
        return [name for name, member in self.members.items() if member.labeled]

    def document_length(self, task: Task) -> int:
        """Maximum length of a document (tokens): an example's, or its share of a row if examples have several."""
        longest = max(task.example_length)
        named = [forms[name] for member in self.members.values() for name in member.forms]
        form = min(named, key=lambda form: form.documents, default=Form)
        room = task.row_length.target // form.documents
        return min(longest, room) if form.documents > 1 and room >= form.min_length else longest

    @property
    def whole(self) -> bool:
        """Whether a document must stay one example."""
        return any(member.whole for member in self.members.values())

    @property
    def metrics(self) -> dict[str, tuple[str, ...]]:
        """The metrics that each objective offers beside its loss."""
        return {name: member.available_metrics for name, member in self.members.items()}

    def inputs(self, named: Collection[str]) -> list[str]:
        """The inputs to read: those of the objectives, and those whose columns the task names (`Task.named_inputs`)."""
        read = {*named, *(column for name in self.forms for column in forms[name].stored.columns)}
        return [name for name in inputs() if name in read or (name == LABEL and self.labeled)]

    @property
    def form_columns(self) -> list[list[str]]:
        """The columns of each form that suits every objective; data that has those of several is read in the first."""
        return [list(forms[name].stored.columns) for name in self.forms]

    def form(self, columns: Collection[str], traits: ModelTraits) -> Form:
        """Choose and build the form of the examples from the data's columns and the model's traits.

        Raises:
            ValueError: a column is unknown or missing, or the model cannot be trained on an objective.
        """
        form = self.build_form(self.form_name(columns), traits)
        if obstacle := self.obstacle_on(form):
            raise ValueError(obstacle)
        return form

    def form_class(self, columns: Collection[str]) -> type[Form]:
        """The first form that suits every objective and whose columns the data has."""
        return forms[self.form_name(columns)]

    def build_form(self, name: str, traits: ModelTraits) -> Form:
        """Build a form with the options that the objectives set."""
        asked = {key: value for member in self.members.values() for key, value in member.form_options.items()}
        known = {key: value for key, value in asked.items() if key in forms.options(name)}
        return forms.build({"name": name, **known}, traits, self.whole)

    @property
    def equal_length_lists(self) -> dict[str, str]:
        """List columns that must have equally many entries in all rows, with the setting that lifts this."""
        return {
            column: setting for member in self.members.values() for column, setting in member.equal_length_lists.items()
        }

    @property
    def nonempty_lists(self) -> dict[str, str]:
        """List columns that must have an entry in all rows, with the setting that lifts this."""
        return {
            column: setting for member in self.members.values() for column, setting in member.nonempty_lists.items()
        }

    def stored_fields_in(self, form: Form | type[Form], language: str | None) -> StoredFields:
        """The fields stored for a form (`Form.stored_fields_in`), and which lists must have equally many entries."""
        return form.stored_fields_in(language)._replace(equal_counts=tuple(self.equal_length_lists.items()))

    def form_name(self, columns: Collection[str]) -> str:
        """The name of the first form that suits every objective and whose columns the data has.

        Raises:
            ValueError: a column is unknown or missing.
        """
        for column in columns:
            refuse_unknown(column, inputs(), "input", "task.columns")
        lacking = {name: [field for field in forms[name].stored.columns if field not in columns] for name in self.forms}
        name = next((name for name in self.forms if not lacking[name]), self.forms[-1])
        if lacking[name]:
            given, names = ", ".join(columns), " and ".join(self.members)
            raise ValueError(f"task.columns: '{lacking[name][0]}' is missing, which {names} needs; given: {given}")
        return name

    def obstacle(self, traits: ModelTraits) -> str:
        """Why they cannot train such a model on any data, by the first form of its kind of input; '' if they can."""
        built = [self.build_form(name, traits) for name in self.forms]
        own = [form for form in built if form.pictures == (traits.image_size is not None)]
        found = [self.obstacle_on(form) for form in own or built]
        return found[0] if all(found) else ""

    def obstacle_on(self, form: Form) -> str:
        """Why the objectives cannot train the form's model on examples of this form; '' if they can."""
        traits, names = form.traits, " and ".join(self.members)
        for name, member in self.members.items():
            if member.causal is not None and member.causal != traits.causal:
                return f"objective: {name} cannot train this model: {member.why}. It needs {KINDS[member.causal]}"
        if form.pictures and traits.image_size is None:
            example = "captioner-rnn" if form.source else "cnn-attention"
            others = "; to train on texts beside them, name only their columns under 'columns'" * (len(self.forms) > 1)
            return f"objective: {names} trains on images, which this model does not read; {example} does{others}"
        if traits.image_size is not None and not form.pictures:
            return (
                f"objective: this model reads images, but {names} trains on texts; use captioning, or classification "
                "with a column 'image'"
            )
        if form.source and not traits.source:
            return f"objective: {names} needs an encoder and a decoder, such as transformer-base"
        if traits.source and not form.source:
            example = "captioning has" if form.pictures else "translation has, and its target may be a column of labels"
            return f"objective: {names} has no input for the model's encoder; {example}"
        return ""

    def roles(self, form: Form) -> tuple[str, ...]:
        """The special-token roles that the form and the objectives need, without duplicates."""
        own = (role for member in self.members.values() for role in member.roles)
        return tuple(dict.fromkeys([*form.roles, *own]))

    @property
    def sentinels(self) -> int:
        """Number of sentinel tokens that the tokenizer needs."""
        return max(member.sentinels for member in self.members.values())

    def scored(self, plan: ExamplePlan) -> dict[str, int]:
        """The largest number of scored positions of a planned example, per head."""
        return {member.head: member.scored(plan) for member in self.members.values()}

    def capacities(self, length: int) -> dict[str, int]:
        """The largest number of scored positions in a row, per head; heads without a limit are left out."""
        known = {member.head: member.capacity(length) for member in self.members.values()}
        return {head: capacity for head, capacity in known.items() if capacity is not None}

    def refuse_obstacles(self, splits: Mapping[str, Split], limits: Limits = BOUNDLESS) -> None:
        """Refuse data that an objective cannot be trained or evaluated on.

        Args:
            splits: by name.
            limits: of the examples; by default unlimited, so that only problems unrelated to lengths are refused.

        Raises:
            ValueError: names the first split, file and line with the problem.
        """
        for name, split in splits.items():
            for member in self.members.values():
                if obstacle := member.obstacle_in(split.lengths, limits):
                    raise ValueError(f"{name}: {split.line(obstacle.document)}: {obstacle.reason}")

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        """Add the scored positions and targets of every objective to an example."""
        for member in self.members.values():
            member.annotate(example, randomness, roles)

    @property
    def model_arguments(self) -> dict[str, tuple[str, ...]]:
        """Keyword arguments of the model for outputs beside logits, such as attention weights."""
        kinds = dict.fromkeys(kind for member in self.members.values() for kind in member.reads_weights)
        return {"weights": tuple(kinds)} if kinds else {}

    @property
    def draws(self) -> bool:
        """Whether examples need random numbers per position (`Example.draws`)."""
        return any(member.draws for member in self.members.values())

    def final_targets(self, targets: Mapping[str, Tensor], read: Tensor | None) -> dict[str, Tensor]:
        """The final targets per objective, given the tokens that the model has read (`Objective.final_targets`)."""
        return {name: member.final_targets(targets[name], read) for name, member in self.members.items()}

    def terms(
        self, scores: Mapping[str, Scores], targets: Mapping[str, Tensor], weights: Weights | None = None
    ) -> dict[str, Term]:
        """Compute the loss and the measurements of each objective."""
        return {name: m.term(scores[m.head], targets[name], weights) for name, m in self.members.items()}

    def counts(self, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What each objective's summed loss is divided by; needs no forward pass."""
        return {name: m.count(targets[name]) for name, m in self.members.items()}


def stored_by(objective: Mapping[str, Any], columns: Collection[str], language: str | None) -> StoredFields:
    """What the token store keeps of data with these columns for a task's objectives, as `Mixture.stored_fields_in`.

    Raises:
        ValueError: the objectives are wrong, a column is missing, or no form reads sentences of a language.
    """
    mixture = Mixture.parse(objective)
    return mixture.stored_fields_in(mixture.form_class(columns), language)


def labeled_by(objective: Mapping[str, Any]) -> list[str]:
    """The task's objectives that learn from the column 'label', as `Mixture.labeled`.

    Raises:
        ValueError: the objectives are wrong.
    """
    return Mixture.parse(objective).labeled


def inputs_of(objective: Mapping[str, Any], named: Collection[str]) -> tuple[list[str], list[list[str]]]:
    """The inputs that a task reads, and the columns of each form of example, as `Mixture` has them.

    Raises:
        ValueError: the objectives are wrong.
    """
    mixture = Mixture.parse(objective)
    return mixture.inputs(named), mixture.form_columns
