"""A whole database whose cycles run in this process, when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.database.database import Database
from penstock.operators.sparksql.evaluator import LiveRunner
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, no_crash
from penstock.views.standing_queries import Intervals
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock

BEGAN_US = 1_763_190_000_000_000
TABLE = "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE))"


class Pipe:
    """One data folder, opened and opened again, on a clock that stands still until it is moved.

    `spark` gives what evaluates Spark SQL, and `make` makes the database. `crash_point` is told each step of writing to
    the disk. Both may be set to others at any time. Files of the log go as soon as a merged one replaces them.
    """

    def __init__(
        self,
        folder: Path,
        began_us: int = BEGAN_US,
        intervals: Intervals = Intervals(),
        spark: Callable[[], Any] | None = None,
        make: type[Database] = Database,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self._intervals = replace(intervals, replaced_s=0.0)
        self.spark = spark
        self.crash_point: CrashPoint = no_crash
        self.clock = ManualClock(began_us)
        self._settings = settings
        self._make = make
        self.open()

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0, **self._settings)
        self.db = self._make(settings, self.clock, **self._parts())
        self.db.start()
        # Its thread would merge and remove at moments that no test chose.
        self.db.housekeeper.close()
        self.db.idle_queries.close()

    def _parts(self) -> dict[str, Any]:
        """Arguments of a database beside its settings and its clock."""
        return {
            "engine": self._make_engine,
            "intervals": self._intervals,
            "runner": self._make_runner,
            "crash_point": lambda step: self.crash_point(step),
        }

    def _make_runner(self, *arguments: Any) -> Callable[[], Any]:
        live = LiveRunner(*arguments)
        return lambda: live() if self.spark is None else self.spark()

    def _make_engine(self, *arguments: Any) -> LocalEngine:
        return LocalEngine(*arguments, clock=self.clock)

    def set_intervals(self, **changes: Any) -> None:
        """From now on, and after restarts, tidy up after other numbers of cycles or wait for another time."""
        self._intervals = self.db.standing.intervals = replace(self._intervals, **changes)

    @property
    def engine(self) -> LocalEngine:
        return self.db.engine  # type: ignore[return-value]

    def restart(self) -> None:
        self.db.stop()
        self.open()

    def probes(self, options: str = "") -> None:
        self.db.execute(f"{TABLE} {options}")
        self.db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)")

    def push(self, *values: float, sensor: int = 1) -> None:
        """One segment of readings, a millisecond after the last."""
        self.clock.advance(1000)
        self.db.push("probes", [{"id": sensor, "value": v} for v in values])

    def answer(self, name: str, column: str = "value") -> list[Any]:
        return self.db.standing.invoke(name).table.column(column).to_pylist()
