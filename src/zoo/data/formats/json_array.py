"""Yields the entries of an array in a JSON file one by one, without holding the file in memory."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.data.formats.compression import DAMAGE, open_bytes, reason
from zoo.strict_json import finite, refuse_constant, refuse_twice

PIECE = 1 << 18  # bytes read at once
MOST = 1 << 26  # maximum characters of one entry
SPACE = " \t\r\n\ufeff"
GOES_ON = ("", *"0123456789.eE+-")  # characters that may continue a number at the end of the buffer
LEFT = 2  # characters of an unfinished number that the decoder leaves unread, such as `e-`
STRICT = json.JSONDecoder(object_pairs_hook=refuse_twice, parse_constant=refuse_constant, parse_float=finite)


def read_entries(path: Path, key: str) -> Iterator[Any]:
    """Yield each entry of the array under a key of the file's object.

    Raises:
        ValueError: the file is not JSON, not an object, or has no such array; the message names the position.
    """
    stream, seen = JsonStream(path), list[str]()
    stream.expect("{", f"expected a JSON object with a list '{key}'")
    while stream.next_sign() != "}":
        name = stream.value(key)
        stream.expect(":", "expected ':' after a key")
        if name in seen:
            raise stream.error(f"the key '{name}' is written twice")
        seen.append(name)
        if name != key:
            stream.value(str(name))
        elif stream.next_sign() != "[":
            raise ValueError(f"{path}: '{key}' must be a list, got {stream.value(key)!r:.80}")
        else:
            yield from stream.entries(key)
        stream.end_of_entry("}")
    stream.expect("}", "")
    stream.expect_end("object")
    if key not in seen:
        raise ValueError(f"{path}: no list '{key}'; keys: {', '.join(seen) or 'none'}")


def read_array(path: Path) -> Iterator[Any]:
    """Yield each entry of the array that is the whole file.

    Raises:
        ValueError: the file is not JSON, or not an array; the message names the position.
    """
    stream = JsonStream(path)
    if stream.next_sign() != "[":
        raise stream.error("expected an array, '['")
    yield from stream.entries("")
    stream.expect_end("array")


class JsonStream:
    """A JSON file's text, with only the part that is being parsed in memory.

    Raises:
        ValueError: the file is damaged, or not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.pieces = path, texts_of(path)
        self.text, self.at, self.before = "", 0, 0  # `before`: number of characters before `text`

    def more(self, least: int = 1) -> bool:
        """Read at least `least` more characters and drop those already parsed; False, and no change, at the end."""
        found = list[str]()
        while least > 0 and (piece := next(self.pieces, None)) is not None:
            found.append(piece)
            least -= len(piece)
        if not found:
            return False
        self.before, self.text, self.at = self.before + self.at, "".join((self.text[self.at :], *found)), 0
        return True

    def error(self, what: str) -> ValueError:
        return ValueError(f"{self.path}: not JSON: {what} (character {self.before + self.at + 1})")

    def next_sign(self) -> str:
        """The next character that is not white space, which is not consumed; empty at the file's end."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in SPACE:
                    return self.text[self.at]
                self.at += 1
            if not self.more():
                return ""

    def expect(self, sign: str, otherwise: str) -> None:
        """Consume a character."""
        if self.next_sign() != sign:
            raise self.error(otherwise)
        self.at += 1

    def expect_end(self, what: str) -> None:
        """Raise an error if text follows the end of the value."""
        if self.next_sign():
            raise self.error(f"unexpected text after the end of the {what}")

    def entries(self, name: str) -> Iterator[Any]:
        """Yield the entries of the array that begins here."""
        self.expect("[", "")
        number = 0
        while self.next_sign() != "]":
            yield self.value(f"{name}[{number}]")
            self.end_of_entry("]")
            number += 1
        self.expect("]", "")

    def end_of_entry(self, end: str) -> None:
        """Consume the comma after an entry, unless the entry is the last one."""
        if self.next_sign() == ",":
            self.at += 1
            if self.next_sign() == end:
                raise self.error(f"expected a value between ',' and '{end}'")
        elif self.next_sign() != end:
            raise self.error(f"expected ',' or '{end}'")

    def value(self, place: str) -> Any:
        """Parse the next value, reading as much of the file as that needs."""
        self.next_sign()
        while True:
            try:
                found, end = STRICT.raw_decode(self.text, self.at)
                behind = self.text[end : end + LEFT + 1]
                if len(behind) > LEFT or behind[:1] not in GOES_ON or not self.more(PIECE):
                    break
            except json.JSONDecodeError as error:  # the value may be incomplete: double the text and retry
                if (length := len(self.text) - self.at) > MOST:
                    raise self.error(f"{place}: {error.msg}, or it has more than {MOST} characters") from None
                if not self.more(max(PIECE, length)):
                    raise self.error(f"{place}: {error.msg}") from None
            except (ValueError, RecursionError) as error:
                raise self.error(f"{place}: {error}") from None
        self.at = end
        return found


def texts_of(path: Path) -> Iterator[str]:
    """Yield the file's text in pieces, none of them empty.

    Raises:
        ValueError: the file cannot be read, or is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes(path) as file:
            while piece := file.read(PIECE):
                if text := decoder.decode(piece):
                    yield text
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte 0x{error.object[error.start]:02X} is not UTF-8; convert the file") from None
    except DAMAGE as error:
        raise ValueError(f"{path}: the file cannot be read: {reason(error)}") from None
