"""Conversations of a user and an assistant, read in the forms that chat data sets use, and checked."""

from typing import Any, TypeVar

from zoo.data.ids import MESSAGES
from zoo.wording import refuse_unknown

ASSISTANT = "assistant"
SPEAKERS = ("system", "user", ASSISTANT)
SHAREGPT = {"human": "user", "gpt": ASSISTANT}  # roles in turns of the form {from, value}
Turn = TypeVar("Turn")


def normalize_messages(row: dict[str, Any]) -> None:
    """Replace a row's conversation by its texts, which alternate between the user (or system) and the assistant.

    Turns after the assistant's last one are dropped, since no answer follows them.

    Raises:
        ValueError: a turn has no text or an unknown role, or the assistant has no turn.
    """
    if MESSAGES not in row:
        return
    texts = read_turns(row[MESSAGES])
    while texts and not (len(texts) % 2 == 0 and texts[-1]):  # an empty text separates two user turns
        texts.pop()
    if not texts:
        raise ValueError(f"{MESSAGES}: the assistant says nothing, so there is nothing to learn")
    row[MESSAGES] = texts


def read_turns(given: Any) -> list[str]:
    """The texts of a conversation, which alternate between the user (or system) and the assistant.

    Two successive turns of one side have an empty text between them.

    Raises:
        ValueError: a turn has no text or an unknown role.
    """
    if not isinstance(given, list) or not all(isinstance(turn, dict) for turn in given):
        raise ValueError(f"'{MESSAGES}' must be a list of maps with 'role' and 'content', got {given!r:.80}")
    texts: list[str] = []
    for number, turn in enumerate(given, 1):
        place, (role, content) = f"{MESSAGES}: turn {number}", as_turn(turn)
        refuse_unknown(role, SPEAKERS, "role", place)
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"{place}: 'content' must be a non-empty text, got {content!r:.80}")
        if (role == ASSISTANT) != len(texts) % 2:
            texts.append("")
        texts.append(content.strip())
    return texts


def as_turn(turn: dict[str, Any]) -> tuple[str, Any]:
    """The role and the text of a turn: `{role, content}`, or ShareGPT's `{from, value}`."""
    if "role" in turn or "from" not in turn:
        return str(turn.get("role")), turn.get("content")
    speaker = str(turn["from"])
    return SHAREGPT.get(speaker, speaker), turn.get("value")


def read_prompt_turns(given: Any) -> list[str]:
    """The texts of a conversation that the assistant is asked to continue, as `read_turns`.

    Raises:
        ValueError: as `read_turns`, or the last turn is not the user's.
    """
    texts = read_turns(given)
    if len(texts) % 2 == 0:
        what = "the last turn is the assistant's" if texts else "there is no turn"
        raise ValueError(f"{MESSAGES}: {what}, so there is nothing to answer; end with a user turn")
    return texts


def as_messages(texts: list[str]) -> dict[str, list[dict[str, str]]]:
    """The texts of `read_turns` as a row of messages; system turns become user turns."""
    speakers = ("user", ASSISTANT)
    return {MESSAGES: [{"role": speakers[n % 2], "content": text} for n, text in enumerate(texts) if text]}


def answers_in(turns: list[Turn]) -> list[Turn]:
    """The assistant's turns of a normalized conversation."""
    return turns[1::2]
