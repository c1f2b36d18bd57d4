"""Claims about the tokenizer that a task names."""

import pytest

from zoo.data.task import read_task
from zoo.experiments.tokenizers import check_tokenizer


def test_an_empty_path_to_a_run_is_not_the_working_directory() -> None:
    task = read_task({"objective": "masked_lm", "source": {"builtin": "pydocs"}, "tokenizer": {"from": ""}}, "task")
    with pytest.raises(ValueError, match="^task.tokenizer.from: it is empty; give a path"):
        check_tokenizer(task)
