"""Rows that are final: each arrives once, in the cycle in which it becomes final, and none is ever taken back.

The stories have readings out of order, sensors that are inserted later with old readings, changes of the lateness, cycles of all
sizes, and restarts. What had to arrive is found at the end, among all readings that were accepted, with nothing cut by a window.

        readings     x   x x  x     x x   (x: one that comes late)
        watermark ---------------|        newest - lateness, never back
        final     [pane][pane]            a pane is final once the watermark reaches its end
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.cycle.cut import Limits
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

T0 = BEGAN_US // (60 * SECOND) * 60 * SECOND
Row = tuple[Any, ...]
VALID = "WITH (time = 'valid', out_of_order = 'accept', lateness = '{}')"
# The same question with a window, and with all that was ever read.
PANES = "SELECT id, window_end, COUNT(*) AS n, SUM(value) AS total FROM probes GROUP BY id, {} {}"
QUERIES = {
    "tumbled": PANES.format("TUMBLE(5 SECONDS)", "{}"),
    "slid": PANES.format("SLIDE(6 SECONDS, 2 SECONDS)", "{}"),
    "busy": "SELECT window_end, COUNT(*) AS n FROM probes WHERE value > 2 GROUP BY TUMBLE(5 SECONDS) HAVING COUNT(*) > 1 {}",
    "joined": (
        "SELECT id, ts, value AS v FROM probes WHERE (value > 2) FOR 4 SECONDS {0}"
        " UNION ALL SELECT id, ts, open + 100 AS v FROM doors WHERE open > 1 {0}"
    ),
    "above": (
        "SELECT window_end, COUNT(*) AS n FROM probes WHERE value > (SELECT AVG(value) FROM probes PER WINDOW)"
        " GROUP BY TUMBLE(5 SECONDS) {}"
    ),
    "held": "SELECT id, ts, value FROM probes WHERE (value > 2) FOR 4 SECONDS {}",
    "paired": (
        "SELECT a.id, a.ts, a.value, b.ts AS at FROM probes a LEFT JOIN doors b ON a.id = b.id"
        " WINDOW(a, b) BETWEEN '-2 SECONDS' AND '3 SECONDS' {}"
    ),
    "alone": (
        "SELECT a.id, a.ts FROM probes a WHERE NOT EXISTS (SELECT 1 FROM doors b WHERE b.id = a.id"
        " WINDOW(a, b) = 2 SECONDS) {}"
    ),
    "latest": "SELECT a.id, a.ts, RESAMPLE(b.open, 3 SECONDS) AS open FROM probes a, doors b WHERE a.id = b.id {}",
    "linear": (
        "SELECT a.id, a.ts, RESAMPLE(b.open, 3 SECONDS, LINEAR) AS open FROM probes a, doors b WHERE a.id = b.id {}"
    ),
    "pairs": (
        "SELECT window_end, COUNT(*) AS n FROM probes a, doors b WHERE a.id = b.id WINDOW(a, b) = 2 SECONDS"
        " GROUP BY TUMBLE(5 SECONDS) {}"
    ),
    "over": "SELECT window_end, COUNT(*) AS n FROM high GROUP BY TUMBLE(5 SECONDS) {}",
    "sessions": (
        "SELECT id, window_start, window_end, COUNT(*) AS n, SUM(value) AS total FROM probes GROUP BY id, SESSION(2 SECONDS) {}"
    ),
    "ranked": (
        "SELECT id, window_end, COUNT(*) AS n FROM probes GROUP BY id, TUMBLE(5 SECONDS)"
        " QUALIFY RANK() OVER (PARTITION BY window_end ORDER BY COUNT(*) DESC) = 1 {}"
    ),
    "plain": "SELECT id, ts, value FROM probes WHERE value > 3 {}",
    "lagged": "SELECT id, ts, value, LAG(value, 2) OVER (PARTITION BY id ORDER BY ts) AS before FROM probes {}",
    "cut": (
        "SELECT id, window_start, window_end, COUNT(*) AS n, SUM(value) AS total FROM probes WHERE value < 6"
        " GROUP BY id, LANDMARK (value >= 5) HAVING COUNT(*) > 1 {}"
    ),
    "marked": (
        "SELECT window_start, window_end, COUNT(*) AS n FROM probes WHERE value > (SELECT AVG(value) FROM probes PER WINDOW)"
        " GROUP BY LANDMARK (value >= 5) {}"
    ),
    "led": (
        "SELECT id, ts, LEAD(value) OVER (PARTITION BY id ORDER BY ts) AS next, LEAD(ts, 3, ts) OVER (ORDER BY ts) AS third,"
        " LAG(value) OVER (ORDER BY ts) AS before FROM probes {}"
    ),
    "rising": ("SELECT id, ts FROM probes QUALIFY LEAD(value, 2) OVER (PARTITION BY id ORDER BY ts) > value {}"),
    "found": "SELECT a.id, a.ts, b.ts AS at FROM probes a, doors b WHERE a.id = b.id WINDOW(a, b) = 1 SECOND {}",
}
SHORT_S = 16
QUERIES["sessions_short"] = QUERIES["sessions"]
QUERIES["cut_short"] = QUERIES["cut"]
EVER = "BEGIN ('2020-01-01') END (NOW)"


class Story:
    """A database, subscribers to final rows, and what was told to them."""

    def __init__(self, pipe: Pipe, seed: int, window: str, names: list[str]) -> None:
        self.pipe, self.rng, self.names = pipe, random.Random(seed), names
        self.now = {"probes": 0, "doors": 0}
        self.lateness = {"probes": 6, "doors": 4}
        self.sensors = 2
        self.accepted: Accepted = {"probes": [], "doors": []}
        for table, field in (("probes", "value DOUBLE"), ("doors", "open DOUBLE")):
            options = VALID.format(f"{self.lateness[table]} SECONDS")
            pipe.db.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, place TEXT, reading STREAM ({field})) {options}"
            )
            pipe.db.execute(f"INSERT INTO {table} VALUES (1, 'north', NULL), (2, 'south', NULL)")
        pipe.db.execute(f"CREATE QUERY high AS SELECT id, ts, value FROM probes WHERE value > 3 {EVER}")
        for name in names:
            pipe.db.execute(f"CREATE QUERY {name} AS {QUERIES[name].format(window)}")
            pipe.db.execute(f"CREATE QUERY {name}_ever AS {QUERIES[name].format(EVER)}")
        pipe.engine.drain()
        self.told: dict[str, list[Row]] = {name: [] for name in names}
        self.marks: dict[str, int | None] = dict.fromkeys(names)
        self.seen: dict[str, int] = {}
        self.followers: dict[str, Any] = {}
        self.follow()

    def follow(self) -> None:
        for name in self.names:
            since = self.seen[name] + 1 if name in self.seen else None
            self.followers[name] = self.pipe.db.subscribe(name, since, final=True)

    def read(self) -> None:
        """Take what there is to be told; rows are told when their time passes the watermark, and not later."""
        for name, follower in self.followers.items():
            while (event := follower.next(0)) is not None:
                rows = rows_of(event.table)
                self.told[name] += rows
                if event.final_to_us is not None:
                    before = self.marks[name]
                    assert before is None or before <= event.final_to_us
                    self.marks[name] = event.final_to_us
            self.seen[name] = follower.cycle

    def step(self) -> None:
        rng, pipe = self.rng, self.pipe
        match rng.choices(("push", "cycle", "sensor", "lateness", "restart", "kill"), (20, 16, 2, 2, 1, 1))[0]:
            case "push":
                self.push(rng.choice(("probes", "doors")), rng.randint(1, 6))
            case "cycle":
                pipe.engine.cycle(Limits(rng.choice([1, 3, 1000]), rng.choice([1, 7, 1000])))
                if rng.random() < 0.7:
                    self.read()
            case "sensor" if self.sensors < 5:
                self.sensors += 1
                for table in ("probes", "doors"):
                    pipe.db.execute(f"INSERT INTO {table} VALUES ({self.sensors}, 'later', NULL)")
            case "lateness":
                table = rng.choice(("probes", "doors"))
                self.lateness[table] = rng.choice([2, 6, 9])
                pipe.db.execute(f"ALTER TABLE {table} SET lateness = '{self.lateness[table]} SECONDS'")
            case "restart":
                self.read()
                pipe.restart()
                self.follow()
            case "kill":
                self.read()
                killed(pipe)
                self.follow()

    def push(self, table: str, count: int) -> None:
        """Readings of all sensors, some of them late, a few of them too late."""
        rng, rows = self.rng, []
        for _ in range(count):
            self.now[table] += rng.choice([0, 0, 1, 1, 2, 20 if rng.random() < 0.1 else 3])
            back = rng.randint(0, self.lateness[table] + 1) if rng.random() < 0.5 else 0
            ts = T0 + max(0, self.now[table] - back) * SECOND
            field = {"value": float(rng.randint(0, 6))} if table == "probes" else {"open": float(rng.randint(0, 3))}
            rows.append({"id": rng.randint(1, self.sensors), "ts": ts, **field})
        self.pipe.clock.advance(30 * SECOND)
        receipt = self.pipe.db.push(table, rows)
        assert all(refusal.condition == "too_late" for refusal in receipt.refused)
        refused = {refusal.index for refusal in receipt.refused}
        taken = [row for index, row in enumerate(rows) if index not in refused]
        self.accepted[table] += [(row["id"], row["ts"], row.get("value", row.get("open"))) for row in taken]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.pipe.engine.drain()
        self.read()
        self.check()

    def check(self) -> None:
        """Everything that is final by now was told once, and as it is now, whatever came later."""
        marks = self.pipe.db.standing.feed.last()
        assert marks is not None
        tables = self.pipe.db.catalog.state.tables
        by_name: Marks = {name: marks.watermarks.get(table.id, -(2**62)) for name, table in tables.items()}
        for name in self.names:
            # Readers of a query are one cycle behind.
            behind = {"probes": self.pipe.db.standing.invoke(name).final_to_us} if name == "over" else {}
            expected = Counter(BY_LOOPS[name](self.accepted, by_name | behind) if name in BY_LOOPS else ())
            if (source := AS_ANSWERED.get(name)) is not None:
                ever = self.pipe.db.standing.invoke(f"{source}_ever").table
                rows = [dict(zip(ever.schema.names, row, strict=True)) for row in rows_of(ever)]
                expected += Counter(tuple(row.values()) for row in rows if is_final(source, row, by_name))
            told = Counter(self.told[name])
            assert told == expected, f"{name}: told {told - expected}, missing {expected - told}"


Accepted = dict[str, list[tuple[int, int, float]]]
Marks = dict[str, int]


def killed(pipe: Pipe) -> None:
    """Go on with what is on disk at this moment, as after a kill: nothing was closed."""
    left = pipe.folder.with_name(f"{pipe.folder.name}x")
    shutil.copytree(pipe.folder, left)
    pipe.db.stop()
    pipe.folder = left
    pipe.open()


def is_final(name: str, row: dict[str, Any], marks: Marks) -> bool:
    """What final means, by the question."""
    rules: dict[str, Callable[[], bool]] = {
        "held": lambda: row["ts"] < marks["probes"],
        "latest": lambda: row["ts"] < marks["doors"],
        "linear": lambda: row["ts"] + 3 * SECOND < marks["doors"],
        "plain": lambda: True,
    }
    return rules[name]()


# The other queries: their rows are taken from the same question about all that was ever read.
AS_ANSWERED = {"held": "held", "latest": "latest", "linear": "linear", "plain": "plain", "joined": "held"}


def joined(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    """The rows of the second branch, which wait for no other stream."""
    yield from ((id, ts, value + 100) for id, ts, value in accepted["doors"] if value > 1)


def paired(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for id, ts, value in accepted["probes"]:
        near = [at for other, at, _ in accepted["doors"] if other == id and -2 * SECOND <= at - ts <= 3 * SECOND]
        yield from ((id, ts, value, at) for at in near)
        if not near and ts + 3 * SECOND < marks["doors"]:
            yield id, ts, value, None


def alone(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for id, ts, _ in accepted["probes"]:
        near = any(other == id and abs(at - ts) <= 2 * SECOND for other, at, _ in accepted["doors"])
        if not near and ts + 2 * SECOND < marks["doors"]:
            yield id, ts


def found(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for id, ts, _ in accepted["probes"]:
        yield from ((id, ts, at) for other, at, _ in accepted["doors"] if other == id and abs(at - ts) <= SECOND)


def pairs(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    found: Counter[int] = Counter()
    for id, ts, _ in accepted["probes"]:
        for other, at, _ in accepted["doors"]:
            if other == id and abs(at - ts) <= 2 * SECOND:
                found[(max(ts, at) // (5 * SECOND) + 1) * 5 * SECOND] += 1
    yield from ((end, n) for end, n in found.items() if end <= min(marks.values()))


def panes(width_s: int, step_s: int) -> Callable[[Accepted, Marks], Iterator[Row]]:
    def found(accepted: Accepted, marks: Marks) -> Iterator[Row]:
        groups: dict[tuple[int, int], list[float]] = {}
        for id, ts, value in accepted["probes"]:
            start = ts // (step_s * SECOND) * step_s * SECOND
            while start > ts - width_s * SECOND:
                groups.setdefault((id, start + width_s * SECOND), []).append(value)
                start -= step_s * SECOND
        yield from ((id, end, len(v), sum(v)) for (id, end), v in groups.items() if end <= marks["probes"])

    return found


def over(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    found = Counter((ts // (5 * SECOND) + 1) * 5 * SECOND for _, ts, value in accepted["probes"] if value > 3)
    yield from ((end, n) for end, n in found.items() if end <= marks["probes"])


def sessions_within(longest_s: int) -> Callable[[Accepted, Marks], Iterator[Row]]:
    """Sessions that are no longer than their window."""

    def found(accepted: Accepted, marks: Marks) -> Iterator[Row]:
        for sensor in {id for id, _, _ in accepted["probes"]}:
            session: list[tuple[int, float]] = []
            for ts, value in [*sorted((ts, v) for id, ts, v in accepted["probes"] if id == sensor), (2**62, 0.0)]:
                if session and ts - session[-1][0] > 2 * SECOND:
                    begin, end = session[0][0], session[-1][0] + 2 * SECOND
                    if end < marks["probes"] and end - begin <= (longest_s + 2) * SECOND:
                        yield sensor, begin, end, len(session), sum(v for _, v in session)
                    session = []
                session.append((ts, value))

    return found


def between_landmarks(accepted: Accepted, marks: Marks) -> Iterator[tuple[int, int, list[tuple[int, float]]]]:
    """Each window that has ended, with its readings."""
    starts = sorted({ts for _, ts, value in accepted["probes"] if value >= 5})
    for start, end in pairwise(starts):
        if end < marks["probes"]:
            yield start, end, [(id, value) for id, ts, value in accepted["probes"] if start <= ts < end]


def cut_within(longest_s: int) -> Callable[[Accepted, Marks], Iterator[Row]]:
    def found(accepted: Accepted, marks: Marks) -> Iterator[Row]:
        for start, end, rows in between_landmarks(accepted, marks):
            for sensor in {id for id, _ in rows}:
                values = [value for id, value in rows if id == sensor and value < 6]
                if len(values) > 1 and end - start <= longest_s * SECOND:
                    yield sensor, start, end, len(values), sum(values)

    return found


def marked(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for start, end, rows in between_landmarks(accepted, marks):
        values = [value for _, value in rows]
        yield start, end, sum(value > sum(values) / len(values) for value in values)


def lagged(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for sensor in {id for id, _, _ in accepted["probes"]}:
        rows = sorted((ts, at, value) for at, (id, ts, value) in enumerate(accepted["probes"]) if id == sensor)
        for place, (ts, _, value) in enumerate(rows):
            if ts < marks["probes"]:
                yield sensor, ts, value, rows[place - 2][2] if place >= 2 else None


def led(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    rows = sorted((ts, at, id, value) for at, (id, ts, value) in enumerate(accepted["probes"]))
    for place, (ts, _, id, _) in enumerate(rows):
        after = next(((at, value) for at, _, other, value in rows[place + 1 :] if other == id), None)
        if after is not None and place + 3 < len(rows) and max(after[0], rows[place + 3][0]) < marks["probes"]:
            yield id, ts, after[1], rows[place + 3][0], rows[place - 1][3] if place else None


def rising(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    for sensor in {id for id, _, _ in accepted["probes"]}:
        rows = sorted((ts, at, value) for at, (id, ts, value) in enumerate(accepted["probes"]) if id == sensor)
        for (ts, _, value), (later, _, last) in zip(rows, rows[2:], strict=False):
            if last > value and later < marks["probes"]:
                yield sensor, ts


def ranked(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    counts = Counter((id, (ts // (5 * SECOND) + 1) * 5 * SECOND) for id, ts, _ in accepted["probes"])
    for (id, end), n in counts.items():
        if end <= marks["probes"] and n == max(m for (_, other), m in counts.items() if other == end):
            yield id, end, n


def busy(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    found = Counter((ts // (5 * SECOND) + 1) * 5 * SECOND for _, ts, value in accepted["probes"] if value > 2)
    yield from ((end, n) for end, n in found.items() if n > 1 and end <= marks["probes"])


def above(accepted: Accepted, marks: Marks) -> Iterator[Row]:
    panes: dict[int, list[float]] = {}
    for _, ts, value in accepted["probes"]:
        panes.setdefault((ts // (5 * SECOND) + 1) * 5 * SECOND, []).append(value)
    for end, values in panes.items():
        n = sum(value > sum(values) / len(values) for value in values)
        if n and end <= marks["probes"]:
            yield end, n


BY_LOOPS: dict[str, Callable[[Accepted, Marks], Iterator[Row]]] = {
    "tumbled": panes(5, 5),
    "slid": panes(6, 2),
    "busy": busy,
    "sessions": sessions_within(3600),
    "sessions_short": sessions_within(SHORT_S),
    "ranked": ranked,
    "lagged": lagged,
    "led": led,
    "cut": cut_within(3600),
    "cut_short": cut_within(SHORT_S),
    "marked": marked,
    "rising": rising,
    "above": above,
    "over": over,
    "paired": paired,
    "alone": alone,
    "found": found,
    "joined": joined,
    "pairs": pairs,
}


def rows_of(table: Any) -> list[Row]:
    return [tuple(micros(value) for value in row.values()) for row in table.to_pylist()]


def micros(value: Any) -> Any:
    return round(value.timestamp() * 1e6) if hasattr(value, "timestamp") else value


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_every_final_row_arrives_once_and_stays_as_it_was(pipe: Pipe, seed: int) -> None:
    names = [name for name in QUERIES if name not in ("sessions_short", "cut_short", "lagged", "led", "rising")]
    Story(pipe, seed, "BEGIN (NOW - 1 HOUR) END (NOW)", names).run(60)


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_what_stands_on_readings_that_never_leave_is_final_too(pipe: Pipe, seed: int) -> None:
    Story(pipe, seed, EVER, ["lagged", "led", "rising", "sessions", "ranked", "cut", "marked"]).run(60)


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_panes_that_leave_the_window_before_a_cycle_sees_them_arrive_too(pipe: Pipe, seed: int) -> None:
    names = ["tumbled", "slid", "busy", "above", "held", "sessions_short", "ranked", "cut_short"]
    story = Story(pipe, seed, f"BEGIN (NOW - {SHORT_S} SECONDS) END (NOW)", names)
    story.run(60)


def test_what_a_union_calls_final_stays_so_while_its_now_steps_back(pipe: Pipe) -> None:
    Story(pipe, 0, EVER, ["joined"])
    found = []
    for table, field, at in (("doors", "open", 10), ("probes", "value", 100), ("doors", "open", 50)):
        pipe.clock.advance(3600 * SECOND)  # the other one is idle by then
        pipe.db.push(table, [{"id": 1, "ts": T0 + at * SECOND, field: 3.0}])
        pipe.engine.drain()
        found.append(pipe.db.standing.invoke("joined"))
    before, after = found[1:]
    assert before.now_us is not None and after.now_us is not None and after.now_us < before.now_us
    assert before.final_to_us == after.final_to_us == T0 + 94 * SECOND
