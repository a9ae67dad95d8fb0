"""A database and all rows it was given, side by side, compared at committed cycles."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.answers.subscription import Subscription
from penstock.clock import format_timestamp
from penstock.cycle.cut import Limits
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.streams.log.atomic_file import CrashPoint, no_crash
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.views.standing_queries import Intervals
from tests.oracle.aggregates.model import Condition, Question, differing, same
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock

BEGAN_US = 1_763_190_000_000_000
FUNCTIONS = (
    *("count", "sum", "avg", "min", "max", "first", "last", "filtered", "corr"),
    *("first_known", "last_known"),
    *("var_samp", "var_pop", "stddev_samp", "stddev_pop"),
    *("count_distinct", "sum_distinct", "avg_distinct", "percentile", "median", "percentile_cont", "twa"),
    *("percentile_disc", "percentile_disc_desc", "mode", "mode_desc"),
)
OF_OTHERS = (
    *(
        ("min", "name"),
        ("max", "name"),
        ("count_distinct", "name"),
        ("count", "name"),
        ("first", "name"),
        ("last_known", "name"),
        ("last", "name"),
    ),
    *(("min", "amount"), ("max", "amount"), ("count_distinct", "amount"), ("sum", "amount"), ("last", "amount")),
)
# None stands for no condition.
STATIC_CONDITIONS: tuple[Condition | None, ...] = (
    *(None, None),
    *(("id <= 3", lambda r: r["id"] <= 3), ("place = 'north'", lambda r: r["place"] == "north")),
)
STREAM_CONDITIONS: tuple[Condition | None, ...] = (
    *(None, None),
    ("value > 0", lambda r: r["value"] is not None and (math.isnan(r["value"]) or r["value"] > 0)),
)
PLACES = ("north", "south", "east", None)
COLUMNS = (
    "(id INT PRIMARY KEY, place TEXT, level DOUBLE, reading STREAM"
    " (value DOUBLE, whole BIGINT, kind INT, name TEXT, amount DECIMAL(20, 2)))"
)
NAMES = (None, "", "a", "b", "\u00e4", "ab", "\U0001f600", "\uffee")
SNAPSHOT_CYCLES = 7
CYCLES_KEPT = 5
ODD = (math.nan, math.inf, -math.inf, -0.0)  # JSON has no such numbers
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "value": pa.float64(),
        "whole": pa.int64(),
        "kind": pa.int32(),
        "name": pa.string(),
        "amount": pa.decimal128(20, 2),
        "ts": pa.timestamp("us", "UTC"),
    }
)


@dataclass(frozen=True)
class Moment:
    """What a query that could be compared was asked at a committed cycle."""

    question: Question
    head: int
    now_us: int
    start_us: int | None
    begun: int


class Rig:
    """Runs one random story."""

    restarts = 0.1  # how often a cycle is followed by one
    odd = 0.3  # how often a push has values that are no ordinary numbers
    crash_point: CrashPoint = staticmethod(no_crash)
    far = False  # whether there are windows and gaps of hours and days, and a burst

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seed(seed)
        self.kept: dict[int, dict[str, Moment]] = {}
        self.compared_older = self.bursts = 0
        self.files_lost = self.files_kept = 0
        self.widths_us: set[int] = set()  # of the slices that there were
        # Snapshots and forgetting belong to the story, which is too short for the usual numbers.
        self._intervals = Intervals(snapshot_cycles=SNAPSHOT_CYCLES, trim_cycles=3, replaced_s=0.0)
        self.folder, self.clock = folder, ManualClock(BEGAN_US)
        self.time = self.random.choice(["valid", "transaction"])
        self.rows: list[dict[str, Any]] = []
        self.sensors: dict[int, tuple[str | None, float]] = {}
        self.questions: dict[str, Question] = {}
        self.watching: dict[str, tuple[Subscription, list[tuple[Any, ...]]]] = {}
        self.begun: dict[str, int] = {}  # where the log began when a query with LATCH came
        self.names = 0
        self.compared = 0
        self.open()
        order = ", out_of_order = 'accept'" if self.time == "valid" else ""
        keep = self.random.choice(["", "", ", retention = '6 SECONDS'"])
        self.db.execute(f"CREATE TABLE probes {COLUMNS} WITH (time = '{self.time}'{order}{keep})")
        for sensor in range(1, 6):
            self.place(sensor)

    def seed(self, seed: int) -> None:
        """A source of chance for each subject, so that a new subject leaves the stories what they were."""
        self.random = random.Random(seed)
        self.apart = random.Random(f"subqueries of {seed}")
        self.pauses = random.Random(f"sessions of {seed}")
        self.fate = random.Random(f"files of {seed}")
        self.numbers = random.Random(f"odd numbers of {seed}")
        self.distance = random.Random(f"gaps of {seed}")
        self.looks = random.Random(f"kept cycles of {seed}")

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0, cycles_keep=CYCLES_KEPT)
        self.db = Database(settings, self.clock, self._engine, self._intervals, crash_point=self._reach)  # type: ignore[arg-type]
        self.db.start()
        self.db.housekeeper.close()
        self.db.idle_queries.close()

    def _reach(self, step: str) -> None:
        self.crash_point(step)

    def _engine(self, *arguments: Any) -> LocalEngine:
        folder, settings, on_commit = arguments[:3]
        self.engine = LocalEngine(folder, settings, on_commit, self.clock, self.random.randint(1, 3))
        return self.engine

    def place(self, sensor: int) -> None:
        """A sensor comes, or moves: its later readings say so, earlier ones do not."""
        place, level = self.random.choice(PLACES), self.random.choice([0.0, -0.0, 1.5])
        text = "NULL" if place is None else f"'{place}'"
        if sensor in self.sensors:
            self.db.execute(f"UPDATE probes SET place = {text}, level = {level!r} WHERE id = {sensor}")
        else:
            self.db.execute(f"INSERT INTO probes VALUES ({sensor}, {text}, {level!r}, NULL)")
        self.sensors[sensor] = (place, level)

    def push(self, count: int = 0) -> None:
        """A few readings, or so many."""
        readings, rows, first = [], [], len(self.rows)
        odd = self.numbers.random() < self.odd
        for _ in range(count or self.random.randint(1, 12)):
            reading: dict[str, Any] = {"id": self.random.choice(list(self.sensors))}
            reading["value"] = self.random.choice([None, 0.1, 0.2, -0.3, 1e9, 1.0, float(self.random.randint(-9, 9))])
            if odd and self.numbers.random() < 0.3:
                reading["value"] = self.numbers.choice(ODD)
            reading["whole"] = self.random.choice([None, self.random.randint(-5, 5), 2**40])
            reading["kind"] = self.random.choice([None, 1, 2, 3])
            reading["name"] = self.random.choice(NAMES)
            reading["amount"] = self.random.choice(
                [None, Decimal("-0.01"), Decimal("999999999999999999.99"), Decimal("12.50")]
            )
            now = self.clock.now_us()
            if self.time == "valid":
                late = self.random.choice([0, 0, 0, 1000, 700_000, self.random.randint(0, 20_000_000)])
                reading["ts"] = (now - late) // 1000 * 1000
            place, level = self.sensors[reading["id"]]
            rows.append({**reading, "place": place, "level": level})
            readings.append(reading)
        receipt = self.db.push("probes", _arrow(readings) if odd or count else [_json(each) for each in readings])
        refused = {r.index for r in receipt.refused}
        assert all(r.condition == "before_retention" for r in receipt.refused), receipt
        for row in (row for i, row in enumerate(rows) if i not in refused):
            self.rows.append({**row, "position": len(self.rows)})
        if self.time == "transaction":
            self._take_times(first)

    def _take_times(self, first: int) -> None:
        """The times that the log gave the newest rows."""
        segments = list_segments(self.db.folder.log, self.table_id)
        times = [t for s in slices(segments, first, len(self.rows)) for t in read_slice(s).column("ts").to_pylist()]
        for row, ts in zip(self.rows[first:], times, strict=True):
            row["ts"] = _micros(ts)

    @property
    def table_id(self) -> int:
        (table,) = self.db.catalog.state.tables.values()
        return table.id

    def forget(self) -> None:
        """Retention takes what is too old, and files are merged."""
        self.db.housekeeper.tend(self.table_id)

    def create(self) -> None:
        self.names += 1
        question = self.with_subquery(self.with_sessions(self.far_back(self.question(f"q{self.names}"))))
        self.db.execute(f"CREATE QUERY {question.name} AS {question.sql}")
        plan = plan_from_json(self.db.catalog.state.queries[question.name].plan)
        assert isinstance(plan, AggregatePlan), plan
        self.questions[question.name] = question

    def question(self, name: str) -> Question:
        pick = self.random.choice
        calls: list[tuple[str, str | None]] = [("count", None)]
        for function in FUNCTIONS:
            for column in ("value", "whole"):
                if self.random.random() < 0.15:
                    calls.append((function, column))
        calls += [call for call in OF_OTHERS if self.random.random() < 0.15]
        panes: list[tuple[int | None, int | None]] = [(None, None)] * 3
        panes += [(1_000_000, None), (3_000_000, None), (500_000, None), (1_300_000, None)]
        panes += [(3_000_000, 1_000_000), (2_000_000, 1_500_000), (1_000_000, 300_000)]
        if self.random.random() < 0.2:
            keys = pick([(), ("place",), ("id",), ("kind", "place")])
            few, latch_us = tuple(calls), pick([0, 2_000_000, 9_000_000])
            return Question(
                name, keys, few, None, static=pick(STATIC_CONDITIONS), stream=pick(STREAM_CONDITIONS), latch_us=latch_us
            )
        begin = pick([None, 1_000_000, 2_500_000, 10_000_000, 3_333_000])
        if self.random.random() < 0.12:
            keys = pick([("value",), ("place", "level"), ("name", "kind"), ("amount",), ("whole", "place", "value")])
            newest = pick([None, None, (3, True), (10, False)])
            conditions = {"static": pick(STATIC_CONDITIONS), "stream": pick(STREAM_CONDITIONS)}
            return Question(name, keys, (), begin, **conditions, newest=newest, distinct=True)
        pane = pick(panes)
        own: tuple[int | None, ...] = ()
        if pane == (None, None) and self.random.random() < 0.4:
            own = tuple(
                None if "percentile" in f or "mode" in f or f == "twa" else pick([None, 500_000, 2_000_000, 4_321_000])
                for f, _ in calls
            )
        return Question(
            name,
            pick([(), ("place",), ("id",), ("place", "level"), ("kind",), ("kind", "place")]),
            tuple(calls),
            begin,
            pick([0, 0, 0, 400_000]) if begin is not None else 0,
            *pane,
            pick(STATIC_CONDITIONS),
            pick(STREAM_CONDITIONS),
            pick([None, None, 2]) if not any(own) else None,
            own,
            pick([None] * 5 + [(1, True), (3, True), (10, False), (60, False)]) if not any(own) else None,
        )

    def with_sessions(self, question: Question) -> Question:
        """Some windows are sessions instead."""
        pick = self.pauses.choice
        if any(question.own_us) or question.latch_us is not None or question.distinct or self.pauses.random() < 0.75:
            return question
        gap = pick([1_000, 37_000, 400_000, 1_000_000, 1_500_000, 2_000_000, 12_000_000])
        return replace(question, pane_us=None, step_us=None, session_us=gap)

    def far_back(self, question: Question) -> Question:
        """In stories about distance, half of the windows over time are long, and so are half of their panes."""
        pick = self.distance.choice
        if not self.far or question.begin_us is None or question.newest is not None or self.distance.random() < 0.5:
            return question
        pane = question.pane_us, question.step_us
        if question.pane_us is not None:
            pane = pick([pane, (60_000_000, None), (HOUR_US, None), (HOUR_US, 600_000_000), (DAY_US, None)])
        begin = pick([7000_000_000, 5 * HOUR_US, DAY_US, 3 * DAY_US])
        return replace(question, begin_us=begin, pane_us=pane[0], step_us=pane[1])

    def with_subquery(self, question: Question) -> Question:
        """Some questions are compared with all rows."""
        pick = self.apart.choice
        if any(question.own_us) or question.latch_us is not None or question.distinct or self.apart.random() < 0.6:
            return question
        static = question.static
        if self.time == "transaction" and question.newest is None:
            static = pick([static, None, ("id >= 4", lambda r: r["id"] >= 4)])  # time passes for all sensors alike
        stream = pick([None, question.stream, ("kind = 2", lambda r: r["kind"] == 2)])
        call = pick(
            [("count", "value"), ("count", "kind"), ("max", "whole"), ("sum", "kind"), ("count_distinct", "whole")]
        )
        begin, having = pick([None, None, 700_000, 6_000_000]), pick([None, None, 4])
        inner = Question("", (), (call,), begin, static=static, stream=stream, having=having)
        return replace(question, beside=inner, compared=call[0] == "count" and pick([True, True, False]))

    def alter(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            old = self.questions[name]
            if old.latch_us is not None:
                with pytest.raises(PenstockError, match="LATCH"):
                    self.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - 1 SECOND)")
                return
            begin = self.random.choice([1_000_000, 5_000_000, 15_000_000])
            if self.far and self.distance.random() < 0.5:
                begin = self.distance.choice([7000_000_000, DAY_US, 3 * DAY_US])
            new = Question(
                **{
                    **{f: getattr(old, f) for f in old.__dataclass_fields__},
                    "begin_us": begin,
                    "end_us": 0,
                    "newest": None,
                }
            )
            self.db.execute(f"ALTER QUERY {name} SET {new.window}")
            self.questions[name] = new

    def drop(self) -> None:
        if len(self.questions) > 2:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"DROP QUERY {name}")
            del self.questions[name]
            self.watching.pop(name, None)

    def watch(self) -> None:
        name = self.random.choice(list(self.questions) or [""])
        current = self.db.standing.store.state.position == self.db.catalog.state.position
        if name and name not in self.watching and current:
            subscription = self.db.subscribe(name, changes=True)
            self.watching[name] = (subscription, [])

    def cycle(self) -> None:
        limits = Limits(self.random.choice([3, 7, 1000]), self.random.choice([5, 1000]))
        self.engine.cycle(limits)
        if self.random.random() < self.restarts:
            self.restart()

    def restart(self) -> None:
        self.watching.clear()
        self.db.stop()
        self.lose_files()
        self.open()

    def lose_files(self) -> None:
        """After half of the stops, some files of cells are deleted, cut short or changed."""
        found = sorted((self.folder / "slices").glob("*/*.arrow"))
        if self.fate.random() < 0.5:
            self.files_kept += len(found)
            return
        for path in found:
            fate = self.fate.choice(["kept", "kept", "kept", "deleted", "short", "changed"])
            data = bytearray(path.read_bytes())
            self.files_kept += fate == "kept"
            self.files_lost += fate != "kept"
            if fate == "deleted":
                path.unlink()
            elif fate == "short":
                path.write_bytes(data[: self.fate.randrange(len(data))])
            elif fate == "changed":
                data[self.fate.randrange(len(data))] ^= 1 << self.fate.randrange(8)
                path.write_bytes(data)

    def step(self) -> None:
        if self.far and self.distance.random() < 0.12:
            self.gap()
        action = self.random.choices(
            [self.push, self.cycle, self.create, self.alter, self.drop, self.watch, self.wait, self.move, self.forget],
            [30, 30, 6, 4, 2, 4, 15, 2, 4],
        )[0]
        action()
        if action == self.cycle:
            self.compare()

    def finish(self, least: int = 0, files: bool = False) -> None:
        """Run what is left, and go on with a story that has met too few answers, or no files of cells."""
        self.run_cycles(3)
        rounds = 0
        while self.compared <= least or (files and not self.files_lost + self.files_kept):
            rounds += 1
            assert rounds <= 20, "a story without answers to compare or files to lose"
            self.push()
            self.run_cycles(SNAPSHOT_CYCLES)
            if files:
                self.restart()

    def run_cycles(self, count: int, rows: int = 1000) -> None:
        for _ in range(count):
            self.engine.cycle(Limits(rows, 1000))
            self.compare()

    def move(self) -> None:
        self.place(self.random.randint(1, 7))

    def wait(self) -> None:
        self.clock.advance(self.random.choice([1000, 37_000, 1_000_000, 4_700_000]))

    def gap(self) -> None:
        """Hours or days without a reading, or a little past the end of one."""
        longest = self.distance.choice([HOUR_US // 60, HOUR_US, HOUR_US, 9 * HOUR_US, 2 * DAY_US])
        self.clock.advance(self.distance.randint(1, longest // 1000) * 1000)

    def burst(self) -> None:
        """A thousand readings or so at once, and again after a while."""
        self.bursts += 1
        for wait_us in (40_000, 0):
            self.push(self.distance.randint(600, 1400))
            self.clock.advance(wait_us)
        self.run_cycles(1, 100_000)

    def compare(self) -> None:
        store = self.db.standing.store
        if store.offset is None:
            return
        (table,) = store.state.tables.values()
        floor, head = store.state.retention(table.id), store.offset.data.get(table.id, 0)
        for known in (each for family in store.slices.families.values() for each in family.measures.values()):
            if known.tiles is not None:
                self.widths_us.update(known.tiles.view().widths.tolist())
        moments = self.kept[store.cycle] = {}
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if definition is None or definition.id not in store.answers:
                continue
            if str(store.answers[definition.id].window) != str(plan_from_json(self.db.definition(name).plan).window):  # type: ignore[union-attr]
                continue
            begun = self.begun.setdefault(name, floor)
            if question.latch_us is not None and store.answers[definition.id].filling is not None:
                continue
            moments[name] = Moment(question, head, store.offset.now_us, definition.start_us, begun)
            if self.random.random() < 0.5:
                self._compare_one(name, moments[name], floor)
        for name in list(self.watching):
            self._follow(name)
        self._compare_older(store.cycle, floor)

    def _compare_older(self, newest: int, floor: int) -> None:
        """An answer at a kept cycle is that of the rows which there were."""
        cycle = self.looks.randint(max(newest - CYCLES_KEPT + 1, self.db.standing.feed.oldest()), newest)
        known = {name: moment for name, moment in self.kept.get(cycle, {}).items() if name in self.questions}
        self.kept = {at: each for at, each in self.kept.items() if at > newest - CYCLES_KEPT}
        if known and cycle < newest:
            name = self.looks.choice(sorted(known))
            self._compare_one(name, known[name], floor, cycle)
            self.compared_older += 1

    def _compare_one(self, name: str, moment: Moment, floor: int, cycle: int | None = None) -> None:
        question, now = moment.question, moment.now_us
        if self.time == "valid":
            # Rows that retention took have been, so NOW is what it was.
            seen = self.rows[: moment.head]
            now = max((r["ts"] for r in seen if question.passes(r)), default=None)  # type: ignore[assignment]
        result = self.db.standing.invoke(name, cycle)
        rows = self.rows[moment.begun if question.latch_us is not None else floor : moment.head]
        ours, theirs = sorted_rows(result.table), question.answer(rows, now, moment.start_us)
        self.compared += 1
        assert same(ours, theirs), (question.sql, cycle, now, *differing(ours, theirs))

    def _follow(self, name: str) -> None:
        subscription, known = self.watching[name]
        while (event := subscription.next(0)) is not None:
            for row in event.table.to_pylist():
                operation = row.pop("op")
                values = tuple(_plain(v) for v in row.values())
                if operation == "+":
                    known.append(values)
                else:
                    known.remove(next(k for k in known if repr(k) == repr(values)))
        if not self.db.standing.is_resting(name):
            now = sorted_rows(self.db.standing.invoke(name).table)
            assert same(sorted(known, key=repr), now), (name, known, now)


def _json(reading: dict[str, Any]) -> dict[str, Any]:
    amount, ts = reading["amount"], reading.get("ts")
    told = {**reading, "amount": None if amount is None else str(amount)}
    return told if ts is None else {**told, "ts": format_timestamp(ts)}


def _arrow(readings: list[dict[str, Any]]) -> pa.Table:
    names = [name for name in SCHEMA.names if name in readings[0]]
    return pa.Table.from_pylist(readings, pa.schema([SCHEMA.field(name) for name in names]))


def sorted_rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(v) for v in row.values()) for row in table.to_pylist()), key=repr)


def _plain(value: Any) -> Any:
    return _micros(value) if isinstance(value, datetime) else value


def _micros(value: datetime) -> int:
    return int(value.replace(microsecond=0).timestamp()) * 1_000_000 + value.microsecond
