"""A call of a mining function, once as SQL in a database of this process and once on a series alone: both find the same."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from penstock.operators.mining.registry import FUNCTIONS
from penstock.operators.mining.series import Floats, Ints, Series

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
BEGAN_US = 1_700_006_400 * SECOND_US
"""When generated series begin: a midnight."""
AHEAD = 10**6
"""So many slots of a window lie in front of the first reading: it begins long before."""
TABLE = "CREATE TABLE series (name TEXT PRIMARY KEY, reading STREAM (value DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"

Line = tuple[Any, ...]
"""An element of the result: times in microseconds, NULL as None."""


@dataclass(frozen=True)
class Call:
    """A function with its arguments. Lengths of time are numbers of slots; `every_us` 0: of readings."""

    name: str
    every_us: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        arguments = ["value"] + [f"every => {self.every_us // SECOND_US} SECONDS"] * (self.every_us > 0)
        kinds = {parameter.name: parameter.kind for parameter in FUNCTIONS[self.name].parameters}
        for name, value in self.options.items():
            arguments.append(f"{name} => {self._written(kinds[name], value)}")
        return f"{self.name.upper()}({', '.join(arguments)})"

    def _written(self, kind: str, value: Any) -> str:
        if kind == "elements" and self.every_us:
            return f"{value * self.every_us // SECOND_US} SECONDS"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, tuple):
            return f"ARRAY[{', '.join(map(repr, value))}]"
        return repr(value)

    def find(self, series: Series) -> list[Line]:
        function = FUNCTIONS[self.name]
        assert function.find is not None, self.name
        columns = function.find(series, {p.name: p.default for p in function.parameters} | dict(self.options))
        return [tuple(map(_plain, line)) for line in zip(*(column.tolist() for column in columns), strict=True)]

    def seconds(self, series: Series, times: int = 5) -> float:
        """Of the processor, so that other work on the machine hardly counts: the median without the first run, which may compile."""
        self.find(series)
        return statistics.median(clocked(lambda: self.find(series), time.process_time)[0] for _ in range(times))


def is_missing(say: Callable[[str], None], name: str, measure: str) -> bool:
    """Whether a function is not in the product, which is said loudly."""
    if name in FUNCTIONS:
        return False
    say(f"[bold red]{measure.upper()} IS LEFT OUT: there is no function {name.upper()}")
    return True


def clocked(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Seconds and result."""
    began = clock()
    found = run()
    return clock() - began, found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * SECOND_US)
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def series_of(values: Floats, every_us: int = HOUR_US, began_us: int = BEGAN_US) -> Series:
    """A value per slot; NaN: a slot without a reading. The first has one."""
    times = began_us // every_us * every_us + np.arange(len(values)) * every_us
    return Series(times, values, AHEAD, every_us)


def slotted(times_us: Ints, values: Floats, every_us: int) -> Series:
    """Readings as slots, which have their means."""
    slots = times_us // every_us
    places = slots - slots[0]
    counts = np.bincount(places)
    with np.errstate(invalid="ignore"):
        means = np.bincount(places, values) / np.where(counts, counts, np.nan)
    return Series((slots[0] + np.arange(len(means))) * every_us, means, AHEAD, every_us)


def readings_of(series: Series) -> tuple[Ints, Floats]:
    """A reading in the last microsecond of each slot that has a value: so the newest slot is whole."""
    present = ~np.isnan(series.values)
    return series.times[present] + series.every_us - 1, series.values[present]


def asked_in_sql(calls: Mapping[str, Call], readings: tuple[Ints, Floats]) -> dict[str, list[Line]]:
    """What standing queries of one series answer, by the name of the call."""
    times, values = readings
    with local_database() as (database, engine):
        database.execute(TABLE)
        database.execute("INSERT INTO series VALUES ('one', NULL)")
        for name, call in calls.items():
            database.execute(
                f"CREATE QUERY {name} AS SELECT UNNEST({call.sql}) AS found FROM series WHERE name = 'one'"
                f" BEGIN ('{datetime.fromtimestamp(times[0] / SECOND_US - 10 * 365 * 86_400).date()}') END (NOW)"
            )
        ts = pa.array(times, pa.timestamp("us", tz="UTC"))
        rows = pa.table({"name": ["one"] * len(times), "ts": ts, "value": pa.array(values)})
        assert database.push("series", rows).accepted == len(times)
        engine.drain()
        return {name: [_plain(row["found"]) for row in _rows(database, name)] for name in calls}


def _rows(database: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = database.invoke(name).table.to_pylist()
    return found


def same(one: Any, two: Any) -> bool:
    """Whether two results are the same: floats to 1e-9."""
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == two)


def share_in_sql(say: Callable[[str], None], call: Call, all_series: Sequence[Series]) -> float:
    """The share of series for which SQL answers what the function finds; others are said."""
    equal = 0
    for series in all_series:
        found = asked_in_sql({"asked": call}, readings_of(series))["asked"]
        equal += same(found, call.find(series))
        if not same(found, call.find(series)):
            say(f"[bold red]{call.sql} ANSWERS OTHERWISE IN SQL: {found[:3]} and {call.find(series)[:3]}")
    return equal / len(all_series)
