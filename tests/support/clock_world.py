"""A machine whose wall clock can be set, and a database on it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from penstock.clock import Clock
from penstock.clock_guard import GuardedClock
from penstock.database.database import Database
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR_2099_US = 4_070_908_800 * SECOND


class Machine:
    """A wall clock, the time since the machine started, and the name of that start."""

    def __init__(self) -> None:
        self.wall = ManualClock(BEGAN_US)
        self.elapsed = 7 * HOUR
        self.boot = uuid.uuid4().hex

    def elapsed_us(self) -> int:
        return self.elapsed

    def run(self, us: int) -> None:
        """Time passes, and the wall clock says so."""
        self.elapsed += us
        self.wall.advance(us)

    def jump(self, us: int) -> None:
        """The wall clock is set; no time passes."""
        self.wall.advance(us)

    def jump_to(self, us: int) -> None:
        self.wall.set(us)

    def reboot(self, off_us: int) -> None:
        """Off for a while. The clock of the board goes on."""
        self.elapsed = 10 * SECOND
        self.wall.advance(off_us)
        self.boot = uuid.uuid4().hex

    def clock(self) -> GuardedClock:
        return GuardedClock(self.wall, self.elapsed_us, self.boot)


class ClockPipe(Pipe):
    """A database without Spark on such a machine."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.machine = Machine()
        super().__init__(folder, **settings)

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0, **self._settings)
        clock: Clock = self.machine.clock()
        self.db = Database(settings, clock, **{**self._parts(), "engine": lambda *a: LocalEngine(*a, clock=clock)})
        self.db.start()
        self.db.housekeeper.close()
        self.db.idle_queries.close()

    def push(self, *values: float, sensor: int = 1) -> None:
        self.machine.run(1000)
        self.db.push("probes", [{"id": sensor, "value": v} for v in values])

    def forget(self) -> int:
        """Let retention come by twice; how many readings are left."""
        for _ in range(2):
            self.engine.drain()
            self.db.housekeeper.tend(1)
        return self.db.log.head(1) - self.db.log.floor(1)
