"""Small files with a checksum."""

import math

import pytest

from zoo.data.sealed import seal, unseal


def test_what_is_sealed_comes_back() -> None:
    content = {"labels": ["ä", 0.1, None, [1, 2]], "empty": {}}
    assert unseal(seal(content)) == content
    assert math.isnan(unseal(seal([math.nan]))[0])


def test_every_changed_byte_is_seen() -> None:
    text = seal({"documents": 12, "name": "ab"})
    for at in range(len(text)):
        changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        with pytest.raises(ValueError):
            unseal(changed)


@pytest.mark.parametrize("text", ["", "3", "[1]", "{}", '{"a": 1, "b": 2}', "[" * 100_000])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unseal(text)
