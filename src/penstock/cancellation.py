"""Whether the work of one statement shall stop: it was cancelled, or its time is up.

A `Cancellation` travels with the work, from the event loop into the thread that does it, as the caller does. Loops
that read call `check()` once per piece; without a `Cancellation` that is a look at a context variable.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import PenstockError, error


class Cancellation:
    """The end of one statement, asked for by any thread and noticed by those that work for it.

    `timeout_s` is what the client asked for. `place` says where the work is done right now: server or Spark.
    `standing`: it is an evaluation of a standing query, which is no user's statement.
    """

    def __init__(self, timeout_s: float | None = None, standing: bool = False) -> None:
        self.id = secrets.token_hex(8)
        self.timeout_s = timeout_s
        self.standing = standing
        self.place = "server"
        self._limit_s = 0.0
        self._deadline_s: float | None = None
        self._lock = threading.Lock()
        self._reason: tuple[str, str] | None = None
        self._callbacks: list[Callable[[], None]] = []

    def limit(self, seconds: float) -> None:
        """The work may take so long from now on."""
        self._limit_s = seconds
        self._deadline_s = time.monotonic() + seconds

    def left_s(self) -> float | None:
        """Seconds until the deadline; None where there is none."""
        return None if self._deadline_s is None else max(0.0, self._deadline_s - time.monotonic())

    @property
    def stopped(self) -> bool:
        return self._reason is not None

    def cancel(self, detail: str) -> bool:
        """Ask the work to end. False where it was asked to before."""
        return self._stop("statement_cancelled", detail)

    def expire(self) -> bool:
        """End the work because its time is up."""
        return self._stop("statement_timeout", f"the statement took longer than {self._limit_s:g} s")

    def _stop(self, condition: str, detail: str) -> bool:
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = (condition, detail)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True

    def check(self) -> None:
        """Raise statement_cancelled or statement_timeout once the work shall end."""
        if self._reason is None and self._deadline_s is not None and time.monotonic() >= self._deadline_s:
            self.expire()
        if self._reason is not None:
            raise self.failure()

    def failure(self) -> PenstockError:
        """What a stopped statement ends with."""
        assert self._reason is not None
        condition, detail = self._reason
        hint = "ask for less, or for more time with timeout_s" if condition == "statement_timeout" else None
        return error(condition, detail=detail, hint=hint)

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once, from the thread that ends the work, at once if that has happened; gives what takes it back."""
        with self._lock:
            if self._reason is None:
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


_current: ContextVar[Cancellation | None] = ContextVar("penstock_cancellation", default=None)


def current_cancellation() -> Cancellation | None:
    return _current.get()


@contextmanager
def cancelled_by(cancellation: Cancellation) -> Iterator[None]:
    """Everything inside ends when `cancellation` says so."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def check_cancelled() -> None:
    """The same for work that may take longer than its time: only once it was asked to end."""
    cancellation = _current.get()
    if cancellation is not None and cancellation.stopped:
        raise cancellation.failure()


def check() -> None:
    """End here if the statement that this works for shall end."""
    cancellation = _current.get()
    if cancellation is not None:
        cancellation.check()
