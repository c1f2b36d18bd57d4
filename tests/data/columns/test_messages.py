"""Conversations are read in turns, and one without an answer is refused."""

import pytest

from zoo.data.columns.messages import answers_in, as_messages, normalize_messages, read_prompt_turns


def turns(*said: tuple[str, str]) -> dict[str, object]:
    return {"messages": [{"role": role, "content": content} for role, content in said]}


def test_two_turns_of_one_side_have_an_empty_one_between_them():
    row = turns(("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "unanswered"))
    normalize_messages(row)
    assert row["messages"] == ["s", "", "u", "a"]
    row = turns(("assistant", "a"), ("assistant", "b"), ("user", "unanswered"))
    normalize_messages(row)
    assert row["messages"] == ["", "a", "", "b"]


def test_what_follows_the_assistants_last_turn_is_left_out():
    row = turns(("user", " u\n"), ("assistant", "a "), ("user", "unanswered"), ("user", "and again"))
    normalize_messages(row)
    assert row["messages"] == ["u", "a"]


def test_turns_may_be_written_as_sharegpt_does():
    said = [("system", "s"), ("human", "u"), ("gpt", "a")]
    row = {"messages": [{"from": speaker, "value": text} for speaker, text in said]}
    normalize_messages(row)
    assert row["messages"] == ["s", "", "u", "a"]
    with pytest.raises(ValueError, match="turn 1: unknown role 'bing'; allowed: system, user, assistant"):
        normalize_messages({"messages": [{"from": "bing", "value": "u"}]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"messages": "hi"}, "'messages' must be a list of maps with 'role' and 'content', got 'hi'"),
        ({"messages": [{"content": "hi"}]}, "turn 1: unknown role 'None'; allowed: system, user, assistant"),
        (turns(("asistant", "hi")), "turn 1: unknown role 'asistant' .did you mean 'assistant'"),
        (turns(("user", "hi"), ("assistant", " ")), "turn 2: 'content' must be a non-empty text"),
    ],
)
def test_a_conversation_that_is_none_is_refused(given: dict[str, object], said: str):
    with pytest.raises(ValueError, match=said):
        normalize_messages(given)


@pytest.mark.parametrize("said", [[("user", "u")], [("user", "u"), ("user", "v")], [("system", "s"), ("user", "u")]])
def test_a_conversation_in_which_the_assistant_says_nothing_is_refused(said: list[tuple[str, str]]):
    with pytest.raises(ValueError, match="messages: the assistant says nothing, so there is nothing to learn"):
        normalize_messages(turns(*said))


def test_a_conversation_that_is_asked_to_go_on_ends_with_a_user_and_is_written_as_it_was_read():
    texts = read_prompt_turns([{"role": role, "content": role[0]} for role in ("system", "user", "assistant", "user")])
    assert texts == ["s", "", "u", "a", "u"] and answers_in(texts) == ["", "a"]
    assert read_prompt_turns(as_messages(texts)["messages"]) == texts
    with pytest.raises(ValueError, match="messages: the last turn is the assistant's, so there is nothing to answer"):
        read_prompt_turns(turns(("user", "u"), ("assistant", "a"))["messages"])
