"""The scrubber: reads every file of the data folder once in `scrub_days`, slowly, and notes what has rotted.

So damage is found before the last good backup is deleted. A running server repairs what it can: a new snapshot covers
damaged commit records and journal lines. Its progress is kept in `scrub.json`, so that a restart continues it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import orjson

from penstock.clock import SECOND, Clock
from penstock.damage import DamageReport
from penstock.database.verification import files_of, verify_file
from penstock.services import Service

BYTES_PER_S = 10_000_000
FIRST_S = 60.0
SAVE_EVERY = 100
DAY_S = 86_400.0
_LEAST_S = 0.001  # for a file of any size: thousands of small ones are not read at once, either


class Scrubber:
    """Reads the files in a background thread. `cover` repairs damage of some kinds, and returns whether it did."""

    def __init__(
        self,
        root: Path,
        report: DamageReport,
        clock: Clock,
        days: float,
        cover: Callable[[str], bool] = lambda kind: False,
    ) -> None:
        self._root = root
        self._report = report
        self._clock = clock
        self._period_us = int(days * DAY_S * SECOND)
        self._cover = cover
        self._file = root / "scrub.json"
        self._began_us, self._after = self._read()
        self._waiting: list[tuple[Path, str]] = []
        self._in_order = 0  # so many of those that wait are a round; what is after them comes first
        self._since_saved = 0
        self.service = Service("scrubber", self.step, first_s=FIRST_S)

    def services(self) -> list[Service]:
        return [self.service]

    def start(self) -> None:
        if self._period_us > 0:
            self.service.start()

    def close(self) -> None:
        self.service.stop()
        self.service.join()
        self._save()

    def step(self) -> float:
        """Read one file; the seconds until the next."""
        if not self._waiting:
            now_us = self._clock.now_us()
            if self._began_us is not None and not self._after:
                left_us = self._began_us + self._period_us - now_us
                if left_us > 0:
                    return min(left_us / SECOND, 3600.0)
            self._begin(now_us)
        if not self._waiting:
            self._after = ""
            return 60.0
        path, kind = self._waiting.pop()
        size = self._look_at(path, kind)
        if not self._waiting:
            self._after = ""
        elif len(self._waiting) < self._in_order:  # what comes first does not move the place in the round
            self._after = str(path.relative_to(self._root))
        self._since_saved += 1
        if self._since_saved >= SAVE_EVERY or not self._waiting:
            self._save()
        return max(_LEAST_S, size / BYTES_PER_S)

    def scrub(self) -> None:
        """One whole round, at once."""
        self._begin(self._clock.now_us())
        while self._waiting:
            self._look_at(*self._waiting.pop())

    def _begin(self, now_us: int) -> None:
        """Go on with the round that a restart has cut off, or begin the next one. Files known to be damaged come first."""
        found = list(files_of(self._root))
        left = [each for each in found if str(each[0].relative_to(self._root)) > self._after] if self._after else found
        if not self._after or self._began_us is None:
            self._began_us = now_us
        damaged = {row.file for row in self._report.open_rows()}
        known = [each for each in found if str(each[0].relative_to(self._root)) in damaged]
        self._in_order = len(left)
        self._waiting = [*sorted(left, key=lambda each: str(each[0]), reverse=True), *known]

    def _look_at(self, path: Path, kind: str) -> int:
        detail = verify_file(self._root, path)
        if detail is None:
            self._report.heal(path)
        else:
            covered = self._cover(kind)
            told = f"{detail}; a new snapshot covers it" if covered else detail
            self._report.note(path, kind, told, healed=covered)
        with contextlib.suppress(OSError):
            return path.stat().st_size
        return 0

    def _read(self) -> tuple[int | None, str]:
        try:
            found = orjson.loads(self._file.read_bytes())
            return int(found["began_us"]), str(found["after"])
        except (OSError, ValueError, KeyError, TypeError):
            return None, ""

    def _save(self) -> None:
        self._since_saved = 0
        if self._began_us is None:
            return
        aside = self._file.with_suffix(".new")
        with contextlib.suppress(OSError):  # soft
            aside.write_bytes(orjson.dumps({"began_us": self._began_us, "after": self._after}))
            aside.replace(self._file)
