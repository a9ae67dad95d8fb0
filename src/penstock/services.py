"""Services: background work without an end, each in a thread of its own that outlives every exception.

A component makes a `Service` of its loop, starts it and stops it; the database lists all of them in
`penstock.services` and in health. No other module starts an endless thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from penstock.back_off import BackOff

_log = logging.getLogger("penstock.services")
BACK_OFF_MIN_S = 0.5
BACK_OFF_MAX_S = 60.0
_SHOWN_CHARS = 500

State = Literal["not started", "running", "restarting", "stopped"]


class Service:
    """Calls `step` again and again, each time after the seconds that it returned, until it returns None or `stop`.

    The first call comes after `first_s`. A step that raises is logged and called again after a pause of 0.5 s, doubled with
    each failure in a row, up to `back_off_max_s`. While a `critical` service fails, the server is not ready.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float | None],
        *,
        critical: bool = False,
        first_s: float = 0.0,
        back_off_max_s: float = BACK_OFF_MAX_S,
    ) -> None:
        self.name = name
        self.step = step
        self.critical = critical
        self._first_s = first_s
        self._back_off = BackOff(BACK_OFF_MIN_S, back_off_max_s)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name.replace(' ', '-')}", daemon=True)
        self._state: State = "not started"
        self._rounds = 0
        self._failures = 0
        self._failed_in_a_row = 0
        self._last_error: str | None = None
        self._succeeded_at_s: float | None = None

    def start(self) -> None:
        self._state = "running"
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the step under way; returns at once."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Rest inside of a step; whether the service was asked to end meanwhile."""
        return self._stop.wait(seconds)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until its thread has ended; at once where it never began, or where this is that thread."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def failure(self) -> str | None:
        """Why it does not work right now; None while it does."""
        return self._last_error if self._state == "restarting" else None

    def facts(self) -> dict[str, Any]:
        """The row of the system table, with `succeeded_s` ago in place of a time."""
        succeeded = self._succeeded_at_s
        return {
            "name": self.name,
            "state": self._state,
            "critical": self.critical,
            "rounds": self._rounds,
            "failures": self._failures,
            "last_error": self._last_error,
            "succeeded_s": None if succeeded is None else time.monotonic() - succeeded,
        }

    def counts(self) -> dict[str, int]:
        """The numbers of the metrics."""
        return {"failing": int(self.failure is not None), "rounds": self._rounds, "failures": self._failures}

    def _run(self) -> None:
        try:
            self._stop.wait(self._first_s)
            while not self._stop.is_set():
                self._state = "running"
                began_s = time.monotonic()
                try:
                    pause_s = self.step()
                except BaseException as failure:  # also SystemExit: code of a connector may say anything
                    if time.monotonic() - began_s > self._back_off.most_s:
                        self._failed_in_a_row = 0  # a round of hours was not one of a row of failures
                    self._stop.wait(self._note_failure(failure))
                    continue
                self._rounds += 1
                self._failed_in_a_row = 0
                self._succeeded_at_s = time.monotonic()
                if pause_s is None:
                    return
                if pause_s > 0:
                    self._stop.wait(pause_s)
        finally:
            self._state = "stopped"

    def _note_failure(self, failure: BaseException) -> float:
        """The seconds until the next attempt."""
        text = (f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__)[:_SHOWN_CHARS]
        pause_s = self._back_off.pause_s(self._failed_in_a_row + 1)
        # The trace once, not at every attempt: a full disk lasts for hours.
        repeated = text == self._last_error and self._failed_in_a_row > 0
        _log.error(
            'service "%s" failed and starts again in %.1f s: %s',
            self.name,
            pause_s,
            text,
            exc_info=None if repeated else failure,
        )
        self._failures += 1
        self._failed_in_a_row += 1
        self._last_error = text
        self._state = "restarting"
        return pause_s
