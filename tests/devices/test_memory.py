"""Claims about memory: glibc takes the settings, other C libraries are left alone."""

import platform

import pytest

from zoo.devices import memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_glibc_agrees_to_keep_large_blocks():
    assert memory.keep_large_blocks()


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    assert not memory.keep_large_blocks()


def test_where_glibc_refuses_the_threshold_nothing_is_set(monkeypatch: pytest.MonkeyPatch):
    asked = []

    class Old:
        def mallopt(self, parameter: int, value: int) -> int:
            asked.append(parameter)
            return int(parameter != memory.M_MMAP_THRESHOLD)

    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("glibc", "2.17"))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Old())
    assert not memory.keep_large_blocks() and asked == [memory.M_MMAP_THRESHOLD]
