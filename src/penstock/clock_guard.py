"""A wall clock that jumps is not followed.

NOW follows the wall clock as long as that agrees with the time that has really passed (`elapsed_us`). Where it does not, NOW
goes on at its own pace (held) until the wall clock comes back, was stable long enough, or an admin accepts it. NOW never goes back:
where the wall clock is behind, NOW runs at half pace until the two meet.

The server process owns the `GuardedClock`. It leaves the line that NOW runs on in `tmp/clock` for the planner process
(`FolderClock`), and what the next start has to know in `clock.json`. Losing either file harms nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from penstock.clock import SECOND, Clock, WallClock, boot_id, elapsed_us, format_timestamp
from penstock.disk_sync import replace_file
from penstock.services import Service

_log = logging.getLogger("penstock.clock")

MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
STEP_MAX_US = 60 * SECOND
STABLE_US = 15 * MINUTE  # so long a step must stay the same before it is followed
FOLLOWED_US = DAY  # a larger step is followed only if an admin accepts it
PLAUSIBLE_US = 30 * DAY  # so long a machine may have been off
AGREED_US = 7 * DAY  # so long the wall clock must agree before retention catches up
RETENTION_GAIN_US = DAY  # what retention takes over at once of time that was not seen to pass
# A clock that is slewed changes by 10 % at most, so within this time by no more than the largest step; one that
# stands still or races is noticed.
_REFERENCE_US = 10 * MINUTE
_TICK_S = 1.0
_SAVE_US = MINUTE
_MOVED_US = 1_000
_FILE = "clock.json"
_SHARED = ("tmp", "clock")

State = Literal["followed", "held", "untrusted"]


@dataclass(frozen=True, slots=True)
class Line:
    """NOW as a function of elapsed time: at pace 1 along `target_us`, at half pace from `now_us` while that is behind."""

    elapsed_us: int
    now_us: int
    target_us: int

    def at(self, elapsed_us: int) -> int:
        passed = max(0, elapsed_us - self.elapsed_us)
        return max(self.now_us + passed // 2, self.target_us + passed)


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """Whether NOW follows the wall clock. `step_us` is how far the wall clock is from where it should be."""

    state: State
    now_us: int
    wall_us: int
    step_us: int
    retention_lag_us: int

    @property
    def sentence(self) -> str | None:
        """For health and the log; None while all is well."""
        if self.state == "followed":
            return None
        wall, now = format_timestamp(self.wall_us), format_timestamp(self.now_us)
        if self.state == "untrusted":
            return (
                f"clock untrusted: the wall clock says {wall}, but the last known time is {now}; set the clock, or type "
                "ALTER SYSTEM ACCEPT CLOCK if it is right"
            )
        then = (
            f"it is followed once it was stable for {STABLE_US // MINUTE} minutes"
            if abs(self.step_us) <= FOLLOWED_US
            else "set the clock, or type ALTER SYSTEM ACCEPT CLOCK if it is right"
        )
        return f"clock held at {self.step_us // SECOND:+d} s: the wall clock says {wall}, NOW goes on at {now}; {then}"


@dataclass(frozen=True, slots=True)
class _Saved:
    """What the next start has to know."""

    boot: str
    elapsed_us: int
    now_us: int
    lag_us: int
    agreed_from_us: int


class GuardedClock:
    """The server's NOW. Follows the wall clock without history until `open`; thread-safe."""

    def __init__(
        self,
        wall: Clock | None = None,
        elapsed: Callable[[], int] = elapsed_us,
        boot: str | None = None,
        step_max_us: int = STEP_MAX_US,
    ) -> None:
        self._wall = wall or WallClock()
        self._elapsed = elapsed
        self._boot = boot_id() if boot is None else boot
        self._step_max_us = step_max_us
        self._lock = threading.Lock()
        self._files = threading.Lock()
        self._state: State = "followed"
        passed, now = elapsed(), self._wall.now_us()
        self._line = Line(passed, now, now)
        self._reference = (passed, now)  # where the wall clock was right
        self._stable = (passed, 0)  # since when it is how far off
        self._lag_us = 0  # how far retention's NOW is behind NOW
        self._agreed_from_us = passed
        self._root: Path | None = None
        self._shared: Line | None = None
        self._saved_us = passed
        self._service = Service("clock", self._tend, first_s=_TICK_S)

    def open(self, root: Path, known_us: int | None) -> None:
        """Go on from the NOW of the last server. `known_us` is the newest time that the data folder knows of."""
        self._root = root
        saved = _read_saved(root / _FILE)
        with self._lock:
            passed, wall = self._elapsed(), self._wall.now_us()
            same_boot = saved is not None and self._boot != "" and saved.boot == self._boot
            known = [known_us] if known_us is not None else []
            if saved is not None:
                known.append(saved.now_us + (max(0, passed - saved.elapsed_us) if same_boot else 0))
            if known:
                self._resume(max(known), passed, wall, saved, same_boot)
        try:
            self._tend()
            self._save()
        except OSError as problem:  # a full disk keeps no server from starting; the service tries again
            _log.warning("the clock's files could not be written: %s", problem)
        self._service.start()

    def _resume(self, last: int, passed: int, wall: int, saved: _Saved | None, same_boot: bool) -> None:
        gap = wall - last
        # A folder without our file comes from a backup or an earlier release: any time since then is plausible.
        most = self._step_max_us if same_boot else PLAUSIBLE_US if saved is not None else gap
        self._lag_us = saved.lag_us if saved is not None else 0
        self._agreed_from_us = saved.agreed_from_us if saved is not None and same_boot else passed
        self._reference = (passed, last)
        self._stable = (passed, gap)
        self._line = Line(passed, last, last)
        if -self._step_max_us <= gap <= most:
            self._follow(passed, last, wall, gap)
        else:
            self._hold("held" if same_boot else "untrusted", passed, wall, gap)

    def now_us(self) -> int:
        with self._lock:
            return self._look()[1]

    def status(self) -> ClockStatus:
        with self._lock:
            _, now, wall, step = self._look()
            return ClockStatus(self._state, now, wall, step, self._lag_us)

    def retention_us(self) -> int:
        """The NOW of retention: behind, where much time is said to have passed that was not seen to."""
        with self._lock:
            return self._look()[1] - self._lag_us

    def accept(self) -> None:
        """The wall clock is right: NOW goes to it, at half pace where it is behind, and retention with it. Durable."""
        with self._lock:
            passed, now, wall, _ = self._look()
            self._state = "followed"
            self._line = Line(passed, now, wall)
            self._reference = (passed, wall)
            self._agreed_from_us = passed
            self._lag_us = 0
        _log.warning("the wall clock was accepted: %s", format_timestamp(wall))
        self._tend()
        self._save()

    def services(self) -> list[Service]:
        return [self._service]

    def close(self) -> None:
        self._service.stop()
        self._service.join(5)
        with contextlib.suppress(OSError):
            self._save()
        self._root = None

    # -- under the lock

    def _look(self) -> tuple[int, int, int, int]:
        """Elapsed time, NOW, the wall clock and how far it is off, with what follows from that done."""
        passed, wall = max(self._elapsed(), self._line.elapsed_us), self._wall.now_us()
        now = self._line.at(passed)
        step = wall - (self._reference[1] + passed - self._reference[0])
        if self._may_follow(passed, step):
            self._follow(passed, now, wall, step)
            now = self._line.at(passed)
        elif self._state == "followed":
            self._hold("held", passed, wall, step)
        elif abs(step - self._stable[1]) > self._step_max_us:
            self._stable = (passed, step)
        if self._state == "followed" and passed - self._agreed_from_us >= AGREED_US:
            self._lag_us = 0
        return passed, now, wall, step

    def _may_follow(self, passed: int, step: int) -> bool:
        if abs(step) <= self._step_max_us:
            return True
        if self._state == "untrusted" and 0 <= step <= PLAUSIBLE_US:
            return True
        since, stable_step = self._stable
        return (
            self._state != "followed"
            and abs(step) <= FOLLOWED_US
            and abs(step - stable_step) <= self._step_max_us
            and passed - since >= STABLE_US
        )

    def _follow(self, passed: int, now: int, wall: int, step: int) -> None:
        self._line = Line(passed, now, wall)
        if abs(step) > self._step_max_us:
            self._lag_us += max(0, step - RETENTION_GAIN_US)
            self._agreed_from_us = passed
        if self._state != "followed" or abs(step) > self._step_max_us:
            _log.warning("the wall clock is followed, %+d s from where it was expected", step // SECOND)
            self._state = "followed"
            self._reference = (passed, wall)
        elif passed - self._reference[0] > _REFERENCE_US:
            self._reference = (passed, wall)

    def _hold(self, state: State, passed: int, wall: int, step: int) -> None:
        now = self._line.at(passed)
        self._line = Line(passed, now, now)  # a clock that stands still has slowed NOW down by then
        self._state = state
        self._stable = (passed, step)
        self._agreed_from_us = passed
        _log.error("%s", ClockStatus(state, now, wall, step, self._lag_us).sentence)

    # -- files

    def _tend(self) -> float:
        """Tell the planner process where NOW runs, and remember it now and then for the next start."""
        with self._lock:
            passed = self._look()[0]
            line = self._line
        with self._files:
            # Whether the lines are apart, now or in a while: one may run at half pace.
            shared, times = self._shared, (passed, passed + MINUTE)
            moved = shared is None or any(abs(line.at(at) - shared.at(at)) > _MOVED_US for at in times)
            if self._root is not None and moved:
                replace_file(self._root.joinpath(*_SHARED), f"{json.dumps(asdict(line))}\n".encode())
                self._shared = line
        if passed - self._saved_us >= _SAVE_US:
            self._save()
        return _TICK_S

    def _save(self) -> None:
        with self._lock:
            passed, now, _, _ = self._look()
            saved = _Saved(self._boot, passed, now, self._lag_us, self._agreed_from_us)
            untrusted = self._state == "untrusted"
        # Nothing is known beyond the file that is there: the next start must doubt what this one doubts.
        with self._files:
            if self._root is not None and not untrusted:
                body = json.dumps(asdict(saved), sort_keys=True)
                sealed = json.dumps({"body": body, "crc": zlib.crc32(body.encode())})
                replace_file(self._root / _FILE, f"{sealed}\n".encode(), synced=True)
            self._saved_us = passed


class FolderClock:
    """NOW as the server of a data folder has it, for another process on its host; the wall clock where no server is."""

    def __init__(self, root: Path, elapsed: Callable[[], int] = elapsed_us) -> None:
        self._path = root.joinpath(*_SHARED)
        self._elapsed = elapsed
        self._wall = WallClock()
        self._line: Line | None = None

    def now_us(self) -> int:
        with contextlib.suppress(OSError, ValueError, TypeError):
            self._line = Line(**json.loads(self._path.read_bytes()))
        return self._line.at(self._elapsed()) if self._line is not None else self._wall.now_us()


def clock_status(clock: Clock) -> ClockStatus:
    """The status of any clock; one without a guard is always followed."""
    if isinstance(clock, GuardedClock):
        return clock.status()
    now = clock.now_us()
    return ClockStatus("followed", now, now, 0, 0)


def retention_now_us(clock: Clock) -> int:
    """The NOW that retention measures ages at."""
    return clock.retention_us() if isinstance(clock, GuardedClock) else clock.now_us()


def _read_saved(path: Path) -> _Saved | None:
    """None where there is no such file, or where it is damaged: then commit records say enough."""
    try:
        outer: dict[str, Any] = json.loads(path.read_bytes())
        if zlib.crc32(outer["body"].encode()) != outer["crc"]:
            return None
        return _Saved(**json.loads(outer["body"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
