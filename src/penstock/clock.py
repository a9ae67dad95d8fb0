"""The one place that reads the machine's clocks. Everything is UTC, in whole microseconds since the epoch.

The server does not follow the wall clock blindly: `clock_guard.GuardedClock` stands between them.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

SECOND = 1_000_000


class Clock(Protocol):
    """Whatever can say what time it is."""

    def now_us(self) -> int: ...


class WallClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000


def elapsed_us() -> int:
    """Time since the machine started, also while it slept; no setting of the wall clock moves it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def boot_id() -> str:
    """The name of this start of the machine: `elapsed_us` of two processes may be compared only if it is the same."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def file_age_s(modified_s: float) -> float:
    """Seconds since a file's time of change, which the wall clock gave it."""
    return time.time() - modified_s


def format_timestamp(us: int) -> str:
    """ISO 8601 with microseconds and Z, as every reply shows times."""
    return datetime.fromtimestamp(us // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{us % SECOND:06d}Z"


def parse_timestamp(text: str) -> int:
    """Microseconds of an ISO 8601 text; without an offset it is UTC. ValueError where it is none."""
    moment = datetime.fromisoformat(text.strip().replace(" ", "T", 1))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
