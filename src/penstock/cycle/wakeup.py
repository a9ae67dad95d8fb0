"""Wakes the planner process, which waits at a FIFO: the server signals that rows or definitions are on disk.

A signal means "look now", once for many changes. None is lost: the server signals after a change is on disk, and the planner
empties the FIFO before it looks at the disk.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from pathlib import Path

POLL_S = 0.02  # the pause between two looks where the file system has no FIFOs
_SIGNALS = 1 << 16  # what a FIFO holds


class Wakeup:
    """The planner's end of the FIFO, which it makes."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        with contextlib.suppress(OSError):
            os.mkfifo(path, 0o600)
            # For writing as well: a FIFO without a writer is at its end, and no wait would last.
            self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def clear(self) -> None:
        """Forget the signals so far; for a caller that looks at the disk next."""
        if self._file is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._file, _SIGNALS)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal since the last `clear`, at most so long; whether to look again."""
        if self._file is None:
            time.sleep(min(seconds, POLL_S))
            return True
        waiting = select.poll()
        waiting.register(self._file, select.POLLIN)
        return bool(waiting.poll(math.ceil(seconds * 1000)))


def signal(path: Path) -> None:
    """Wake the planner that waits at this FIFO, if one does. Any thread; never blocks."""
    with contextlib.suppress(OSError):  # no planner has opened it yet: it looks first. Or it is full of signals.
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(file, b"\0")
        finally:
            os.close(file)
