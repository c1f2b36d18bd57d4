"""The model card (README.md) of an export: what the model is, how to use it, how it was trained and checked."""

from collections.abc import Mapping
from typing import Any

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.card.evaluation import evaluation, measured_split, shown_task
from zoo.hub.exporting.card.front_matter import front_matter
from zoo.hub.exporting.card.markdown import code_block, collapsible, escape, one_line, section, table
from zoo.hub.exporting.card.paths import hide_paths, last_component, without_paths
from zoo.hub.exporting.card.snippets import CHAT, snippets
from zoo.hub.exporting.config_files import max_new_tokens
from zoo.hub.exporting.samples import TEXTS
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.exporting.verify import Check
from zoo.hub.targets.declare.classes import TEXT_GENERATION, TOKEN_CLASSIFICATION, classifies
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.cost import parameters
from zoo.models.settings import dump_settings
from zoo.objectives.kinds.similarity import ORDERS
from zoo.report.curves import draw_curves
from zoo.runs.environment import PACKAGES
from zoo.strict_yaml import to_yaml

CARD, CURVES = "README.md", "curves.png"
BOTH_ORDERS = "It scores two texts in one order: score both orders and add their logits, as training did."
JOINED = (
    "Join words with spaces and find them by their offsets: `is_split_into_words=True` gives other ids than training."
)
NEW_TOKENS_ALONE = (
    "The pipeline of transformers 5.23 decodes the new tokens apart from the text before them, so a space between the "
    "two is lost. To keep it, pass `return_tensors=True`, and decode all of `generated_token_ids` at once: "
    "`generate.tokenizer.decode(ids, skip_special_tokens=True)`."
)


def card_files(
    trained: TrainedModel, target: Target, native: NativeClass, check: Check, left_out: list[str]
) -> dict[str, bytes]:
    """The model card, and the image of the training curves if there is one, as name -> content."""
    history = trained.history
    name, picture = one_line(history.name), draw_curves(history.log_lines, history.step)
    lines = [
        *front_matter(trained, native, name),
        *title(trained, target, native, name),
        *usage(trained, target, native),
        *architecture(trained, native, left_out),
        *([] if history.is_imported else training_sections(trained, native, picture is not None)),
        *limitations(trained, native),
        *check_section(check, "" if target.imports else "plain "),
    ]
    return {CARD: "\n".join(lines).encode()} | ({CURVES: picture} if picture is not None else {})


def title(trained: TrainedModel, target: Target, native: NativeClass, name: str) -> list[str]:
    """The title and one paragraph on what the model is."""
    loads = f"one of {target.family} classes: plain `transformers` loads it"
    if target.imports:
        needed = " and ".join(["zoo is installed", *needed_packages(trained.history.environment)])
        loads = f"in zoo's own class: `transformers` loads it where {needed}, after `import {target.imports}`"
    what = f"A `{native.name}` with {parameters(trained.model):,} parameters"
    if trained.history.is_imported:
        unknown = "It was imported with zoo; its data and training are unknown here."
        return [f"# {escape(name)}", "", f"{what}, {loads}. {unknown}", ""]
    what = f"{what}, trained for {', '.join(trained.task.objective)}"
    return [f"# {escape(name)}", "", f"{what}. Trained with zoo, {'' if target.imports else 'and '}{loads}.", ""]


def needed_packages(known: Mapping[str, Any]) -> list[str]:
    """The condition, in words, that packages with the variants used in training are installed; empty without any."""
    names = [escape(name) for name in known.get("versions", {}) if name not in PACKAGES]
    return [f"the variants that it was trained with ({', '.join(names)}) are"] if names else []


def usage(trained: TrainedModel, target: Target, native: NativeClass) -> list[str]:
    """The section on using the model."""
    pairs, tokenizer = "pair" in trained.task.columns, trained.tokenizer
    kind = CHAT if trained.is_chat_model else ""
    if classifies(native):
        kind = trained.answer.problem
    room = max_new_tokens(flatten(trained.settings)) if native.generates else 0
    used = snippets(native, trained.address, pairs, target.imports, tokenizer is not None, kind, room)
    members = [member for member in trained.mixture.members.values() if member.head in native.heads]
    orders = any(member.places_per_target == ORDERS for member in members)
    joined = native.pipeline == TOKEN_CLASSIFICATION and tokenizer is not None and not splits_words_as_text(tokenizer)
    writes = native.pipeline == TEXT_GENERATION and kind != CHAT  # an answer in a chat is a text of its own
    parts = writes and tokenizer is not None and not decodes_in_parts(tokenizer)
    programs = [code_block(program, "python") for program in used]
    notes = [BOTH_ORDERS, ""] * orders, [JOINED, ""] * joined, [NEW_TOKENS_ALONE, ""] * parts
    return section("How to use it", *programs, *notes)


def splits_words_as_text(tokenizer: Tokenizer) -> bool:
    """Return whether words encoded one by one (`is_split_into_words`) have the same ids as in a text."""
    backend, rows = tokenizer.backend, [text.split() for text in TEXTS]
    one_by_one = backend.encode_batch(rows, is_pretokenized=True, add_special_tokens=False)
    joined = backend.encode_batch([" ".join(words) for words in rows], add_special_tokens=False)
    return [found.ids for found in one_by_one] == [found.ids for found in joined]


def decodes_in_parts(tokenizer: Tokenizer) -> bool:
    """Return whether a text is the same if its beginning and its end are decoded one by one, wherever it is cut."""
    ids: list[int] = tokenizer.encode(TEXTS[:1])[0].tolist()
    cuts = ((ids[:at], ids[at:]) for at in range(1, len(ids)))
    return all(tokenizer.decode(begun) + tokenizer.decode(rest) == tokenizer.decode(ids) for begun, rest in cuts)


def architecture(trained: TrainedModel, native: NativeClass, left_out: list[str]) -> list[str]:
    """The section on sizes and settings of the model."""
    settings, tokenizer = trained.settings, trained.tokenizer
    known = "no tokenizer" if tokenizer is None else f"{tokenizer.vocab_size:,} tokens"
    lines = [f"{known}, d_model {settings.d_model}"]
    tree = {key: value for key, value in dump_settings(settings).items() if key != "training"}
    for side in settings.parts:
        sizes = [f"{key} {value}" for key, value in tree[side].items() if type(value) in (int, str)]
        lines.append(f"{side}: {', '.join(sizes)}")
    if names := trained.class_names(native):
        lines.append(f"classes: {', '.join(map(escape, names))}")
    if left_out:
        lines.append(f"heads left out, since this class lacks them: {', '.join(left_out)}")
    return section("Model", bullet_list(lines), settings_section("Every choice", tree))


def training_sections(trained: TrainedModel, native: NativeClass, picture: bool) -> list[str]:
    """The sections on data, training, evaluation and environment."""
    found = [*data(trained), *training(trained, picture), *evaluation(trained, native)]
    return [*found, *environment(trained.history.environment)]


def data(trained: TrainedModel) -> list[str]:
    """The section on the training data."""
    hashes = trained.history.data.items()
    shown = table(("split", "SHA-256 of the data and of how it is read"), hashes) if hashes else []
    return section("Data", shown, settings_section("The task", shown_task(trained)))


def training(trained: TrainedModel, picture: bool) -> list[str]:
    """The section on training."""
    history = trained.history
    said = [f"objective: {', '.join(trained.task.objective)}", f"steps of training: {history.step:,}"]
    curves = ["![loss and metrics by step](curves.png)", "", "The dotted line is at the step of these weights.", ""]
    settings = {key: value for key, value in history.training.items() if value is not None}
    parts = lineage(history), curves if picture else [], settings_section("Every setting", settings)
    return section("Training", bullet_list(said), *parts)


def lineage(history: TrainingHistory) -> list[str]:
    """A table of the checkpoint that was fine-tuned and the ones before it, with hashes of their weights and data."""
    names = last_component(history.request.start), *["its base"] * len(history.bases)
    hashes = [(base.weights_sha256, "; ".join(map(": ".join, base.data.items()))) for base in history.bases]
    rows = [(name, f"{base.step:,}", *of) for name, base, of in zip(names, history.bases, hashes, strict=False)]
    return table(("fine-tuned from", "step", "SHA-256 of its weights", "SHA-256 of its data"), rows) if rows else []


def environment(known: Mapping[str, Any]) -> list[str]:
    """The section on package versions and the machine of the training."""
    rows = [(name, str(version)) for name, version in known.get("versions", {}).items()]
    rows += [(key, str(known[key])) for key in ("python", "platform", "processes", "threads") if known.get(key)]
    rows += [("devices", ", ".join(map(str, known["devices"])))] if known.get("devices") else []
    return section("Environment", collapsible("Versions and machine", table(("what", "which"), rows))) if rows else []


def limitations(trained: TrainedModel, native: NativeClass) -> list[str]:
    """The section on limitations."""
    size, own = trained.traits.image_size, trained.task.card.limitations
    reads = [f"the central square of an image, resized to {size} x {size} pixels"] * (size is not None)
    reads += [f"at most {part.max_length:,} tokens ({side})" for side, part in trained.text_parts.items()]
    tried = "It was not evaluated on held-out data."
    if not trained.history.log_lines:
        tried = "There is no log of its training, so its results on held-out data are unknown."
    if trained.history.measured:
        split = measured_split(trained.history)
        tried = f"It was evaluated on {split}, which also selected this checkpoint; expect other figures on other data."
    random = trained.untrained_heads(native)
    lines = [
        *[f"Newly initialized and never trained, so the answers are random: {', '.join(random)}."] * bool(random),
        f"It reads {' and '.join(reads)}.",
        escape(hide_paths(own)) if own else "Its author has named no limitations.",
        "It reproduces what its data holds, mistakes and biases included.",
        *([] if trained.history.is_imported else [tried]),
    ]
    return section("Limitations", bullet_list(lines))


def check_section(check: Check, which: str) -> list[str]:
    """The section on the check of the export; `which` is put before the name of transformers."""
    return section(
        "Check",
        [
            f"Before this folder was finished, {which}`transformers` loaded it, and was compared with zoo's model:",
            f"the largest difference of logits over {check.rows} sequences is {check.largest};",
            f"{check.identical} are the same."
            if check.identical
            else "it has no tokenizer, so the sequences were random ids.",
            "",
        ],
    )


def bullet_list(lines: list[str]) -> list[str]:
    """A Markdown list."""
    return [*(f"- {line}" for line in lines), ""]


def settings_section(title: str, tree: dict[str, Any]) -> list[str]:
    """Settings as YAML in a collapsed section; empty without settings."""
    return collapsible(title, code_block(to_yaml(without_paths(tree)), "yaml")) if tree else []
