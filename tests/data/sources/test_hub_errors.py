"""What went wrong with the Hub, in one line."""

from zoo.data.sources.remote.hub_errors import first_line


def test_a_choice_that_is_offered_is_named_and_examples_are_not() -> None:
    said = "Config name is missing.\nPlease pick one among the available configs: ['a', 'b']\nExample of usage:\n\tload"
    assert (
        first_line(ValueError(said))
        == "Config name is missing. Please pick one among the available configs: ['a', 'b']"
    )
    assert first_line(OSError("no\nreason")) == "no" and first_line(OSError()) == "OSError"
