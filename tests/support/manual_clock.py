"""A clock that tests move by hand."""

from __future__ import annotations


class ManualClock:
    """It says the time that a test has set."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def set(self, now_us: int) -> None:
        self._now_us = now_us

    def advance(self, delta_us: int) -> None:
        self._now_us += delta_us
