"""A folder that was cloned without Git LFS is recognised as such."""

from pathlib import Path

import pytest

from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.sources.headers import find_tensors

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:74541fa3bddf35c2ed35a7c2\nsize 1302138752\n"


def test_a_git_lfs_pointer_is_named_as_one_among_weights_and_small_files(tmp_path: Path):
    checkpoint = CheckpointFolder(tmp_path)
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text(POINTER)
    refusal = r"{}: is a Git LFS pointer, .*; run `git lfs pull` to get it"
    with pytest.raises(ValueError, match=refusal.format("model.safetensors")):
        find_tensors(checkpoint)
    with pytest.raises(ValueError, match=refusal.format("tokenizer.json")):
        checkpoint.read("tokenizer.json")
