"""A look at other threads from outside, for tests that must go on only once one of them waits."""

from __future__ import annotations

import sys
import threading
import time

_PATIENCE_S = 60.0


def await_waiting(thread: threading.Thread) -> None:
    """Return once a thread waits for a lock, a condition, an event or the end of another thread."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        frame = sys._current_frames().get(thread.ident or 0)
        if frame is not None and frame.f_code.co_filename == threading.__file__:
            return
        assert time.monotonic() < deadline, f"{thread.name} never waited"
        time.sleep(0.001)
