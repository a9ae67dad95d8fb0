"""Windows and score of the Numenta Anomaly Benchmark (labels: MIT licence), written from its description for seven of its series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from penstock.operators.mining.series import Floats, Ints
from tests.support.real_series import WHOLE, read_series

WINDOWS = {
    "ambient_temperature_system_failure": (
        ("2013-12-15 07:00", "2013-12-30 09:00"),
        ("2014-03-29 15:00", "2014-04-20 22:00"),
    ),
    "machine_temperature_system_failure": (
        ("2013-12-10 06:25", "2013-12-12 05:35"),
        ("2013-12-15 17:50", "2013-12-17 17:00"),
        ("2014-01-27 14:20", "2014-01-29 13:30"),
        ("2014-02-07 14:55", "2014-02-09 14:05"),
    ),
    "TravelTime_387": (
        ("2015-07-27 10:56", "2015-07-31 18:01"),
        ("2015-08-17 11:51", "2015-08-20 01:54"),
        ("2015-08-31 15:44", "2015-09-01 13:06"),
    ),
    "occupancy_6005": (("2015-09-14 17:45", "2015-09-15 17:24"),),
    "occupancy_t4013": (("2015-09-16 00:59", "2015-09-16 13:19"), ("2015-09-17 00:20", "2015-09-17 13:10")),
    "speed_6005": (("2015-09-16 18:40", "2015-09-17 16:24"),),
    "speed_t4013": (("2015-09-16 00:44", "2015-09-16 13:14"), ("2015-09-17 00:30", "2015-09-17 13:30")),
}
FALSE_COST = 0.11
MINUTE_US = 60_000_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """A series, and the first and last rows of its windows."""

    times: Ints
    values: Floats
    windows: tuple[tuple[int, int], ...]

    @property
    def ignored(self) -> int:
        """So many rows count for nothing: a detector learns from them."""
        return min(len(self.times) * 15 // 100, 750)

    def rows_in(self, length_us: int) -> int:
        """How many rows there usually are in a length of time."""
        return int(length_us / np.median(np.diff(self.times)))

    def row_of(self, slots: Ints, every_us: int) -> Ints:
        """The last row of each slot: the slot is known when it is over."""
        return np.searchsorted(self.times, slots + every_us) - 1


def labelled_series(folder: Path = WHOLE) -> dict[str, Labelled]:
    """The seven series, none where a file is missing."""
    if not all((folder / f"{name}.csv").exists() for name in WINDOWS):
        return {}
    return {name: _labelled(folder / f"{name}.csv", windows) for name, windows in WINDOWS.items()}


def _labelled(path: Path, windows: tuple[tuple[str, str], ...]) -> Labelled:
    frame = read_series(path).sort_values("ts", kind="stable")
    times = frame.ts.dt.tz_localize(None).astype("datetime64[us]").astype("int64").to_numpy()
    edges = np.array([[pd.Timestamp(edge).value // 1000 for edge in window] for window in windows])
    # Edges are given to the minute, rows have seconds.
    first = np.searchsorted(times, edges[:, 0])
    last = np.searchsorted(times, edges[:, 1] + MINUTE_US) - 1
    return Labelled(times, frame.value.to_numpy(), tuple(zip(first.tolist(), last.tolist(), strict=True)))


def score(series: list[tuple[Labelled, Ints]]) -> float:
    """NAB's standard score of alarms by row: 0 for silence, 100 for each window at its first row and nothing else."""
    total = sum(_gained(labelled, np.unique(alarms)) for labelled, alarms in series)
    windows = sum(len(labelled.windows) for labelled, _ in series)
    return 100 * (total + windows) / (2 * windows)


def _gained(labelled: Labelled, alarms: Ints) -> float:
    """1 for a window that is found at once, -1 for one that is missed, -0.11 for a false alarm."""
    alarms = alarms[alarms >= labelled.ignored]
    gained, inside = 0.0, np.zeros(len(alarms), np.bool_)
    for first, last in labelled.windows:
        own = (alarms >= first) & (alarms <= last)
        inside |= own
        if own.any():
            place = -(last - int(alarms[own][0]) + 1) / (last - first + 1)
            gained += _sigmoid(place) / _sigmoid(-1.0)
        else:
            gained -= 1
    for alarm in alarms[~inside].tolist():
        before = [(first, last) for first, last in labelled.windows if last < alarm]
        behind = (alarm - before[-1][1]) / (before[-1][1] - before[-1][0]) if before else np.inf
        gained += FALSE_COST * (_sigmoid(behind) if behind <= 3 else -1.0)
    return gained


def _sigmoid(place: float) -> float:
    return float(2 / (1 + np.exp(5 * place)) - 1)
