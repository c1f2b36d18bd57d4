"""The repositories of the hub on this machine: commits of files in memory."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

LARGE = (".safetensors", ".png")


@dataclass(frozen=True)
class Blob:
    """A file's content and the title of the commit that wrote it."""

    content: bytes
    large: bool
    title: str
    known: str | None = None  # its SHA-256, where the content itself lies elsewhere
    bytes: int | None = None  # its size, likewise

    @property
    def size(self) -> int:
        return len(self.content) if self.bytes is None else self.bytes

    @property
    def sha256(self) -> str:
        return self.known or hashlib.sha256(self.content).hexdigest()

    @property
    def git(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()

    @property
    def lfs(self) -> dict[str, Any]:
        return {"oid": self.sha256, "sha256": self.sha256, "size": self.size, "pointerSize": 130}


@dataclass
class Repo:
    """A repository: all its commits, the newest last."""

    private: bool = False
    commits: list[dict[str, Blob]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.commit({".gitattributes": Blob(b"*.safetensors filter=lfs\n", False, "initial commit")})

    def commit(self, files: dict[str, Blob]) -> None:
        self.commits.append(files)

    @property
    def files(self) -> dict[str, Blob]:
        return self.commits[-1]

    @property
    def head(self) -> str:
        return f"{len(self.commits):040x}"

    def write(self, name: str, content: bytes, title: str = "Upload by hand") -> None:
        """A commit of somebody else."""
        self.commit({**self.files, name: Blob(content, name.endswith(LARGE), title)})
