"""Where sentences end."""

from zoo.data.store.sentences import split_sentences


def test_a_sentence_ends_before_a_space_and_a_capital() -> None:
    assert split_sentences("One here. Two! Three? Élan.") == ["One here.", "Two!", "Three?", "Élan."]


def test_a_stop_before_anything_else_is_no_end() -> None:
    assert split_sentences("About 3.5 e.g. this one. and 'That'.") == ["About 3.5 e.g. this one. and 'That'."]


def test_a_line_is_at_least_one_sentence_and_blank_lines_are_none() -> None:
    assert split_sentences("A title\n\n  \nSome text. More") == ["A title", "Some text.", "More"]
    assert split_sentences("\n \n") == []
