"""What a run starts from."""

from pathlib import Path

import pytest

from zoo.experiments import pretrain
from zoo.experiments.pretrain import vectors_to_start_from
from zoo.experiments.request import Request
from zoo.models.settings import load_settings


def test_a_run_without_a_checkpoint_starts_from_its_vectors_also_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dog 1 2\n")
    settings = load_settings("bert-nano", [(("embeddings", "vectors"), str(vectors))])
    for resume in (False, True):
        request = Request("bert-nano", "task", tmp_path / "run", resume=resume)
        assert vectors_to_start_from(settings, request) == vectors
    monkeypatch.setattr(pretrain, "can_resume", lambda folder: folder == tmp_path / "run" / "checkpoints")
    assert vectors_to_start_from(settings, request) is None
    vectors.unlink()
    with pytest.raises(ValueError, match=r"embeddings.vectors: .*/vectors.txt: no such file"):
        vectors_to_start_from(settings, Request("bert-nano", "task", tmp_path / "other"))
