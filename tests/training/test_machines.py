"""Claims about several machines: they train as one does, and a cut cable ends both sides.

The machines are network namespaces that a pair of virtual cards joins, each with a host name of its own.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import losses

NAMES = (f"zoo-a{os.getpid()}", f"zoo-b{os.getpid()}")
NETWORK = "10.213.77"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines() -> Iterator[list[dict[str, str]]]:
    """The environments of two machines that reach each other and nothing else."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need the program ip, and root")
    cards = [f"zv{i}{os.getpid()}" for i in range(2)]
    try:
        for name in NAMES:
            ip("netns", "add", name)
    except subprocess.CalledProcessError as refusal:
        pytest.skip(f"network namespaces are not allowed here: {refusal.stderr.decode().strip()}")
    try:
        ip("link", "add", cards[0], "type", "veth", "peer", "name", cards[1])
        for i, (name, card) in enumerate(zip(NAMES, cards, strict=True), 1):
            ip("link", "set", card, "netns", name)
            ip("-n", name, "addr", "add", f"{NETWORK}.{i}/24", "dev", card)
            for each in (card, "lo"):
                ip("-n", name, "link", "set", each, "up")
        shared = {"MASTER_ADDR": f"{NETWORK}.1", "MASTER_PORT": "29777"}
        pairs = zip(NAMES, cards, strict=True)
        yield [{**shared, "MACHINE": name, "GLOO_SOCKET_IFNAME": card} for name, card in pairs]
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_two_machines_train_as_one_process_does(machines: list[dict[str, str]], server: Any, tmp_path: Path):
    one = server.start(tmp_path / "one", 1)
    four = server.start(tmp_path / "four", 4, machines)
    assert [*one.wait(), *four.wait()] == [0] * 5, four.said()
    assert "started: 4 processes (DDP, MULTI_CPU) on cpu" in four.said()
    assert losses(tmp_path / "four") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)


def test_a_cut_cable_ends_both_machines(machines: list[dict[str, str]], server: Any, tmp_path: Path):
    fault = {"process": 1, "kind": "cut", "step": 8}
    ranks = server.start(tmp_path / "run", 2, machines, fault=fault)
    assert ranks.wait() == [1, 1], ranks.said()
    for here, there in ((0, 1), (1, 0)):
        assert re.search(rf"process {there} \(pid \d+ on {NAMES[there]}\) was silent for \d+ s", ranks.said(here))
