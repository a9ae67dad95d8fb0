"""Files and folders that survive a power cut, and files that are there complete or not at all."""

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


def replace_file(path: Path, data: bytes, synced: bool = False) -> None:
    """Write a file that only its owner reads, complete or not at all: aside, then renamed."""
    aside = path.with_name(f".{path.name}.aside")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        if synced:  # by the same descriptor: an error of writing is told to it
            file.flush()
            os.fsync(file.fileno())
    os.replace(aside, path)
    if synced:
        sync_folder(path.parent)
