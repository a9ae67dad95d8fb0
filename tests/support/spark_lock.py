"""One Spark at a time on a machine, whichever test run starts it: two would fight for cores and memory."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 900.0
_held = False


@contextmanager
def one_spark() -> Iterator[None]:
    """Held while a server or a database with Spark runs. Not reentrant: a test that holds it starts one Spark."""
    global _held
    assert not _held, "a fixture of this run still has a Spark of its own: give it a narrower scope"
    descriptor = os.open(Path(tempfile.gettempdir()) / "penstock-spark-test.lock", os.O_RDWR | os.O_CREAT, 0o666)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                assert time.monotonic() < deadline, "another test run has had Spark for a quarter of an hour"
                time.sleep(0.2)
        _held = True
        yield
    finally:
        _held = False
        os.close(descriptor)
