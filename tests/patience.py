"""How long a test waits for another process: however busy the machine is, only what hangs takes so long."""

HANGS = 3600.0  # seconds
