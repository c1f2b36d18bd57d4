"""A Hugging Face Hub of data sets on this machine, for the real clients: commits in memory, faults where wanted."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from local_server import QuietHandler, served

RESET, SHORT = "reset", "short"  # the connection breaks before the answer, or in the middle of it


class Request(NamedTuple):
    """What was asked.

    Args:
        size: bytes of a file's content that the answer has.
    """

    method: str
    path: str
    size: int = 0


Fault = Callable[[Request], int | str | None]


class DataHub:
    """One repository, and what was asked of it.

    Args:
        commits: the files of each, the newest last; branches name one, and `main` the newest.
        fault: what happens instead of an answer: a status, `RESET`, `SHORT`, or nothing.
    """

    def __init__(self, name: str) -> None:
        self.name, self.url = name, ""
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.requests: list[Request] = []
        self.fault: Fault = no_fault

    def commit(self, files: Mapping[str, bytes]) -> str:
        """Add a commit that has these files alone."""
        decided = [len(self.commits), sorted(files)]
        head = hashlib.sha1(json.dumps(decided).encode()).hexdigest()
        self.commits[head], self.branches["main"] = dict(files), head
        return head

    def bytes_of(self, file: str) -> int:
        """How much of a file was sent, or would have been without a fault."""
        return sum(one.size for one in self.requests if one.path.endswith(f"/{file}"))


def no_fault(request: Request) -> None:
    """Every request has its answer."""


class Handler(QuietHandler):
    """One request."""

    hub: DataHub

    def do_any(self) -> None:
        body = self.body()
        path = unquote(urlsplit(self.path).path)
        status, headers, content = self.answer(path, body)
        holds = self.command == "GET" and "/resolve/" in path and status < 300
        request = Request(self.command, path, len(content) if holds else 0)
        self.hub.requests.append(request)
        fault = self.hub.fault(request)
        if fault == RESET:
            self.close_connection = True
            return
        if isinstance(fault, int):
            status, headers, content = fault, {}, b""
        self.say(status, headers, content, fault == SHORT)

    do_GET = do_POST = do_HEAD = do_any

    def say(self, status: int, headers: dict[str, str], content: bytes, short: bool) -> None:
        self.send(status, headers, content, len(content) // 2 if short else None)
        if short and self.command != "HEAD":  # whose answer is whole: what is asked next would meet a closed connection
            self.close_connection = True

    def answer(self, asked: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        interface, files = f"/api/datasets/{self.hub.name}", f"/datasets/{self.hub.name}/resolve/"
        if asked.startswith(files):
            revision, _, path = asked.removeprefix(files).partition("/")
            return self.file(self.hub.branches.get(revision, revision), path)
        words = asked.removeprefix(interface).strip("/").split("/")
        revision = words[1] if len(words) > 1 else "main"
        head = self.hub.branches.get(revision, revision)
        if not asked.startswith(interface) or head not in self.hub.commits:
            code = "RevisionNotFound" if asked.startswith(interface) else "RepoNotFound"
            return 404, {"X-Error-Code": code}, b"{}"
        entries = [entry(path, content) for path, content in self.hub.commits[head].items()]
        if words[0] == "paths-info":
            wanted = parse_qs(body.decode())["paths"]
            entries = [one for one in entries if one["path"] in wanted]
        if words[0] == "tree" and len(words) > 2:  # no repository here has folders
            return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"
        told = {"id": self.hub.name, "sha": head, "siblings": [{"rfilename": one["path"]} for one in entries]}
        return 200, {}, json.dumps(entries if words[0] in ("tree", "paths-info") else told).encode()

    def file(self, head: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """A file's content, or some bytes of it."""
        if path not in self.hub.commits.get(head, {}):
            known = head in self.hub.commits
            return 404, {"X-Error-Code": "EntryNotFound" if known else "RevisionNotFound", "X-Repo-Commit": head}, b""
        whole = self.hub.commits[head][path]
        headers = {"ETag": f'"{git_name(whole)}"', "X-Repo-Commit": head, "Accept-Ranges": "bytes"}
        ends = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if ends is None:
            return 200, headers, whole
        start, stop = int(ends[1]), min(len(whole), int(ends[2]) + 1 if ends[2] else len(whole))
        if start >= len(whole):
            return 416, headers, b""
        return 206, {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{len(whole)}"}, whole[start:stop]


def entry(path: str, content: bytes) -> dict[str, Any]:
    """A file in a listing."""
    last = {"id": "0" * 40, "title": "data", "date": "2026-01-01T00:00:00.000Z"}
    return {"type": "file", "path": path, "size": len(content), "oid": git_name(content), "lastCommit": last}


def git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def data_hub(name: str) -> Iterator[DataHub]:
    """Serve until the block ends."""
    hub = DataHub(name)
    with served(Handler, hub) as hub.url:
        yield hub
