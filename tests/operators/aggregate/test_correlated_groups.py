"""Correlated aggregates with groups, whole numbers, windows of rows and other sensors, by slices, against all rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.oracle.aggregates.model import panes_of
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

FIELDS = "duration DOUBLE, bytes BIGINT, kind TEXT, is_intl BOOLEAN"
VALID = "WITH (time = 'valid', out_of_order = 'accept')"
Row = dict[str, Any]
Passes = Callable[[Row, Any], Any]


@dataclass(frozen=True)
class Asked:
    """A question as SQL and as plain functions of rows: when one passes, given the inner aggregate of those beside it."""

    where: str
    x: str
    inner: Callable[[list[Any]], Any]
    passes: Passes
    group: tuple[str, ...] = ()
    beside: Callable[[Row, Row], bool] = lambda inner, outer: True
    pane_us: int | None = None
    step_us: int | None = None
    having: int = 0
    outside: Callable[[Row], Any] = lambda row: True
    inside: Callable[[Row], Any] = lambda row: True
    per_window: bool = False  # compared with those in the same pane only

    def sql(self, more: str) -> str:
        items = [*self.group, "COUNT(*) AS n", "SUM(bytes) AS s", "AVG(duration) AS m", "MIN(bytes) AS low"]
        items += ["MAX(bytes) AS high", "COUNT(*) FILTER (WHERE is_intl) AS some", "COUNT(kind) AS kinds"]
        groups = [*self.group]
        if self.pane_us is not None:
            items.insert(0, "window_start")
            step = f", {self.step_us // 1000} MS" if self.step_us is not None else ""
            groups.append(f"{'SLIDE' if step else 'TUMBLE'}({self.pane_us // 1000} MS{step})")
        text = f"SELECT {', '.join(items)} FROM calls o WHERE {self.where}"
        text += f" GROUP BY {', '.join(groups)}" if groups else ""
        return f"{text} HAVING COUNT(*) >= {self.having} {more}" if self.having else f"{text} {more}"

    def answer(self, rows: list[Row]) -> list[tuple[Any, ...]]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        if not self.group and self.pane_us is None:
            found[()] = []
        for row in rows:
            for pane in panes_of(row["ts"], self.pane_us, self.step_us):
                values = [
                    r[self.x]
                    for r in rows
                    if self.inside(r)
                    and self.beside(r, row)
                    and (not self.per_window or pane in panes_of(r["ts"], self.pane_us, self.step_us))
                ]
                known = [value for value in values if value is not None]
                if known and row[self.x] is not None and self.outside(row) and self.passes(row, self.inner(known)):
                    found.setdefault((*pane[:1], *(row[key] for key in self.group)), []).append(row)
        return [(*key, *_said(chosen)) for key, chosen in found.items() if len(chosen) >= self.having]


def _said(rows: list[Row]) -> tuple[Any, ...]:
    sizes = [r["bytes"] for r in rows if r["bytes"] is not None]
    durations = [r["duration"] for r in rows if r["duration"] is not None]
    total = (sum(sizes) + 2**63) % 2**64 - 2**63 if sizes else None
    intl, kinds = sum(bool(r["is_intl"]) for r in rows), sum(r["kind"] is not None for r in rows)
    return len(rows), total, mean(durations), min(sizes, default=None), max(sizes, default=None), intl, kinds


def mean(values: Iterable[Any]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def double_mean(values: list[int]) -> float:
    """AVG of BIGINT: each is a double first."""
    found = mean(map(float, values))
    assert found is not None
    return found


def same(one: str) -> Callable[[Row, Row], bool]:
    return lambda inner, outer: inner[one] is not None and inner[one] == outer[one]


ALL = "(SELECT AVG(duration) FROM calls)"
ASKED = {
    "biggest": Asked("bytes >= (SELECT MAX(bytes) FROM calls) - 1", "bytes", max, lambda r, i: r["bytes"] >= i - 1),
    "wrapped": Asked(
        "is_intl AND bytes > 3 * (SELECT MIN(bytes) FROM calls)",
        "bytes",
        min,
        lambda r, i: r["is_intl"] and r["bytes"] > (3 * i + 2**63) % 2**64 - 2**63,
    ),
    "as_doubles": Asked(
        "bytes > (SELECT AVG(bytes) FROM calls)", "bytes", double_mean, lambda r, i: float(r["bytes"]) > i, ("kind",)
    ),
    "by_kind": Asked(f"duration > {ALL}", "duration", mean, lambda r, i: r["duration"] > i, ("kind",)),
    "enough": Asked(f"duration <= {ALL}", "duration", mean, lambda r, i: r["duration"] <= i, ("kind",), having=2),
    "own_kind": Asked(
        "duration >= 0.9 * (SELECT MAX(i.duration) FROM calls i WHERE i.kind = o.kind)",
        "duration",
        max,
        lambda r, i: r["duration"] >= 0.9 * i,
        ("kind",),
        same("kind"),
    ),
    "null_is_a_kind": Asked(
        "duration > (SELECT AVG(duration) FROM calls i WHERE o.kind IS NOT DISTINCT FROM i.kind AND i.is_intl)",
        "duration",
        mean,
        lambda r, i: r["duration"] > i,
        ("kind",),
        lambda inner, outer: inner["kind"] == outer["kind"],
        inside=lambda r: r["is_intl"],
    ),
    "above_its_sensor": Asked(
        "duration > (SELECT AVG(i.duration) FROM calls i WHERE i.id = o.id)",
        "duration",
        mean,
        lambda r, i: r["duration"] > i,
        (),
        same("id"),
    ),
    "zones_of_sensors": Asked(
        "ABS(duration - (SELECT AVG(i.duration) FROM calls i WHERE i.id = o.id)) <= 2",
        "duration",
        mean,
        lambda r, i: abs(r["duration"] - i) <= 2,
        ("zone",),
        same("id"),
    ),
    "per_slide": Asked(
        f"duration > {ALL}", "duration", mean, lambda r, i: r["duration"] > i, pane_us=6_000_000, step_us=2_000_000
    ),
    "of_its_pane": Asked(
        "duration > (SELECT AVG(duration) FROM calls PER WINDOW)",
        "duration",
        mean,
        lambda r, i: r["duration"] > i,
        pane_us=5_000_000,
        per_window=True,
    ),
    "of_its_pane_and_kind": Asked(
        "duration >= 0.9 * (SELECT MAX(i.duration) FROM calls i WHERE i.kind = o.kind PER WINDOW)",
        "duration",
        max,
        lambda r, i: r["duration"] >= 0.9 * i,
        ("zone",),
        same("kind"),
        pane_us=5_000_000,
        per_window=True,
    ),
    "of_each_slide": Asked(
        "duration < (SELECT AVG(duration) FROM calls WHERE is_intl PER WINDOW)",
        "duration",
        mean,
        lambda r, i: r["duration"] < i,
        ("kind",),
        pane_us=5_000_000,
        step_us=2_000_000,
        inside=lambda r: r["is_intl"],
        per_window=True,
    ),
    "per_pane": Asked(
        f"duration < {ALL}", "duration", mean, lambda r, i: r["duration"] < i, ("zone",), pane_us=5_000_000
    ),
}
OTHERS = {
    "others": Asked(
        "zone = 'a' AND is_intl AND duration >= 0.5 * (SELECT MAX(duration) FROM calls)",
        "duration",
        max,
        lambda r, i: r["is_intl"] and r["duration"] >= 0.5 * i,
        outside=lambda r: r["zone"] == "a",
    ),
    "the_other_zone": Asked(
        "zone = 'a' AND id < 3 AND duration < (SELECT AVG(duration) FROM calls WHERE zone = 'b' AND id < 3)",
        "duration",
        mean,
        lambda r, i: r["duration"] < i,
        ("kind",),
        outside=lambda r: r["zone"] == "a" and r["id"] < 3,
        inside=lambda r: r["zone"] == "b" and r["id"] < 3,
    ),
}
SENSORS = {1: "a", 2: "b", 3: None, 4: "a"}


class Story:
    """Readings of four sensors, late ones among them, and questions that are asked all the time."""

    def __init__(self, pipe: Pipe, seed: int, options: str = VALID) -> None:
        self.pipe, self.chance, self.rows = pipe, random.Random(seed), list[Row]()
        self.valid, self.said = "valid" in options, set[str]()
        pipe.db.execute(f"CREATE TABLE calls (id INT PRIMARY KEY, zone TEXT, c STREAM ({FIELDS})) {options}")
        zones = (f"({key}, {'NULL' if zone is None else repr(zone)}, NULL)" for key, zone in SENSORS.items())
        pipe.db.execute(f"INSERT INTO calls VALUES {', '.join(zones)}")

    def ask(self, questions: dict[str, Asked], more: str) -> None:
        for name, asked in questions.items():
            self.pipe.db.execute(f"CREATE QUERY {name} AS {asked.sql(more)}")
            assert isinstance(plan_from_json(self.pipe.db.catalog.state.queries[name].plan), AggregatePlan), name

    def go_on(self, most: int) -> None:
        chance, pipe, sent = self.chance, self.pipe, []
        pipe.clock.advance(chance.choice([10_000, 900_000, 4_000_000]))
        for _ in range(chance.randint(0, most)):
            near = (
                2**62 + chance.randint(-3, 3) if chance.random() < 0.3 else chance.choice([0, -1, -(2**63), 2**53 + 1])
            )
            row: Row = {
                "id": chance.choice([1, 2, 3, 4]),
                "duration": chance.choice([None, 0.0, -2.5, float(chance.randint(-9, 40))]),
                "bytes": chance.choice([None, near]),
                "kind": chance.choice([None, "x", "x", "y", "z"]),
                "is_intl": chance.choice([True, True, False, None]),
            }
            late = chance.choice([0, 0, 1000, chance.randint(0, 30_000_000)]) if self.valid else 0
            ts = (pipe.clock.now_us() - late) // 1000 * 1000
            sent.append({**row, "ts": format_timestamp(ts)} if self.valid else row)
            self.rows.append({**row, "ts": ts, "zone": SENSORS[row["id"]]})
        if sent:
            pipe.db.push("calls", sent)
        pipe.engine.drain()
        if chance.random() < 0.1:
            pipe.restart()

    def check(self, questions: dict[str, Asked], rows: list[Row]) -> None:
        for name, asked in questions.items():
            found = self.pipe.db.standing.invoke(name).table.to_pylist()
            ours = [tuple(_plain(v) for v in row.values()) for row in found]
            theirs = asked.answer(rows)
            assert alike(ours, theirs), (name, ours, theirs)
            self.said |= {name} if any(row[-7] for row in ours) else set()


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) * 1000 if hasattr(value, "timestamp") else value


def alike(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    def close(a: Any, b: Any) -> bool:
        return a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-12))

    pairs = list(zip(sorted(ours, key=repr), sorted(theirs, key=repr), strict=False))
    return len(ours) == len(theirs) and all(close(a, b) for one, two in pairs for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("seed", range(2 if SOAK else 1))
def test_every_answer_is_what_all_rows_say(seed: int, pipes: Callable[..., Pipe]) -> None:
    story = Story(pipes(), seed)
    story.ask(ASKED, "BEGIN (NOW - 20 SECONDS) END (NOW)" if seed % 2 else "BEGIN (START - 1 DAY) END (NOW)")
    if not seed % 2:
        # A window that begins where it does is the same for all sensors.
        story.ask(OTHERS, "BEGIN (START - 1 DAY) END (NOW)")
    for _ in range(12):
        story.go_on(8)
        now = max((r["ts"] for r in story.rows), default=0)
        inside = [r for r in story.rows if not seed % 2 or r["ts"] >= now - 20_000_000]
        story.check(ASKED if seed % 2 else ASKED | OTHERS, inside)
    assert story.said == set(ASKED if seed % 2 else ASKED | OTHERS), "something was picked for everybody"
    story.pipe.db.stop()


@pytest.mark.parametrize(("each", "seed"), [(False, 1), (True, 2)])
def test_over_the_newest_rows_it_is_the_same(each: bool, seed: int, pipes: Callable[..., Pipe]) -> None:
    story = Story(pipes(), seed)
    window = f"BEGIN (LAST 6 ROWS{' PER SENSOR' if each else ''})"
    story.ask(ASKED, "BEGIN (NOW - 20 SECONDS) END (NOW)" if each else window)
    story.go_on(6)
    for name in ASKED:
        story.pipe.db.execute(f"ALTER QUERY {name} SET {window}")
    for _ in range(8):
        story.go_on(6)
        # Of two at the same time the one that came later is newer.
        order = sorted(range(len(story.rows)), key=lambda i: (story.rows[i]["ts"], i), reverse=True)
        newest = [story.rows[i] for i in order]
        of_each = [r for key in SENSORS for r in [r for r in newest if r["id"] == key][:6]]
        story.check(ASKED, of_each if each else newest[:6])
    story.pipe.db.stop()


def test_where_now_is_the_clock_the_subquery_may_be_about_other_sensors(pipes: Callable[..., Pipe]) -> None:
    story = Story(pipes(), 5, "")
    story.ask(OTHERS, "BEGIN (NOW - 20 SECONDS) END (NOW)")
    for _ in range(12):
        story.go_on(6)
        now = story.pipe.db.standing.store.offset.now_us  # type: ignore[union-attr]
        story.check(OTHERS, [r for r in story.rows if r["ts"] >= now - 20_000_000])
    story.pipe.db.stop()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COUNT(*) FROM calls WHERE duration > (SELECT AVG(duration) FROM calls PER WINDOW)", "GROUP BY TUMBLE"),
        ("SELECT AVG(duration) FROM calls PER WINDOW", "it stands in a subquery"),
        (
            "SELECT COUNT(*) FROM calls GROUP BY TUMBLE(5 SECONDS) HAVING COUNT(*) > (SELECT COUNT(*) FROM calls PER WINDOW)",
            "not supported",
        ),
        (
            "SELECT COUNT(DISTINCT kind) FROM calls WHERE duration > (SELECT AVG(duration) FROM calls PER WINDOW)"
            " GROUP BY TUMBLE(5 SECONDS)",
            "DISTINCT of rows that an inner aggregate picks",
        ),
    ],
)
def test_per_window_where_there_is_none_is_refused_with_a_caret(
    sql: str, said: str, pipes: Callable[..., Pipe]
) -> None:
    story = Story(pipes(), 1)
    with pytest.raises(PenstockError) as refused:
        story.pipe.db.execute(f"CREATE QUERY q AS {sql}")
    assert refused.value.condition == "not_supported" and refused.value.line == 1, refused.value.render()
    assert said in refused.value.render()


def test_per_window_is_explained_kept_over_a_restart_and_asked_once(pipes: Callable[..., Pipe]) -> None:
    story = Story(pipes(), 3)
    sql = ASKED["of_its_pane"].sql("BEGIN (NOW - 20 SECONDS) END (NOW)")
    story.pipe.db.execute(f"CREATE QUERY q AS {sql}")
    for _ in range(6):
        story.go_on(8)
    story.pipe.restart()
    told = story.pipe.db.execute("EXPLAIN q").table.column(0).to_pylist()
    assert "  subquery: of the rows of all groups, in the same window of GROUP BY" in told
    now = max(row["ts"] for row in story.rows)
    expected = ASKED["of_its_pane"].answer([r for r in story.rows if r["ts"] >= now - 20_000_000])
    standing, once = story.pipe.db.standing.invoke("q").table, story.pipe.db.execute(sql).table
    assert standing.equals(once) and expected
    assert alike([tuple(_plain(v) for v in row.values()) for row in once.to_pylist()], expected)
