"""Claims about memory: glibc takes the settings, other C libraries are left alone."""

import platform

import pytest

from zoo.training import memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_glibc_agrees_to_keep_large_blocks():
    assert memory.keep_large_blocks()


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    assert not memory.keep_large_blocks()
