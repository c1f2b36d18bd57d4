"""Claims about metrics.jsonl: cut back to a mark, and any change of what a mark knows is found."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from zoo.runs.metrics import Mark, MetricsLog, read_metrics

START = Mark()


def write(path: Path, *steps: int, mark: Mark = START) -> Mark:
    log = MetricsLog(path, mark)
    for step in steps:
        log.append({"step": step})
    found = log.mark()
    log.close()
    return found


def test_a_log_that_goes_on_from_a_mark_is_the_log_that_never_stopped(tmp_path: Path):
    mark = write(tmp_path / "a", 1, 2)
    write(tmp_path / "a", 3, mark=mark)
    again = write(tmp_path / "a", 3, 4, mark=mark)
    assert again == write(tmp_path / "b", 1, 2, 3, 4)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert [line["step"] for line in read_metrics(tmp_path / "a", again)] == [1, 2, 3, 4]


def test_the_hash_of_a_log_is_the_one_that_earlier_versions_wrote(tmp_path: Path):
    first = sha256(b'{"step": 1}\n').hexdigest()
    both = sha256(first.encode() + b'{"step": 2}\n').hexdigest()
    assert write(tmp_path / "a", 1, 2) == Mark(24, both)


def test_what_a_kill_left_of_the_last_line_is_dropped(tmp_path: Path):
    mark = write(tmp_path / "a", 1)
    with (tmp_path / "a").open("ab") as log:
        log.write(b'{"step": 2}\n{"st')
    assert [line["step"] for line in read_metrics(tmp_path / "a", mark)] == [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"2", b"3", "the checksum of its first 24 bytes does not match"),
        (b'{"step": 2}\n', b"", "it has 12 bytes, but had 24 at the checkpoint"),
        (b"\n", b" ", "bytes does not match"),
    ],
)
def test_a_change_before_the_mark_is_found(tmp_path: Path, old: bytes, new: bytes, words: str):
    mark = write(tmp_path / "a", 1, 2)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(old, new))
    with pytest.raises(ValueError, match=f"a: is damaged, .*{words}"):
        read_metrics(tmp_path / "a", mark)


def test_a_line_that_is_no_map_is_named(tmp_path: Path):
    (tmp_path / "a").write_bytes(b'{"step": 1}\nNaN\n')
    with pytest.raises(ValueError, match="a: line 2: not JSON"):
        read_metrics(tmp_path / "a", Mark())
    with pytest.raises(ValueError, match="absent: No such file"):
        read_metrics(tmp_path / "absent", Mark())


def test_a_shorter_log_is_set_aside_and_the_lines_of_a_new_one_count(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    mark = write(tmp_path / "a", 1, 2)
    os.truncate(tmp_path / "a", 15)
    again = write(tmp_path / "a", 3, 4, mark=mark)
    assert read_metrics(tmp_path / "a", again) == [{"step": 3}, {"step": 4}]
    assert (tmp_path / "a.1").read_bytes() == b'{"step": 1}\n{"s'
    assert (
        "a: is damaged, it has 15 bytes, but had 24 at the checkpoint; it is kept as a.1; a new log sta" in caplog.text
    )
    with pytest.raises(ValueError, match="a: starts at step 3, since the log before it was lost"):
        read_metrics(tmp_path / "a", mark)


def test_a_log_that_is_gone_is_replaced_and_goes_on_from_its_own_marks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    mark = write(tmp_path / "a", 1, 2)
    (tmp_path / "a").unlink()
    again = write(tmp_path / "a", 3, mark=mark)
    assert "a: no such file; a new log starts: the results and curves up to this checkpoint are unknown" in caplog.text
    caplog.clear()
    assert read_metrics(tmp_path / "a", write(tmp_path / "a", 4, mark=again)) == [{"step": 3}, {"step": 4}]
    assert not caplog.text and os.listdir(tmp_path) == ["a"]


def test_a_log_that_was_changed_and_not_cut_is_told_of_on_resume(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """What follows the checkpoint is cut off anyway, so damage there is not told of."""
    mark = write(tmp_path / "a", 1, 2)
    with (tmp_path / "a").open("ab") as log:
        log.write(b'{"step": 3}\ngarbage')
    write(tmp_path / "a", 3, mark=mark)
    assert not caplog.text
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(b"2", b"7"))
    write(tmp_path / "a", 3, mark=mark)
    assert "a: is damaged, the checksum of its first 24 bytes does not match; it is kept as a.1" in caplog.text


def test_a_full_disk_names_the_file(tmp_path: Path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    log = MetricsLog(tmp_path / "a", Mark())
    log.close()
    log.file = open("/dev/full", "ab", buffering=0)
    with pytest.raises(
        RuntimeError, match="a: cannot be written: No space left on device; the checkpoints are undamaged"
    ):
        log.append({"step": 1})
    log.close()


def test_a_line_that_the_system_takes_piece_by_piece_is_written_whole(tmp_path: Path):
    class Slow:
        """A file of which a call writes at most four bytes."""

        def __init__(self) -> None:
            self.written = b""

        def write(self, data: memoryview) -> int:
            self.written += bytes(data[:4])
            return len(data[:4])

    log = MetricsLog(tmp_path / "a", Mark())
    log.close()
    log.file = slow = Slow()
    log.append({"step": 1})
    assert slow.written == b'{"step": 1}\n'


@pytest.mark.parametrize(("line", "step"), [(b'{"step": 2}', "2"), (b'{"loss": 2}', "None")])
def test_a_line_after_the_mark_that_is_not_of_its_step_is_damage(line: bytes, step: str, tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + line + b"\n")
    with pytest.raises(ValueError, match=rf"metrics.jsonl: line 3: is damaged, it names step {step}"):
        read_metrics(path, Mark())


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 3)], ids=["deleted", "cut"])
def test_a_log_that_is_not_what_was_written_is_told_of_at_a_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
):
    """The training goes on; only the results of an export need it."""
    log = MetricsLog(tmp_path / "metrics.jsonl", Mark())
    log.append({"step": 1})
    log.mark()
    assert not caplog.text
    harm(tmp_path / "metrics.jsonl")
    log.append({"step": 2})
    log.mark()
    log.close()
    assert caplog.text.count("metrics.jsonl: was deleted or changed during training; without it, the results") == 1
