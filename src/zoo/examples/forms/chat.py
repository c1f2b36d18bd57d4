"""Form `chat`: a conversation; the assistant's turns are predicted."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.columns.messages import answers_in, as_messages
from zoo.data.formats.format import Row
from zoo.data.ids import MESSAGES, Ids, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import Template

CHAT: Template = ("start", None, "separator", None, "end")


@forms.register("chat")
class Chat(Form):
    """`<s> q… <sep> a… </s> q… <sep> a… </s>`: only the assistant's turns `a… </s>` are predicted.

    Turns of the user and the system end with the separator. A conversation that is too long is truncated at its
    beginning. In generation, the model writes the last turn.
    """

    stored = StoredFields((MESSAGES,), predicted=(MESSAGES,), lists=(MESSAGES,))
    lengths_suffice = False
    writes = True
    template = CHAT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        turns = lengths.entries(MESSAGES, document)
        total = sum(turn.length + 1 for turn in turns if turn.length)  # `<s>` is added; the last token is only a target
        kept = min(total, limits.longest)
        return [ExamplePlan(document, 0, kept, pieces=tuple(turns), truncated=total - kept)]

    def model_inputs(self, row: Row) -> list[Any]:
        return [as_messages(row[MESSAGES][:-1])]

    def reference_texts(self, row: Row) -> str:
        turns: list[str] = row[MESSAGES]
        return answers_in(turns)[-1]

    def predicted(self, lengths: Lengths, document: int, row: Row) -> list[tuple[Piece, str]]:
        return list(zip(answers_in(lengths.entries(MESSAGES, document)), answers_in(row[MESSAGES]), strict=True))

    def predicted_pieces(self, plan: ExamplePlan) -> list[Piece]:
        pieces, left = list[Piece](), plan.length  # counted from the end, since the beginning was truncated
        for turn in plan.pieces[::-1]:
            read = max(0, min(turn.length, left - 1))
            pieces.append(turn._replace(start=turn.stop - read))
            left -= turn.length + (turn.length > 0)
        return answers_in(pieces[::-1])

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        stream, learned = lay_turns([read(piece) for piece in plan.pieces], roles)
        begin = len(stream) - plan.length  # what is kept after `start`, with which every example begins
        tokens = np.append(stream[:1], stream[begin:-1])
        return Example(
            tokens=tokens,
            is_text=~np.isin(tokens, [roles.id(role) for role in ("start", "separator", "end")]),
            next_tokens=np.where(learned[begin:], stream[begin:], -1),
            summary=-1,
            label=plan.label,
        )


def lay_turns(turns: list[Ids], roles: Roles) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the tokens of a conversation, and which are predicted: those of every second turn, with its `</s>`."""
    ends = (roles.id("separator"), roles.id("end"))
    parts = [np.append(turn, ends[number % 2]) for number, turn in enumerate(turns) if len(turn)]
    learned = [np.full(len(turn) + 1, number % 2 == 1) for number, turn in enumerate(turns) if len(turn)]
    return np.concatenate([[roles.id("start")], *parts]), np.concatenate([[False], *learned])
