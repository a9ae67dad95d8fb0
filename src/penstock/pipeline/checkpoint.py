"""Spark's checkpoint, which is scratch: each streaming query gets an empty one and begins at the last commit record.

Spark writes it without syncing, so a power cut leaves any part of it. Nothing of an uncommitted cycle is visible, so
nothing is lost with it: the next streaming query plans the same rows anew, perhaps up to another end.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from penstock.cycle.folder import DataFolder


def new_checkpoint(folder: DataFolder) -> Path:
    """An empty folder for a streaming query that is about to start; those of former queries are removed."""
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
    fresh = folder.checkpoints / uuid.uuid4().hex
    fresh.mkdir(parents=True)
    return fresh
