"""Print what `zoo check TASK` found in a task's data."""

from collections.abc import Mapping
from typing import Any

from zoo.cli.output import say, say_rows
from zoo.wording import counted

SHOWN = 80  # characters of a text that are printed
BAR = 30  # characters of the longest bar
MOST_LABELS = 12  # whose shares are printed
HIDDEN = "''"  # an empty text, which a test split may write in place of a label
Found = Mapping[str, Any]


def say_survey(found: Found) -> None:
    """Print a survey as tables and lines; `--json` prints all of it."""
    splits = found["splits"]
    has_tokens = any("tokens" in split for split in splits.values())
    names = ["rows", "empty", "characters", *(["documents", "tokens"] if has_tokens else [])]
    rows = [[name, *(f"{split.get(key, 0):,}" for key in names), unknown(split)] for name, split in splits.items()]
    say_rows(rows, header=["split", *names, "unknown"])
    if found["left_out"]:
        say(f"source.filter leaves out {counted(found['left_out'], 'row')} of train")
    for name, split in splits.items():
        say_lengths(name, split.get("lengths", {}))
    say_sizes(found.get("row_sizes", []))
    say_labels(found)
    say_repeats(found)
    if "unigram" in found:
        scores = [f"{name} {format_loss(score)}" for name, score in found["unigram"].items()]
        say(f"predicting from token frequencies alone: {', '.join(scores)}")
    for one in found.get("strangest", []):
        value = f"{one['value']:,.0f}" if one["value"] >= 100 else f"{one['value']:.4g}"
        say(f"{one['why']}, {value}: {one['place']}: {one['text'][:SHOWN]}")
    for remark in found["remarks"]:
        say(remark)


def unknown(split: Found) -> str:
    return "" if split.get("unknown") is None else f"{split['unknown']:.3%}"


def format_loss(score: Found) -> str:
    """Format the loss on one split of predicting from frequencies alone."""
    return (
        f"loss {score['loss']:.3f}, perplexity {score['perplexity']:.1f} ({score['bits_per_byte']:.3f} bits per byte)"
    )


def say_lengths(split: str, lengths: Found) -> None:
    """Print each field's lengths in tokens, as a histogram."""
    for field, known in lengths.items():
        most = max((bar["documents"] for bar in known["histogram"]), default=1)
        title = (
            f"{split}, tokens of {field}: mean {known['mean']:.1f}, median {known['median']:,}, "
            f"90 % {known['p90']:,}, 99 % {known['p99']:,}, longest {known['longest']:,}"
        )
        bars = [
            [f"{bar['from']:,} to {bar['to']:,}", f"{bar['documents']:,}", "█" * round(BAR * bar["documents"] / most)]
            for bar in known["histogram"]
        ]
        say_rows(bars, title)


def say_sizes(sizes: list[Found]) -> None:
    """Print how much rows of other lengths would cut off, and how much padding they would have."""
    rows = []
    for size in sizes:
        length = f"{size['length']:,}" + (f" + {size['source']:,}" if size["source"] else "")
        empty = "" if size["empty"] is None else f"{size['empty']:.1%}"
        rows.append([length, f"{size['longer']:.2%} {size['is']}", f"{size['beyond']:.2%}", empty])
    if rows:
        say_rows(rows, "sequences of", ["tokens", "longer texts", "tokens beyond", "padding"])


def say_labels(found: Found) -> None:
    """Print how often each label occurs, and what guessing from that reaches."""
    for name, split in found["splits"].items():
        counts = split.get("labels", {})
        total = sum(counts.values())
        shown = [f"{label or HIDDEN} {count / total:.1%}" for label, count in list(counts.items())[:MOST_LABELS]]
        more = f", and {len(counts) - MOST_LABELS:,} more" if len(counts) > MOST_LABELS else ""
        if shown:
            say(f"{name}, labels: {', '.join(shown)}{more}")
        if "numbers" in split:
            say(f"{name}, labels: {format_range(split['numbers'])}")
    if guessed := found["guessing_labels"]:
        numbers = any("mse" in scores for scores in guessed.values())
        how = "always answering the mean" if numbers else "predicting from label frequencies alone"
        say(f"{how}: {'; '.join(f'{name} {format_guess(scores)}' for name, scores in guessed.items())}")


def format_guess(scores: Found) -> str:
    """Format the scores on one split of guessing its labels."""
    if "mse" in scores:
        return f"squared error {scores['mse']:.3f}"
    accuracy = f"accuracy {scores['accuracy']:.3f}, " if "accuracy" in scores else ""
    return f"{accuracy}loss {'infinite' if scores['loss'] is None else format(scores['loss'], '.3f')}"


def format_range(numbers: Found) -> str:
    """Summarize labels that are numbers."""
    return f"numbers from {numbers['least']:.10g} to {numbers['most']:.10g}, mean {numbers['mean']:.3f}"


def say_repeats(found: Found) -> None:
    """Print how many rows repeat others, within a split and across splits."""
    within = ", ".join(f"{name} {count:,}" for name, count in found["repeated"].items())
    say(f"rows that repeat an earlier text of their split: {within}")
    for leak in found["leaks"]:
        if leak["rows"]:
            say(f"leak: {counted(leak['rows'], 'row')} of {leak['of']} ({leak['share']:.2%}) also in {leak['also_in']}")
    for places in found["repeated_shown"]:
        say(f"  the same text: {' and '.join(places)}")
    near = found["near"]
    if near is not None:
        across = f", {near['across_splits']:,} of them across splits" if near["across_splits"] else ""
        say(f"near duplicates: {near['rows']:,} of {near['looked_at']:,} texts looked at ({near['of']:,} rows){across}")
        for one, other, alike in near["shown"]:
            say(f"  {alike:.0%} alike: {one} and {other}")
