"""Find the span of a context that answers a question, if there is one, from the logits of the context's windows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids
from zoo.data.tokenizers.token_spans import TokenSpans

LONGEST_ANSWER = 30  # tokens; Devlin et al.'s `max_answer_length`
Logits = NDArray[np.float32]


class WindowAnswer(NamedTuple):
    """The best span of a window.

    Args:
        score: the sum of the logits of its beginning and its end.
        null: the same sum at the window's first position, which means "no answer".
        first, stop: its first token, and the one after its last, as indices into the context.
        share: the probability of its beginning times that of its end, each a softmax over all positions of the window.
        null_share: the same product at the first position.
    """

    score: float
    null: float
    first: int
    stop: int
    share: float
    null_share: float

    def shifted(self, offset: int) -> "WindowAnswer":
        """The same span with its indices shifted by the start of its window."""
        return self._replace(first=self.first + offset, stop=self.stop + offset)


def best_span(logits: Logits, context: Ids, offset: int) -> WindowAnswer:
    """The best span of a window, of at most `LONGEST_ANSWER` tokens.

    Args:
        logits: of beginning and end, (positions, 2).
        context: the window's positions that hold tokens of the context.
        offset: the index, in the whole context, of the first of these tokens.
    """
    begins, ends = logits[context, 0], logits[context, 1]
    widths = range(min(LONGEST_ANSWER, len(context)))
    sums = [begins[: len(begins) - width] + ends[width:] for width in widths]  # by width, then by first token
    best = [int(each.argmax()) for each in sums]
    width = max(widths, key=lambda w: sums[w][best[w]])
    first = best[width]
    exact = logits.astype(np.float64)
    shares = np.exp(exact - exact.max(0))
    shares /= shares.sum(0)
    share = float(shares[context[first], 0] * shares[context[first + width], 1])
    null, null_share = float(logits[0].sum()), float(shares[0].prod())
    return WindowAnswer(float(sums[width][first]), null, offset + first, offset + first + width + 1, share, null_share)


def choose_answer(windows: Sequence[WindowAnswer], no_answer: bool) -> WindowAnswer | None:
    """The best span of all windows; None if every window scores "no answer" above it.

    Args:
        no_answer: whether a question may have no answer.
    """
    best = max(windows, key=lambda window: window.score)
    return None if no_answer and min(window.null for window in windows) > best.score else best


def answer_from_windows(
    context: str, tokens: TokenSpans, windows: Sequence[WindowAnswer], no_answer: bool
) -> tuple[dict[str, Any] | None, float]:
    """Return the answer from all windows of a context, {text, start, end} or None, and its probability.

    Args:
        tokens: of the whole context.
    """
    best = choose_answer(windows, no_answer)
    if best is None:
        return None, min(window.null_share for window in windows)
    start, end = int(tokens.begins[best.first]), int(tokens.ends[best.stop - 1])
    found = context[start:end]  # white space may be a token of its own
    start, end = end - len(found.lstrip()), start + len(found.rstrip())
    return excerpt(context, start, max(start, end)), best.share


def excerpt(text: str, start: int, end: int) -> dict[str, Any]:
    """The characters start:end of a text as {text, start, end}, the form of predictions."""
    return {"text": text[start:end], "start": start, "end": end}
