"""What subscribers of UNNEST(ANOMALIES(..)) are told over many cycles: each row that enters, once.

An anomaly stays the same row until a late reading changes what its score is made from. Then its row leaves, and another one enters.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.answers.subscription import Subscription
from penstock.views.standing_queries import Intervals
from tests.operators.mining.test_series import SECOND, at
from tests.oracle import mining
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

CYCLES = 10_000 if SOAK else 400
SENSORS = (1, 2, 3)
WINDOW_S, HISTORY, LATEST_S = 60, 20, 30
ASKED = mining.Scoring(history=HISTORY, score=6)
Line: TypeAlias = tuple[Any, ...]
"""A row: sensor, time, and the numbers of the anomaly to nine digits."""


def line_of(sensor: int, found: dict[str, Any]) -> Line:
    numbers = [round(found[name], 9) for name in ("value", "expected", "lower", "upper", "score")]
    return sensor, found["at"], *numbers


class Truth:
    """The anomalies by plain loops. A score is found again only where a slot before it has changed since."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, list[mining.Row]]] = {sensor: defaultdict(list) for sensor in SENSORS}
        self._found: dict[tuple[int, int], Line | None] = {}
        self.late: set[tuple[int, int]] = set()  # slots whose score a late reading may have changed after it was told
        self.now_us = 0

    def add(self, sensor: int, ts: int, position: int, value: float | None) -> None:
        slot, closed = ts // SECOND, (self.now_us + 1) // SECOND
        self.rows[sensor][slot].append(mining.Row(ts, position, "", value))
        for touched in range(slot, slot + HISTORY + 1):
            self._found.pop((sensor, touched), None)
            if touched < closed:
                self.late.add((sensor, touched))
        self.now_us = max(self.now_us, ts)

    @property
    def window(self) -> tuple[int, int]:
        return self.now_us - WINDOW_S * SECOND, self.now_us

    def lines(self) -> set[Line]:
        """The rows of the answer."""
        low, until = self.window
        first, end = -(-low // SECOND), (until + 1) // SECOND
        lines = {self._line(sensor, slot) for sensor in SENSORS for slot in range(first + HISTORY, end)}
        return {line for line in lines if line is not None}

    def _line(self, sensor: int, slot: int) -> Line | None:
        key = sensor, slot
        if key not in self._found:
            slots = [self.rows[sensor].get(each, []) for each in range(slot - HISTORY, slot + 1)]
            values = [mining.slot_value(rows, "MEAN") for rows in slots]
            times = [each * SECOND for each in range(slot - HISTORY, slot + 1)]
            found = mining.score(mining.Elements(times, values, times[0], SECOND), HISTORY, ASKED)
            is_high = found is not None and found["score"] is not None and found["score"] >= ASKED.score
            self._found[key] = line_of(sensor, {"at": at(slot * SECOND), **found}) if found and is_high else None
        return self._found[key]

    def lines_by_definition(self) -> set[Line]:
        """The same from all readings, as the other tests have it."""
        found, (low, until) = set(), self.window
        for sensor, slots in self.rows.items():
            rows = [row for slot, each in slots.items() if slot >= low // SECOND for row in each]
            series = mining.slots(rows, low, until, SECOND)
            for i, line in mining.anomalies(series, ASKED):
                found.add(line_of(sensor, {"at": at(series.times[i]), **line}))
        return found


class Listener:
    """A subscriber that comes back after a restart, as the client does, and counts what it is told.

    `skips`: it asks as the server does for mining functions, for all cycles since the last time at once.
    """

    def __init__(self, pipe: Pipe, changes: bool, skips: bool) -> None:
        self._pipe, self._changes, self._skips = pipe, changes, skips
        self.came, self.left = Counter[Line](), Counter[Line]()
        self.events = 0
        self._subscription: Subscription = pipe.db.subscribe("odd", changes=changes)

    def come_back(self) -> None:
        cycle = self._subscription.cycle + 1
        self._subscription = self._pipe.db.subscribe("odd", from_cycle=cycle, changes=self._changes)

    def listen(self) -> None:
        if self._skips:
            assert self._subscription.may_skip_cycles or not self.events
            self._subscription.skip_cycles()
        for event in iter(partial(self._subscription.next, 0.0), None):
            self.events += 1
            for row in event.table.to_pylist():
                counted = self.left if row.get("op") == "-" else self.came
                counted[line_of(row["id"], row["a"])] += 1
            if self._skips:
                self._subscription.skip_cycles()


def merge_segments(pipe: Pipe) -> None:
    """As the housekeeper does: a segment per cycle would make each cycle slower than the one before."""
    pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)


def reading(chance: random.Random, sensor: int, step: int) -> float | None:
    """Whole numbers, whose means and quartiles are the same in any order of adding up; now and then a spike, NULL or NaN."""
    if chance.random() < 0.04:
        return chance.choice([None, math.nan])
    return float((step * 7919 + sensor) % 13) + (500.0 if (step + 31 * sensor) % 97 == 60 else 0.0)


def test_subscribers_are_told_each_row_that_enters_once(pipes: Callable[..., Pipe]) -> None:
    pipe, chance, truth = pipes(intervals=Intervals(snapshot_cycles=200, trim_cycles=100)), random.Random(17), Truth()
    pipe.db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute("INSERT INTO probes VALUES (1, NULL), (2, NULL), (3, NULL)")
    pipe.db.execute(
        "CREATE QUERY odd AS SELECT id, UNNEST(ANOMALIES(value, every => 1 SECOND, history => 20 SECONDS, score => 6)) AS a"
        " FROM probes GROUP BY id BEGIN (NOW - 60 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    listeners = {
        (changes, skips): Listener(pipe, changes, skips) for changes in (False, True) for skips in (False, True)
    }
    # What each of them had to be told: by subscriber, what the answer was when it listened last.
    known: dict[tuple[bool, bool], set[Line]] = {key: set() for key in listeners}
    came = {key: Counter[Line]() for key in listeners}
    left = {key: Counter[Line]() for key in listeners}
    restarts, position = 0, 0
    for step in range(CYCLES):
        pipe.clock.advance(500_000)
        now = pipe.clock.now_us() // 1000 * 1000
        sent = [(sensor, now, reading(chance, sensor, step)) for sensor in SENSORS if chance.random() < 0.98]
        if chance.random() < 0.03:
            late = now - chance.randrange(SECOND, LATEST_S * SECOND, 1000)
            sent.append((chance.choice(SENSORS), late, chance.choice([None, math.nan, *map(float, range(13))])))
        columns = dict(zip(("id", "ts", "value"), map(list, zip(*sent, strict=True)), strict=True)) if sent else {}
        if sent:
            table = pa.table(columns).cast(
                pa.schema([("id", pa.int32()), ("ts", pa.timestamp("us", "UTC")), ("value", pa.float64())])
            )
            assert pipe.db.push("probes", table).accepted == len(sent)
        for sensor, ts, value in sent:
            truth.add(sensor, ts, position, value)
            position += 1
        pipe.engine.drain()
        if step % (CYCLES // 4) == CYCLES // 8:
            pipe.restart()
            restarts += 1
            for listener in listeners.values():
                listener.come_back()
        lines = truth.lines()
        if step % 100 == 0:
            assert lines == truth.lines_by_definition()
        if step % 40 == 0:
            merge_segments(pipe)
        for key, listener in listeners.items():
            skips = key[1]
            if not skips or step == CYCLES - 1 or chance.random() < 0.2:
                listener.listen()
                came[key].update(lines - known[key])
                left[key].update(known[key] - lines)
                known[key] = lines
    assert restarts >= 4
    for (changes, skips), listener in listeners.items():
        assert listener.came == came[changes, skips], (changes, skips)
        assert not changes or listener.left == left[changes, skips], (changes, skips)
    told = listeners[False, False].came
    touched = {(sensor, at(slot * SECOND)) for sensor, slot in truth.late}
    alone = Counter(line[:2] for line in told if line[:2] not in touched)
    assert len(alone) > CYCLES // 97 and any(line[:2] in touched for line in told)
    for listener in listeners.values():
        assert {line: n for line, n in listener.came.items() if line[:2] in alone} == dict.fromkeys(
            (line for line in told if line[:2] in alone), 1
        )
