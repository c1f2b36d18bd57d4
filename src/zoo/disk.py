"""What lasts through a crash of the machine."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
