"""GROUP BY LANDMARK (condition): windows between readings that satisfy it, against all rows in plain loops."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
PLACES = {1: "north", 2: "south"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A question in SQL, and as a value of the rows of one window and group."""

    sql: str
    value: Callable[[list[Row]], tuple[Any, ...]]
    by_place: bool = False
    keeps: Callable[[Row], bool] = lambda row: True
    least: int = 0


def known(rows: list[Row]) -> list[float]:
    return [row["value"] for row in rows if row["value"] is not None]


def counted(rows: list[Row]) -> tuple[Any, ...]:
    values = known(rows)
    return len(rows), math.fsum(values) if values else None, max(values, default=None)


def above_average(rows: list[Row]) -> tuple[Any, ...]:
    values = known(rows)
    mean = math.fsum(values) / len(values) if values else None
    return (sum(value > mean for value in values) if mean is not None else 0,)


def near_own_peak(rows: list[Row]) -> tuple[Any, ...]:
    values = known(rows)
    return (sum(value >= 0.9 * max(values) for value in values),)


LANDMARK = "LANDMARK (event = 'shift')"
ASKED = {
    "counted": Asked(
        f"SELECT window_start, window_end, COUNT(*) AS n, SUM(value) AS s, MAX(value) AS m FROM calls GROUP BY {LANDMARK}",
        counted,
    ),
    "by_place": Asked(
        "SELECT window_start, window_end, place, COUNT(*) AS n, SUM(value) AS s, MAX(value) AS m FROM calls"
        f" WHERE value > 1 GROUP BY {LANDMARK}, place HAVING COUNT(*) >= 2",
        counted,
        by_place=True,
        keeps=lambda row: row["value"] is not None and row["value"] > 1,
        least=2,
    ),
    "above": Asked(
        "SELECT window_start, window_end, COUNT(*) AS n FROM calls"
        f" WHERE value > (SELECT AVG(value) FROM calls PER WINDOW) GROUP BY {LANDMARK}",
        above_average,
    ),
    "near_own_peak": Asked(
        "SELECT window_start, window_end, c.place, COUNT(*) AS n FROM calls c WHERE c.value >= 0.9 *"
        f" (SELECT MAX(i.value) FROM calls i WHERE i.place = c.place PER WINDOW) GROUP BY {LANDMARK}, c.place",
        near_own_peak,
        by_place=True,
        least=1,
    ),
}


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", cycles_keep=6)
    made.db.execute(
        "CREATE TABLE calls (id INT PRIMARY KEY, place TEXT, c STREAM (value DOUBLE, event TEXT))"
        " WITH (time = 'valid', out_of_order = 'accept')"
    )
    made.db.execute("INSERT INTO calls VALUES (1, 'north', NULL), (2, 'south', NULL)")
    yield made
    made.db.stop()


def push(pipe: Pipe, rows: list[Row]) -> None:
    sent = [{**{n: row[n] for n in ("id", "value", "event")}, "ts": BEGAN_US + row["ts"]} for row in rows]
    assert pipe.db.push("calls", sent).accepted == len(sent)


def by_hand(asked: Asked, rows: list[Row], window_us: int) -> list[tuple[Any, ...]]:
    """Window by window, and row by row."""
    now = max((row["ts"] for row in rows), default=0)
    inside = [row for row in rows if now - window_us <= row["ts"] <= now]
    starts = sorted({row["ts"] for row in inside if row["event"] == "shift"})
    found = []
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else None
        own = [r for r in inside if start <= r["ts"] and (end is None or r["ts"] < end) and asked.keeps(r)]
        for key in sorted({PLACES[r["id"]] for r in own}) if asked.by_place else [None]:
            value = asked.value([r for r in own if key is None or PLACES[r["id"]] == key])
            if not asked.by_place or (value[-3] if len(value) == 3 else value[0]) >= asked.least:
                found.append((start, end, *([key] if key is not None else []), *value))
    return found


def said(table: Any) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return round(value.timestamp() * SECOND) - BEGAN_US if hasattr(value, "timestamp") else value

    return [tuple(map(plain, row.values())) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_every_answer_is_what_all_rows_say(pipe: Pipe, seed: int) -> None:
    chance = random.Random(seed)
    pipe.set_intervals(trim_cycles=3, snapshot_cycles=4)
    windows = {"long": 40 * SECOND, "short": 7_500_000}
    for name, asked in ASKED.items():
        for which, us in windows.items():
            sql = f"CREATE QUERY {name}_{which} AS {asked.sql} BEGIN (NOW - {us // 1000} MS) END (NOW)"
            pipe.db.execute(sql)
            assert isinstance(plan_from_json(pipe.db.definition(f"{name}_{which}").plan), AggregatePlan)
    pipe.engine.drain()
    rows: list[Row] = []
    at = 0
    for turn in range(14):
        for _ in range(chance.randint(0, 6)):
            step = chance.choice([0, 300_000, 1_700_000])
            at += step
            pipe.clock.advance(step)
            late = chance.choice([0, 0, 0, 400_000, 2_500_000, 9_000_000])
            row = {
                "id": chance.choice([1, 2]),
                "value": chance.choice([None, 1.0, 2.0, -3.0, 20.0]),
                "event": chance.choice([None, "shift", "other", "other", "other"]),
                "ts": max(0, at - late),
            }
            rows.append(row)
            push(pipe, [row])
            if chance.random() < 0.3:
                pipe.engine.cycle()
        if turn in (5, 10):
            pipe.restart()
        pipe.engine.drain()
        for name, asked in ASKED.items():
            for which, us in windows.items():
                answer = said(pipe.db.standing.invoke(f"{name}_{which}").table)
                assert answer == by_hand(asked, rows, us), (seed, turn, name, which)
            if rows and chance.random() < 0.2:
                once = pipe.db.execute(f"{asked.sql} BEGIN (NOW - 7500 MS) END (NOW)")
                assert said(once.table) == by_hand(asked, rows, windows["short"]), (seed, turn, name)


def row(at: float, value: float | None = None, event: str | None = None, sensor: int = 1) -> Row:
    return {"id": sensor, "value": value, "event": event, "ts": int(at * SECOND)}


def test_a_late_landmark_cuts_a_window_and_subscribers_see_both(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['counted'].sql} BEGIN (NOW - 1 MINUTE) END (NOW)")
    push(pipe, [row(0, 1.0, "shift"), row(1, 2.0), row(3.5, 4.0), row(5, 8.0)])
    pipe.engine.drain()
    changes = Subscription(pipe.db.standing, "q", None, True)
    event = changes.next(0)
    assert event is not None and said(event.table) == [("+", 0, None, 4, 15.0, 8.0)]
    push(pipe, [row(3.5, None, "shift", 2)])
    pipe.engine.drain()
    event = changes.next(0)
    assert event is not None
    assert sorted(said(event.table)) == [
        ("+", 0, 3_500_000, 2, 3.0, 2.0),
        ("+", 3_500_000, None, 3, 12.0, 8.0),
        ("-", 0, None, 4, 15.0, 8.0),
    ]


def test_readings_before_the_first_landmark_are_in_no_window(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['counted'].sql} BEGIN (NOW - 1 MINUTE) END (NOW)")
    push(pipe, [row(0, 1.0), row(1, 2.0)])
    pipe.engine.drain()
    assert said(pipe.db.standing.invoke("q").table) == []
    push(pipe, [row(2, 2.0, "shift")])
    pipe.engine.drain()
    assert said(pipe.db.standing.invoke("q").table) == [(2 * SECOND, None, 1, 2.0, 2.0)]


def test_explain_says_where_windows_begin(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['above'].sql} BEGIN (NOW - 1 MINUTE) END (NOW)")
    pipe.engine.drain()
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column(0).to_pylist())
    assert "  landmarks: a window begins at each reading with event = 'shift'" in told, told


def test_a_window_of_landmarks_is_altered(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['counted'].sql} BEGIN (NOW - 1 SECONDS) END (NOW)")
    rows = [row(0, 1.0, "shift"), row(1, 2.0), row(3, 4.0, "shift"), row(5, 8.0)]
    push(pipe, rows)
    pipe.engine.drain()
    assert said(pipe.db.standing.invoke("q").table) == []
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 10 SECONDS)")
    pipe.engine.drain()
    assert said(pipe.db.standing.invoke("q").table) == by_hand(ASKED["counted"], rows, 10 * SECOND)


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK", "column_not_found"),
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK ()", "syntax_error"),
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK (value)", "type_mismatch"),
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK (nothing = 1)", "column_not_found"),
        ("SELECT COUNT(*) FROM calls GROUP BY TUMBLE(1 SECOND), LANDMARK (value > 1)", "invalid_window"),
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK (value > 1), LATCH", "invalid_window"),
        ("SELECT COUNT(*) FROM calls GROUP BY LANDMARK (value > 1) BEGIN (LAST 5 ROWS)", "not_supported"),
        ("SELECT APPROX_COUNT(*) FROM calls GROUP BY LANDMARK (value > 1)", "not_supported"),
        ("SELECT SERIES(value, every => 1 SECOND) FROM calls GROUP BY LANDMARK (value > 1)", "not_supported"),
        (
            "SELECT COUNT(*) FROM calls WHERE value > (SELECT AVG(value) FROM calls) GROUP BY LANDMARK (value > 1)",
            "not_supported",
        ),
        (
            "SELECT COUNT(*) FROM calls GROUP BY LANDMARK (value > 1) HAVING COUNT(*) > (SELECT COUNT(*) / 2 FROM calls)",
            "not_supported",
        ),
        (
            "SELECT COUNT(*) FROM calls a, calls b WHERE a.id = b.id WINDOW(a, b) = 1 SECOND GROUP BY LANDMARK (a.value > 1)",
            "not_supported",
        ),
        ("SELECT a, COUNT(*) FROM (SELECT value AS a FROM calls) x GROUP BY LANDMARK (a > 1)", "grouping_error"),
    ],
)
def test_what_landmarks_do_not_cover_is_refused_with_a_caret(pipe: Pipe, sql: str, condition: str) -> None:
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY q AS {sql}")
    assert refused.value.condition == condition, refused.value.render()
    assert refused.value.line == 1, refused.value.render()


def test_the_best_groups_of_a_window_are_chosen(pipe: Pipe) -> None:
    pipe.db.execute(
        f"CREATE QUERY q AS SELECT window_start, place, SUM(value) AS s FROM calls GROUP BY {LANDMARK}, place"
        " QUALIFY RANK() OVER (PARTITION BY window_start ORDER BY SUM(value) DESC) <= 1 BEGIN (NOW - 1 MINUTE) END (NOW)"
    )
    push(pipe, [row(0, 1.0, "shift"), row(1, 2.0, sensor=2), row(2, 5.0, "shift"), row(3, 4.0, sensor=2)])
    pipe.engine.drain()
    assert said(pipe.db.standing.invoke("q").table) == [(0, "south", 2.0), (2 * SECOND, "north", 5.0)]


def test_too_many_landmarks_fail_by_name(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['counted'].sql} BEGIN (NOW - 1 MINUTE) END (NOW)")
    push(pipe, [row(n / 100, 1.0, "shift") for n in range(1001)])
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="makes 1001 windows"):
        pipe.db.standing.invoke("q")
