"""Conversations: the turns of a user and an assistant, read as chat data sets write them, and checked."""

from typing import Any

from zoo.data.ids import MESSAGES
from zoo.registry import refuse_unknown

ASSISTANT = "assistant"
SPEAKERS = ("system", "user", ASSISTANT)


def settle_messages(row: dict[str, Any]) -> None:
    """Have a row hold its conversation as texts, in turn those of others and those of the assistant.

    Where two turns of one side follow each other, an empty text stands between them. What follows the assistant's last
    turn is left out: nothing answers it.

    Raises:
        ValueError: a turn is none, somebody else speaks, or the assistant does not.
    """
    if MESSAGES not in row:
        return
    given = row[MESSAGES]
    if not isinstance(given, list) or not all(isinstance(turn, dict) for turn in given):
        raise ValueError(f"'{MESSAGES}' must be a list of maps with 'role' and 'content', got {given!r:.80}")
    texts: list[str] = []
    for number, turn in enumerate(given, 1):
        place, content = f"{MESSAGES}: turn {number}", turn.get("content")
        refuse_unknown(str(turn.get("role")), SPEAKERS, "role", place)
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"{place}: 'content' must be a text that is not empty, got {content!r:.80}")
        if (turn["role"] == ASSISTANT) != len(texts) % 2:
            texts.append("")
        texts.append(content.strip())
    texts = texts[: len(texts) - len(texts) % 2]
    if not any(texts[1::2]):
        raise ValueError(f"{MESSAGES}: the assistant says nothing, so there is nothing to learn")
    row[MESSAGES] = texts
