"""A time limit for a user's function, in the process that calls it.

A timer interrupts Python code in the main thread of a process, where Spark's workers run tasks. It cannot interrupt C code
that does not return: then the worker is killed from outside.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

# On a busy machine a function gets little of the processor: by the clock it has so many times as long.
_CLOCK_FACTOR = 4
_limit_s = 0.0


class Overtime(BaseException):
    """Raised inside a function that takes too long. It is no Exception, so that the function's own handlers do not catch it."""


def limit_functions(seconds: float) -> None:
    """The longest processor time that a function of this process may take for a row; 0: any time."""
    global _limit_s
    _limit_s = seconds


@contextlib.contextmanager
def time_limit(progress: Callable[[], int], factor: float = 1.0) -> Iterator[None]:
    """Raise Overtime where `progress` stays the same for too long; `factor` times the limit of the process."""
    seconds = _limit_s * factor
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, used, since = progress(), time.process_time(), time.monotonic()

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen, used, since
        now = progress()
        if now != seen:
            seen, used, since = now, time.process_time(), time.monotonic()
        elif time.process_time() - used >= seconds or time.monotonic() - since >= seconds * _CLOCK_FACTOR:
            raise Overtime

    before = signal.signal(signal.SIGALRM, look)
    # A function that catches everything is interrupted again.
    signal.setitimer(signal.ITIMER_REAL, seconds / 2, seconds / 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
