"""Small JSON files with a checksum: what a failing disk has changed is refused, and not read as something else."""

import hashlib
import json
from pathlib import Path
from typing import Any

from zoo.data.home import name_file


def seal(content: Any) -> str:
    """Lists, maps, texts and numbers as JSON with their checksum."""
    return json.dumps([checksum(content), content])


def unseal(text: str) -> Any:
    """What was sealed.

    Raises:
        ValueError: the text is something else, or damaged.
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
    with name_file(path):
        path.write_text(seal(content), "utf-8")


def read_sealed(path: Path) -> Any:
    """What was written into a file.

    Raises:
        OSError, ValueError: there is no such file, or it holds something else, or is damaged.
    """
    return unseal(path.read_text("utf-8"))


def checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
