"""The table of export targets, from the registry: `python docs/targets.py` writes docs/targets.md anew."""

from pathlib import Path

from zoo.hub.targets.declare.registry import targets

PAGE = Path(__file__).with_name("targets.md")
INTRODUCTION = """\
# Targets

What `zoo export` writes and `zoo import` reads, in the order in which export tries them. Each example is a shipped
model that exports to the target, in some rows with
changed settings. `make variants` writes this page from the registry.

| target | models | transformers classes | example |
|---|---|---|---|"""
OWN = "| `zoo` | any model | zoo's own, where zoo is installed: `ZooForCausalLM` … | `--to zoo` |\n"


def page() -> str:
    """The whole page as Markdown."""
    rows = []
    for target in targets.values():
        classes = ", ".join(f"`{known.name}`" for known in target.classes)
        rows.append(f"| `{target.name}` | {target.models} | {classes} | `{target.example}` |")
    return "\n".join([INTRODUCTION, *rows, OWN])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
