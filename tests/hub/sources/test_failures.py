"""Claims about failures of the Hub: which of them zoo tries again, and what is none."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from zoo.hub.publishing.push import check_committed
from zoo.hub.publishing.repository import Repository
from zoo.hub.sources.failures import HubFailure, hub_errors


@pytest.mark.parametrize("retried", [False, True])
def test_what_the_client_has_tried_again_itself_zoo_does_not(retried: bool):
    with pytest.raises(HubFailure, match=r"^looking: the connection failed \(TimeoutError: late\)$") as found:
        with hub_errors("looking", retried):
            raise TimeoutError("late")
    assert found.value.temporary is not retried


def test_an_upload_that_failed_is_not_tried_again_since_the_client_has_done_so(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    repository = Repository("org/name", Mock(preupload_lfs_files=Mock(side_effect=TimeoutError("late"))), 1.0)
    with pytest.raises(HubFailure, match="^uploading to org/name: the connection failed") as found:
        repository.upload([tmp_path / "config.json"])
    assert not found.value.temporary


def test_a_repository_that_is_gone_after_the_commit_is_a_failure_that_is_tried_again(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(HubFailure, match=r"holds something else than was committed: \['config.json'\]") as found:
        check_committed(Mock(info=lambda: None), [tmp_path / "config.json"], ["old.json"])
    assert found.value.temporary


@pytest.mark.parametrize(("private", "asked"), [(True, True), (False, None)])
def test_a_repository_that_somebody_creates_meanwhile_is_taken(private: bool, asked: bool | None):
    api = Mock()  # None leaves it to the organisation's own rule
    assert Repository("org/name", api, 1.0).create(private) is api.model_info.return_value
    api.create_repo.assert_called_once_with("org/name", private=asked, exist_ok=True)
