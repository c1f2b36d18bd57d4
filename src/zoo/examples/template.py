"""Templates: the layout of special tokens and text in an example, and how long texts are cut or truncated to fit."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from zoo.data.ids import Ids, Piece, Read, Roles
from zoo.examples.example import Example, ExamplePlan

# a template lists the role of each special token; None is the next piece of text
Template = tuple[str | None, ...]
ENCODED_TEXT: Template = ("start", None, "separator")
ENCODED_PAIR: Template = ("start", None, "separator", None, "separator")
# Radford et al. 2018 (GPT), figure 1: start, text, extract; the delimiter is the separator
CLASSIFIED_TEXT: Template = ("start", None, "extract")
CLASSIFIED_PAIR: Template = ("start", None, "separator", None, "extract")
STARTED_TEXT: Template = ("start", None)
CAUSAL_TEXT: Template = ("start", None, "end")  # one token longer than its example: see `predict_next`


def pair_template(causal: bool) -> Template:
    """The template of a pair for a decoder (causal) or an encoder."""
    return CLASSIFIED_PAIR if causal else ENCODED_PAIR


def roles_of(template: Template) -> tuple[str, ...]:
    """The roles in a template, without duplicates."""
    return tuple(dict.fromkeys(role for role in template if role is not None))


@cache
def overhead(template: Template) -> int:
    """Number of special tokens in a template."""
    return sum(role is not None for role in template)


def fill_template(template: Template, plan: ExamplePlan, read: Read, roles: Roles, causal: bool) -> Example:
    """Fill a template with the plan's pieces; segment 0 ends with the special token after the first piece.

    A role that the tokenizer lacks is left out: an imported model was pretrained without it. Training adds the token.
    """
    pieces = iter(plan.pieces)
    known = {role: getattr(roles, role) for role in roles_of(template)}
    tokens_of = {role: np.array([] if token is None else [token], dtype=np.int64) for role, token in known.items()}
    parts = [read(next(pieces)) if role is None else tokens_of[role] for role in template]
    sizes = [len(part) for part in parts]
    tokens = np.concatenate(parts)
    following = np.full(len(tokens), -1, dtype=np.int64)
    if causal:
        following[:-1] = tokens[1:]
    return Example(
        tokens=tokens,
        is_text=np.repeat([role is None for role in template], sizes),
        next_tokens=following,
        summary=-1 if causal else 0,
        label=plan.label,
        segments=np.repeat(np.array([0, 0, 0, 1, 1], dtype=np.int64)[: len(sizes)], sizes),
    )


def join_documents(parts: Sequence[Example]) -> Example:
    """Join examples as the documents of a single example, which has the label of the first."""
    none = np.zeros(0, dtype=np.int64)
    return Example(
        tokens=np.concatenate([part.tokens for part in parts]),
        is_text=np.concatenate([part.is_text for part in parts]),
        next_tokens=np.concatenate([part.next_tokens for part in parts]),
        summary=parts[0].summary,
        label=parts[0].label,
        segments=np.concatenate([none if part.segments is None else part.segments for part in parts]),
        documents=tuple(len(part.tokens) for part in parts),
    )


def predict_next(plan: ExamplePlan, text: Ids, roles: Roles, source: Ids | None = None) -> Example:
    """Build a causal example: inputs `<s> y…`, predicted `y… </s>`, source `x… </s>`.

    If the text continues after this example, `</s>` is not predicted; the last token is a target but not an input.

    Args:
        text: the tokens y.
        source: the tokens x for the encoder; None: no source text.
    """
    following = with_end(text, roles) if plan.final else text.astype(np.int64)
    tokens = np.empty_like(following)
    tokens[0], tokens[1:] = roles.id("start"), following[:-1]
    ordinary = np.ones(len(tokens), dtype=np.bool_)
    ordinary[0] = False
    read = None if source is None else with_end(source, roles)
    return Example(tokens=tokens, is_text=ordinary, next_tokens=following, summary=-1, label=plan.label, source=read)


def with_end(text: Ids, roles: Roles) -> Ids:
    """Append `</s>` to a text; filling an empty array is twice as fast as `np.append` or `np.concatenate`."""
    found = np.empty(len(text) + 1, dtype=np.int64)
    found[:-1], found[-1] = text, roles.id("end")
    return found


def cut(total: int, room: int, generator: np.random.Generator, first: int = 1, last: int = 1) -> list[tuple[int, int]]:
    """Cut `total` tokens into the fewest spans of at most `room`, at random borders; return (start, stop) of each.

    All but the first and the last span are full. Those two have at least `first` and `last` tokens if possible (it is
    not for an odd total, `room` 2 and at least 2 tokens each).
    """
    count = max(1, -(-total // room))
    if count == 1:
        return [(0, total)]
    slack = count * room - total  # tokens that the first and the last span together have less than `room`
    least, most = max(0, slack - (room - last)), min(slack, room - first)  # bounds of the first span's part of it
    begin = room - int(generator.integers(least, most + 1)) if least <= most else room
    return list(pairwise([0, *range(begin, total, room), total]))


def shorten(first: int, second: int, room: int) -> tuple[int, int]:
    """Truncate the longer of two texts until both fit in `room`, like tokenizers' `longest_first`; return both lengths.

    If `room` is odd, the longer text keeps one token more; the second one if both are equally long.
    """
    if first + second <= room:
        return first, second
    kept = min(first, second, room // 2)
    return (kept, room - kept) if first <= second else (room - kept, kept)


def shorten_pair(first: Piece, second: Piece, room: int) -> tuple[Piece, Piece]:
    """Truncate two texts at their ends so that both fit in `room` tokens."""
    read, behind = shorten(first.length, second.length, room)
    return first.first(read), second.first(behind)
