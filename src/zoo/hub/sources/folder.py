"""An untrusted checkpoint folder: zoo reads only inside it, within limits, and runs no code from it."""

import errno
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo.data.tokenizers.tokenizer import BACKEND_FILE
from zoo.disk import exists, is_link, refuse_pointer
from zoo.strict_json import parse_json

Json = dict[str, Any]
CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP = "tokenizer_config.json", "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"  # of older folders
HASHES = "hashes.json"  # of an export; `zoo import` and `zoo check` compare the files with it
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model")
CHAT, CHAT_FOLDER = "chat_template.jinja", "additional_chat_templates"  # the second is a folder of further templates
PREPROCESSOR = "preprocessor_config.json"  # of images; zoo writes it and never reads it
ADAPTER = "adapter_config.json"  # peft's
# every file that zoo reads or refuses, except weights
SMALL_FILES = (
    CONFIG,
    GENERATION,
    HASHES,
    BACKEND_FILE,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS_MAP,
    ADDED_TOKENS,
    CHAT,
    ADAPTER,
    *VOCABULARIES,
)
MOST_BYTES = 64 * 2**20  # of a file that is read whole: the largest published tokenizers have half as many


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder of files that somebody else wrote.

    Symbolic links may lead to files inside it or, in a snapshot of the Hub's cache, to the cache's blobs.
    """

    folder: Path

    @cached_property
    def allowed_roots(self) -> tuple[Path, ...]:
        """The folders that its files, with links resolved, may lie in."""
        root = self.folder.resolve()
        # a snapshot in the Hub's cache holds only links: models--ORG--NAME/snapshots/COMMIT -> ../../blobs
        return (root, root.parents[1] / "blobs") if root.parent.name == "snapshots" else (root,)

    @cached_property
    def config(self) -> Json:
        """The content of config.json; empty if there is none."""
        return self.read_json(CONFIG)

    @property
    def class_name(self) -> str | None:
        """The transformers class that config.json names as the one it was saved from; None if it names none."""
        found = self.config.get("architectures")
        return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else None

    @property
    def tokenizer_class(self) -> Any:
        """The tokenizer class that tokenizer_config.json names, or else config.json; None if neither does."""
        return self.read_json(TOKENIZER_CONFIG).get("tokenizer_class") or self.config.get("tokenizer_class")

    def has(self, name: str) -> bool:
        """Return whether there is such a file; a broken link counts as one.

        Raises:
            ValueError: the folder may not be entered.
        """
        path = self.folder / name
        try:
            return exists(path) or is_link(path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # a damaged file may list such a name
                return False
            raise ValueError(f"{path}: cannot be read: {error.strerror}") from None

    def path(self, name: str) -> Path:
        """The path of a file, with links resolved.

        Raises:
            ValueError: it is missing, is not a regular file, cannot be opened, lies outside the folder, or is a Git LFS
                pointer.
        """
        path = self.folder / name
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):  # also a link to itself
            raise ValueError(f"{path}: no such file") from None
        inside = Path(name).parent in (Path(), Path(CHAT_FOLDER))
        if not inside or not any(real.is_relative_to(place) for place in self.allowed_roots):
            raise ValueError(f"{path}: leads out of the folder; zoo reads nothing outside it")
        if not stat.S_ISREG(real.stat().st_mode):  # reading a pipe would wait for ever
            raise ValueError(f"{path}: is not a regular file")
        try:
            with real.open("rb"):
                refuse_pointer(path)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        return real

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            ValueError: as `path`, or it is too large or cannot be read.
        """
        try:
            with self.path(name).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ValueError(f"{self.folder / name}: {error.strerror}") from None
        if len(content) > MOST_BYTES:
            raise ValueError(f"{self.folder / name}: is larger than {MOST_BYTES // 2**20} MiB, which zoo does not read")
        return content

    def read_json(self, name: str) -> Json:
        """Read a JSON file that holds a map; an empty map if there is no such file.

        Raises:
            ValueError: as `read`, or it is not a JSON map.
        """
        return parse_json(self.read(name), str(self.folder / name)) if self.has(name) else {}


def decode_text(content: bytes, place: str) -> str:
    """The text of a file in UTF-8.

    Raises:
        ValueError: it is not UTF-8; the message begins with `place`.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: not UTF-8 text: byte {error.start + 1}") from None
