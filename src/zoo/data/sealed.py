"""Small JSON files with a checksum, so that a file changed by a failing disk is refused instead of misread."""

import hashlib
import json
from pathlib import Path
from typing import Any

from zoo.data.home import explain_write_error


def seal(content: Any) -> str:
    """Plain JSON values as text, with their checksum."""
    return json.dumps([checksum(content), content])


def unseal(text: str) -> Any:
    """The content of a sealed text.

    Raises:
        ValueError: the text is not a sealed one, or damaged.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deep: {error}") from None
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("not JSON with a checksum")
    digest, content = found
    if digest != checksum(content):
        raise ValueError("its checksum does not match")
    return content


def write_sealed(path: Path, content: Any) -> None:
    """Write a file that `read_sealed` reads."""
    with explain_write_error(path):
        path.write_text(seal(content), "utf-8")


def read_sealed(path: Path) -> Any:
    """The content of a file that `write_sealed` wrote.

    Raises:
        OSError, ValueError: the file does not exist, is not a sealed one, or is damaged.
    """
    return unseal(path.read_text("utf-8"))


def checksum(content: Any) -> str:
    """The SHA-256 of a value's JSON form."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
