"""Claims about environment.json: it names what the run ran on, and no secret."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from zoo.runs import environment, files
from zoo.runs.environment import changes, describe_environment, missing_since, versions, zoo_commit
from zoo.runs.files import read_json, read_sealed, seal


def test_the_environment_names_versions_threads_and_devices():
    found = describe_environment(["zoo", "pretrain"], ["cpu", "cpu"])
    assert found["versions"]["torch"] and found["threads"] >= 1
    assert (found["processes"], found["devices"], found["command"]) == (2, ["cpu", "cpu"], ["zoo", "pretrain"])
    json.dumps(found, allow_nan=False)


def test_tokens_do_not_reach_the_file():
    assert "hf_abcDEF123" not in json.dumps(describe_environment(["zoo", "--token=hf_abcDEF123"], []))


def test_only_what_can_change_bits_counts_as_a_change():
    (change,) = changes({"threads": 1, "command": []}, {"threads": 2, "command": ["x"]})
    assert change == "the resumed run may differ in its last bits: threads: 1 -> 2"
    deciding = ["versions", "instructions", "threads", "devices", "attention", "precision", "processes"]
    assert len(changes(dict.fromkeys(deciding, 1), dict.fromkeys(deciding, 2))) == 7


def test_packages_that_register_variants_are_named_with_their_versions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment, "variant_packages", lambda: {"mine": "2"})
    assert versions()["mine"] == "2" and versions().keys() > {"torch", "mine"}
    assert missing_since({"versions": {"mine": "1", "torch": "0", "theirs": "3"}}) == ["theirs 3"]


def test_what_was_sealed_is_read_and_what_was_changed_is_refused(tmp_path: Path):
    path, tree = tmp_path / "environment.json", {"threads": 1, "files": {}}
    path.write_bytes(seal(tree))
    assert read_sealed(path) == tree
    for old, new, words in (
        (b"1", b"2", "its checksum does not match"),
        (b"sha256", b"sha257", "its SHA-256 is missing"),
    ):
        path.write_bytes(seal(tree).replace(old, new, 1))
        with pytest.raises(ValueError, match=f"environment.json: is damaged, {words}"):
            read_sealed(path)


def test_the_seal_of_a_file_is_the_one_that_earlier_versions_wrote(tmp_path: Path):
    """Another spelling of what is hashed would make every existing checkpoint a damaged one."""
    hashed = b'{\n "command": [\n  "caf\\u00e9"\n ],\n "step": 1.5\n}\n'
    written = {**json.loads(hashed), "sha256": hashlib.sha256(hashed).hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps(written))
    assert read_sealed(tmp_path / "manifest.json") == {"command": ["café"], "step": 1.5}


def test_what_is_no_file_or_too_large_a_one_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="folder: is not a file"):  # nor is a pipe, which would be waited for
        read_json(tmp_path / "folder")
    (tmp_path / "large").write_bytes(b'{"a": 12}')
    monkeypatch.setattr(files, "MAX_BYTES", 9)
    assert read_json(tmp_path / "large") == {"a": 12}
    monkeypatch.setattr(files, "MAX_BYTES", 8)
    with pytest.raises(ValueError, match="large: is damaged, it has more than 8 bytes"):
        read_json(tmp_path / "large")


def test_the_commit_is_that_of_zoos_own_checkout_and_not_of_the_folder_that_a_command_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commit = ["git", "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "mine"]
    (tmp_path / "zoo.py").write_text("")
    (tmp_path / "ignored.py").write_text("")
    for words in (["git", "init", "-q"], ["git", "add", "zoo.py"], commit):
        subprocess.run(words, cwd=tmp_path, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
    monkeypatch.chdir(tmp_path)
    assert describe_environment([], [])["zoo_commit"] != head.stdout.strip()
    assert zoo_commit(tmp_path / "zoo.py") == head.stdout.strip()
    assert zoo_commit(tmp_path / "ignored.py") is None  # as zoo in an environment inside that repository
    assert zoo_commit(tmp_path.parent / "nothing" / "zoo.py") is None
