"""README.md of an exported folder: what it is, how to load it, how it was checked."""

from zoo.hub.exportable import Exportable
from zoo.hub.target import NativeClass, Target
from zoo.hub.verify import Check
from zoo.models.settings import dump_settings


def card(given: Exportable, target: Target, chosen: NativeClass, check: Check, left_out: list[str]) -> str:
    """A model card."""
    parts = (front_matter(chosen), title(target, chosen), loading(chosen), about(given, left_out), checked(check))
    return "\n".join(line for part in parts for line in part)


def front_matter(chosen: NativeClass) -> list[str]:
    """What model hubs read."""
    pipeline = [f"pipeline_tag: {chosen.pipeline}"] if chosen.pipeline else []
    return ["---", "library_name: transformers", *pipeline, "tags: [zoo]", "---", ""]


def title(target: Target, chosen: NativeClass) -> list[str]:
    return [
        f"# {chosen.name}",
        "",
        f"Trained with zoo, and one of {target.family} classes: plain `transformers` loads it.",
        "",
    ]


def loading(chosen: NativeClass) -> list[str]:
    """Two lines that load the folder."""
    return [
        "```python",
        f"from transformers import AutoTokenizer, {chosen.auto}",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")',
        f'model = {chosen.auto}.from_pretrained("path/to/this/folder")',
        "```",
        "",
    ]


def about(given: Exportable, left_out: list[str]) -> list[str]:
    """Sizes, and what is known of the run."""
    settings, tokenizer = given.settings, given.tokenizer
    count = sum(parameter.numel() for parameter in given.model.parameters())
    lines = [f"{count:,} parameters, {tokenizer.vocab_size:,} tokens, d_model {settings.d_model}"]
    tree = dump_settings(settings)
    for side in settings.parts:
        sizes = [f"{key} {value}" for key, value in tree[side].items() if type(value) in (int, str)]
        lines.append(f"{side}: {', '.join(sizes)}")
    if any(head.name == "classification" for head in settings.heads):
        lines.append(f"classes: {', '.join(given.class_names)}")
    if left_out:
        lines.append(f"heads that this class lacks and that were left out: {', '.join(left_out)}")
    return ["## Model", "", *(f"- {line}" for line in [*lines, *given.facts]), ""]


def checked(check: Check) -> list[str]:
    """The figures of the check."""
    largest = ", ".join(f"{value:.1e} in {dtype}" for dtype, value in check.differences.items())
    generated = f" and {check.generated} greedily generated texts" if check.generated else ""
    return [
        "## Check",
        "",
        "Before this folder got its name, plain `transformers` loaded it and was compared with the trained model:",
        f"the largest difference of logits over {check.rows} rows is {largest};",
        f"the ids of {check.texts} texts{generated} are the same.",
        "",
    ]
