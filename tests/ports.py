"""Ports at which processes of a test meet."""

import os
import socket
from itertools import count

PORTS = range(10_000, 30_000)  # below those that the system gives to whoever asks for any, gloo among them
tried = count(os.getpid() * 101)  # tests run in several processes, which begin at different places


def free_port() -> int:
    """A port that nobody listens at, and that the system gives to nobody before the processes meet."""
    while True:
        port = PORTS[next(tried) % len(PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
