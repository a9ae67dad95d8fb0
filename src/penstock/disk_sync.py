"""Files and folders that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """A new file is only there after a crash if the folder that names it was synced."""
    sync_file(path)
