"""A Hugging Face hub on this machine, for the real client: repositories in memory, faults where a test wants them.

It answers what pushing and loading ask; `faults` maps the number of a request to what happens instead of its answer.
"""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from local_repo import LARGE, Blob, Repo

from local_server import QuietHandler, served

RESET, STALL, LOST = "reset", "stall", "lost"  # the connection breaks, says nothing, or breaks when all is done


class LocalHub:
    """The server's state, and what it was asked.

    Args:
        stored: large files by SHA-256, committed or not.
        xet: the folder that the xet client writes to; None: large files come over LFS.
        chunk: bytes of one part of a large file; None: it comes in one piece.
        seen: all headers and bodies received, for tests that look for a secret.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.faults: dict[int, int | str] = {}
        self.token = "hf_right"
        self.url = ""
        self.xet: Path | None = None
        self.chunk: int | None = None
        self.silence = 1.0
        self.seen: list[bytes] = []
        self.lock = threading.Lock()

    def forget(self) -> None:
        """Begin to count requests anew, without faults."""
        self.requests.clear()
        self.faults.clear()


Answer = tuple[int, Any]


class Handler(QuietHandler):
    """One request."""

    hub: LocalHub

    def do_any(self) -> None:
        body = self.body()
        with self.hub.lock:
            number = len(self.hub.requests)
            self.hub.requests.append(f"{self.command} {urlsplit(self.path).path}")
            self.hub.seen.append(str(self.headers).encode() + self.path.encode() + body)
        fault = self.hub.faults.get(number)
        if fault == RESET:
            return self.drop()
        if fault == STALL:
            time.sleep(self.hub.silence)
            return self.drop()
        status, answer = self.answer(body) if fault in (None, LOST) else (fault, {"error": f"fault {fault}"})
        if fault == LOST:
            return self.drop()
        self.say(status, answer)

    do_GET = do_POST = do_PUT = do_HEAD = do_any

    def drop(self) -> None:
        self.close_connection = True
        self.connection.close()

    def say(self, status: int, answer: Any) -> None:
        headers, content = answer if isinstance(answer, tuple) else ({}, answer)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        code = "EntryNotFound" if "/resolve/" in self.path else "RepoNotFound"
        self.send(status, {**headers, **({"X-Error-Code": code} if status == 404 else {})}, data)

    def answer(self, body: bytes) -> Answer:
        """Status and content, or (headers, content)."""
        path, hub = unquote(urlsplit(self.path).path), self.hub
        if path.startswith("/storage/"):
            return store(hub, path, body)
        if self.headers.get("Authorization") != f"Bearer {hub.token}":
            return 401, {"error": "Invalid credentials"}
        if path == "/api/repos/create":
            return create(hub, json.loads(body))
        if path == "/api/validate-yaml":
            return validate(json.loads(body)["content"])
        if path.endswith(".git/info/lfs/objects/batch"):
            return batch(hub, json.loads(body))
        words = path.strip("/").removeprefix("api/models/").split("/")
        name, rest = "/".join(words[:2]), words[2:]
        if name not in hub.repos:
            return 404, {"error": "Repository not found"}
        return self.of_repo(hub.repos[name], name, rest, body)

    def of_repo(self, repo: Repo, name: str, rest: list[str], body: bytes) -> Answer:
        """What is asked of a repository."""
        kind = rest[0] if rest else "revision"
        if kind == "revision":
            return 200, describe(repo, name, "blobs" in parse_qs(urlsplit(self.path).query))
        if kind == "resolve":
            return resolve(self.hub, repo, name, "/".join(rest[2:]))
        if kind == "tree":
            return 200, [entry(path, blob, False) for path, blob in repo.files.items()]
        if kind == "paths-info":
            asked = parse_qs(body.decode())
            expanded = asked["expand"][0].lower() == "true"
            return 200, [entry(path, repo.files[path], expanded) for path in asked["paths"] if path in repo.files]
        if kind == "preupload":
            return 200, {"files": [preupload(repo, file) for file in json.loads(body)["files"]]}
        if kind.startswith("xet-"):
            return token(self.hub)
        return commit(self.hub, repo, name, body)


def create(hub: LocalHub, given: dict[str, Any]) -> Answer:
    name = f"{given['organization']}/{given['name']}"
    if name in hub.repos:
        return 409, {"error": "You already created this model repo", "url": f"{hub.url}/{name}"}
    hub.repos[name] = Repo(private=given.get("visibility") == "private")
    return 200, {"url": f"{hub.url}/{name}"}


def validate(content: str) -> Answer:
    parts = content.split("---\n")
    try:
        found = yaml.safe_load(parts[1])
        assert isinstance(found, dict)
    except Exception as error:
        return 400, {"errors": [{"message": f"not YAML: {error}"}], "warnings": []}
    odd = [{"message": "empty or missing license"}] * ("license" not in found)
    return 200, {"errors": [], "warnings": odd}


def describe(repo: Repo, name: str, blobs: bool) -> dict[str, Any]:
    """A repository; of its files the names, and with `blobs` their sizes and hashes."""
    files = [{"rfilename": path, **(facts(blob) if blobs else {})} for path, blob in repo.files.items()]
    return {"id": name, "sha": repo.head, "private": repo.private, "siblings": files, "tags": []}


def facts(blob: Blob) -> dict[str, Any]:
    return {"size": blob.size, "blobId": blob.git, **({"lfs": blob.lfs} if blob.large else {})}


def entry(path: str, blob: Blob, expanded: bool) -> dict[str, Any]:
    """A file; its last commit is told only if it is asked for."""
    commit = {"id": "0" * 40, "title": blob.title, "date": "2026-01-01T00:00:00.000Z"}
    last = {"lastCommit": commit} if expanded else {}
    large = {"lfs": blob.lfs} if blob.large else {}
    return {"type": "file", "path": path, "size": blob.size, "oid": blob.git, **last, **large}


def preupload(repo: Repo, file: dict[str, Any]) -> dict[str, Any]:
    large, there = file["path"].endswith(LARGE), repo.files.get(file["path"])
    oid = None if there is None else there.sha256 if large else there.git
    return {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid}


def batch(hub: LocalHub, given: dict[str, Any]) -> Answer:
    """Where each large file goes; without actions where it is stored already."""
    objects: list[dict[str, Any]] = []
    for asked in given["objects"]:
        oid, size = asked["oid"], asked["size"]
        place, actions = f"{hub.url}/storage/{oid}", {}
        if oid not in hub.stored:
            actions = {"actions": {"upload": {"href": place}, "verify": {"href": f"{place}/verify"}}}
            if hub.chunk:
                count = -(-size // hub.chunk)
                parts = {f"{i + 1:05}": f"{place}/{i}" for i in range(count)}
                actions["actions"]["upload"]["header"] = {"chunk_size": str(hub.chunk), **parts}
        objects.append({"oid": oid, "size": size, **actions})
    return 200, {"objects": objects}


def store(hub: LocalHub, path: str, body: bytes) -> Answer:
    """A large file, whole or a part of it; its parts put together; or a look at it."""
    oid, _, rest = path.removeprefix("/storage/").partition("/")
    if rest == "verify":
        return (200, {}) if oid in hub.stored else (404, {})
    if rest:
        hub.parts.setdefault(oid, {})[int(rest)] = body
        return 200, ({"ETag": f'"{rest}"'}, b"")
    whole = b"".join(part for _, part in sorted(hub.parts.get(oid, {}).items())) if hub.chunk else body
    if hashlib.sha256(whole).hexdigest() != oid:
        return 400, {"error": "the content is not what its name says"}
    hub.stored[oid] = whole
    return 200, {}


def token(hub: LocalHub) -> Answer:
    known = {"accessToken": "short-lived", "exp": 4102444800, "casUrl": f"local://{hub.xet}"}
    names = ("X-Xet-Access-Token", "X-Xet-Token-Expiration", "X-Xet-Cas-Url")
    return 200, (dict(zip(names, map(str, known.values()), strict=True)), known)


def commit(hub: LocalHub, repo: Repo, name: str, body: bytes) -> Answer:
    """All lines of a commit at once, or none."""
    lines = [json.loads(line) for line in body.splitlines()]
    header, files = lines[0]["value"], dict(repo.files)
    if header.get("parentCommit", repo.head) != repo.head:
        return 412, {"error": "A commit has happened since. Please refresh and try again."}
    for line in lines[1:]:
        value = line["value"]
        if line["key"] == "file":
            files[value["path"]] = Blob(base64.b64decode(value["content"]), False, header["summary"])
        elif line["key"] == "lfsFile":
            if value["oid"] not in hub.stored and hub.xet is None:
                return 400, {"error": f"the content of {value['path']} was never uploaded"}
            if hub.xet is not None and not in_xet(hub.xet, value["oid"]):
                return 400, {"error": f"the content of {value['path']} is not in xet's store"}
            stored, title = hub.stored.get(value["oid"], b""), header["summary"]
            files[value["path"]] = Blob(stored, True, title, value["oid"], value["size"])
        else:
            del files[value["path"]]
    repo.commit(files)
    return 200, {"commitOid": repo.head, "commitUrl": f"{hub.url}/{name}/commit/{repo.head}"}


def resolve(hub: LocalHub, repo: Repo, name: str, path: str) -> Answer:
    """A file's content."""
    if path not in repo.files:
        return 404, {"error": "Entry not found"}
    blob = repo.files[path]
    headers = {"ETag": f'"{blob.sha256 if blob.large else blob.git}"', "X-Repo-Commit": repo.head}
    if blob.large:
        headers |= {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.content))}
    return 200, (headers, blob.content)


def in_xet(folder: Path, sha256: str) -> bool:
    """Whether one of the shards in xet's store has a file's hash, four numbers with their low bytes first."""
    numbers = [bytes.fromhex(sha256)[i : i + 8][::-1] for i in range(0, 32, 8)]
    return any(b"".join(numbers) in path.read_bytes() for path in folder.rglob("shards/*.mdb"))


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """Serve until the block ends."""
    hub = LocalHub()
    with served(Handler, hub) as hub.url:
        yield hub
