"""Queries of class low may stand behind the cycles: their answers are then exactly those of the cycle where they stand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cycle.late import Late, advance_late, late_from_json, late_pieces, waiting_rows
from penstock.cycle.low_class import TARGET_S, LowClassPace, MeasuredPace
from penstock.errors import PenstockError
from penstock.views.standing_queries import Intervals
from tests.support.pipe import Pipe

WINDOWS = (
    "BEGIN (NOW - 5 MILLISECONDS) END (NOW)",
    "BEGIN (NOW - 1 HOUR) END (NOW)",
    "BEGIN (START)",
    "BEGIN (NOW - 9 MILLISECONDS) END (NOW - 3 MILLISECONDS)",
)
WAITING = ("low", "low", "normal")
ODD = "CREATE FUNCTION odd(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ x % 2 == 1 $$"


class RandomPace:
    """Lets the class read a random number of rows, or all of them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.behind = 0  # cycles in which it did not take part

    def rows(self, new: int, low: int) -> int | None:
        chosen = self._chance.choice((0, 0, 1, 2, 5, None))
        self.behind += chosen is not None
        return chosen

    def begin_cycle(self, new: int, low: int) -> None:
        pass

    def end_cycle(self) -> None:
        pass


class NoRoom(RandomPace):
    """Lets the class read nothing."""

    def __init__(self) -> None:
        super().__init__(0)

    def rows(self, new: int, low: int) -> int | None:
        return 0


def begin(pipe: Pipe, pace: LowClassPace) -> None:
    pipe.engine._planner.pace = pace


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", intervals=Intervals(ready_s=0.0))
    yield made
    made.db.stop()


def rows_of(pipe: Pipe, name: str, cycle: int | None = None) -> list[tuple[object, ...]]:
    table = pipe.db.standing.invoke(name, cycle).table
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(6))
def test_a_low_query_answers_what_its_twin_answered_at_the_cycle_that_the_reply_names(pipe: Pipe, seed: int) -> None:
    chance, pace = random.Random(seed), RandomPace(seed)
    pipe.probes(chance.choice(("", "WITH (time = 'valid', out_of_order = 'accept')")))
    pipe.db.execute(ODD)
    wheres = ("odd(value)", "value > 2", "place = 'north' AND value < 7", "odd(value) AND place = 'south'")
    asked = [(where, window) for where in wheres for window in WINDOWS]
    names: list[str] = []

    def create() -> None:
        where, window = asked[len(names) % len(asked)]
        name = f"q{len(names)}"
        text = f"AS SELECT id, value FROM probes WHERE {where} {window}"
        pipe.db.execute(f"CREATE QUERY {name} WITH (priority = '{chance.choice(WAITING)}') {text}")
        pipe.db.execute(f"CREATE QUERY {name}_twin WITH (priority = 'high') {text}")
        names.append(name)

    for _ in range(4):
        create()
    behind = 0
    for _ in range(40):
        begin(pipe, pace)
        action = chance.random()
        if action < 0.06:
            create()
        elif action < 0.09 and names:
            name = names[chance.randrange(len(names))]
            pipe.db.execute(f"ALTER QUERY {name} PAUSE; ALTER QUERY {name}_twin PAUSE")
            pipe.engine.cycle()
            pipe.db.execute(f"ALTER QUERY {name} RESUME; ALTER QUERY {name}_twin RESUME")
        elif action < 0.13 and names:
            name = names[chance.randrange(len(names))]
            pipe.db.execute(f"ALTER QUERY {name} SET PRIORITY {chance.choice(('high', *WAITING))}")
        elif action < 0.17:
            pipe.restart()
            begin(pipe, pace)
        elif action < 0.2:
            pipe.db.standing.write_snapshot()
        if chance.random() < 0.8:
            values = [float(chance.randrange(10)) for _ in range(chance.randrange(1, 6))]
            pipe.push(*values, sensor=chance.randint(1, 2))
        pipe.engine.cycle()
        late = pipe.db.standing.store.offset.late if pipe.db.standing.store.offset is not None else None
        behind += late is not None
        for name in names:
            try:
                found = pipe.db.standing.invoke(name)
            except PenstockError as failure:  # it has just come, or fills
                assert failure.condition in ("not_ready", "query_not_found"), failure
                continue
            assert found.cycle == pipe.db.standing.newest_cycle(name)
            rows = sorted(tuple(row.values()) for row in found.table.to_pylist())
            try:
                expected = rows_of(pipe, f"{name}_twin", found.cycle)
            except PenstockError as failure:  # it is resumed, and reads its history
                assert failure.condition in ("not_ready", "cycle_gone"), failure
                continue
            assert rows == expected, name
    assert behind > 5
    pipe.engine.drain()
    for name in names:
        assert rows_of(pipe, name) == rows_of(pipe, f"{name}_twin")


def test_a_normal_query_that_calls_functions_waits_only_while_there_are_queries_of_class_high(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(ODD)
    for name, where in (
        ("costly", "odd(value)"),
        ("plain", "value > 2"),
        ("alarm", "value > 99"),
    ):
        pipe.db.execute(f"CREATE QUERY {name} AS SELECT value, id FROM probes WHERE {where} {WINDOWS[1]}")
    pipe.engine.drain()
    values: list[float] = []

    def behind() -> set[str]:
        """The queries that stand behind where only some rows of a cycle fit; all of them answer right once they come along."""
        begin(pipe, NoRoom())
        for _ in range(3):
            values.append(float(len(values)))
            pipe.push(values[-1])
            pipe.engine.cycle()
        found = {row["name"] for row in pipe.db.queries() if row["state"] == "LAGGING"}
        begin(pipe, MeasuredPace())
        pipe.engine.drain()
        odd = [value for value in values if value % 2 == 1]
        assert pipe.answer("costly") == odd
        assert pipe.answer("plain") == [value for value in values if value > 2]
        return found

    assert behind() == set()
    pipe.db.execute("ALTER QUERY alarm SET PRIORITY high")
    assert behind() == {"costly"}
    assert "priority normal: it stands behind the cycles" in str(pipe.db.execute("EXPLAIN costly").table[0].to_pylist())
    pipe.restart()
    assert behind() == {"costly"}
    pipe.db.execute("DROP QUERY alarm")
    assert behind() == set()


def test_without_a_priority_no_query_is_behind(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pace = RandomPace(1)
    begin(pipe, pace)
    for value in range(20):
        pipe.push(float(value))
        record = pipe.engine.cycle()
        assert record is not None and record.end.late is None
    assert pace.behind == 0


positions = st.dictionaries(st.integers(1, 3), st.integers(0, 50), min_size=1)


@given(st.lists(st.tuples(positions, st.none() | st.integers(0, 30)), min_size=1, max_size=15))
def test_the_class_reads_each_row_once_and_stands_only_at_the_ends_of_cycles(
    cycles: list[tuple[dict[int, int], int | None]],
) -> None:
    ends: list[dict[int, int]] = [{1: 0, 2: 0, 3: 0}]
    late: Late | None = None
    read = {1: 0, 2: 0, 3: 0}
    for new, rows in cycles:
        start = ends[-1]
        end = {table: start[table] + new.get(table, 0) for table in start}
        after = advance_late(start, late, rows)
        pieces = late_pieces(start, late, after)
        for table, first, last in pieces:
            assert read[table] == first < last <= start[table]
            read[table] = last
        assert rows is None or sum(last - first for _, first, last in pieces) <= rows
        if after is None:
            assert read == start
            read = dict(end)
        else:
            assert late_from_json(after.to_json()) == after
            assert {**read, **after.read} == read
            ended = [*ends, end]
            stands, goal = ended[len(ends) - after.behind], ended[len(ends) - after.goal_behind]
            assert goal == {**goal, **after.goal}
            assert all(stands[t] <= read[t] <= goal[t] for t in read)
            assert waiting_rows(end, after) == sum(end[t] - read[t] for t in read)
        ends.append(end)
        late = after


@pytest.mark.parametrize(("base_s", "start_s"), [(0.0, 0.0), (0.15, 0.0), (0.8 * TARGET_S, 0.0), (0.15, 5.0)])
def test_the_pace_keeps_cycles_short_and_starves_no_class(base_s: float, start_s: float) -> None:
    now_s = 0.0
    pace = MeasuredPace(lambda: now_s)

    def run(new: int, low: int) -> tuple[int | None, float]:
        """A cycle of rows that cost 1 us, and 100 us more each in the class low."""
        nonlocal now_s
        pace.end_cycle()
        rows = pace.rows(new, low)
        met = low if rows is None else min(rows, low)
        pace.begin_cycle(new, met)
        took = base_s + new * 1e-6 + met * 1e-4
        now_s += took
        return rows, took

    run(1, 0)
    now_s += start_s  # workers start
    run(10_000, 10_000)
    rows, _ = run(20_000, 20_000)
    assert rows is not None  # nothing was known of the one before
    run(10_000, 0)  # of queries that are not behind it reads nothing yet
    waiting, long, read = 0, 0, 0
    for _ in range(50):
        rows, took = run(10_000, waiting + 10_000)
        assert rows is None or rows >= 1
        read += waiting + 10_000 if rows is None else rows
        waiting = 0 if rows is None else waiting + 10_000 - rows
        long += took > 1.5 * TARGET_S
    assert long <= 2 * (start_s > 0) and read > 50 * 400  # of a cost that was hidden behind the start it learns in two
    for _ in range(20):
        rows, _ = run(100, 100)
    assert rows is None  # with few rows it takes part again


def test_one_slow_cycle_does_not_hold_the_class_back_for_long() -> None:
    now_s = 0.0
    pace = MeasuredPace(lambda: now_s)
    took_part = []
    for cycle in range(40):
        pace.end_cycle()
        rows = pace.rows(1_000, 1_000)
        took_part.append(rows is None)
        pace.begin_cycle(1_000, 1_000 if rows is None else rows)
        now_s += 30.0 if cycle == 3 else 0.1
    assert not took_part[4] and all(took_part[30:])


@pytest.mark.parametrize("priority", ["low", "normal"])
def test_a_heavy_query_delays_an_alarm_by_at_most_one_cycle(pipe: Pipe, priority: str) -> None:
    """A row costs a microsecond, and a millisecond more where the heavy query reads it. Time is that of this sum."""
    now_s = 0.0
    pipe.probes()
    pipe.db.execute(ODD)
    heavy, window = "SELECT value FROM probes WHERE odd(value)", WINDOWS[1]
    pipe.db.execute(f"CREATE QUERY heavy WITH (priority = '{priority}') AS {heavy} {window}")
    pipe.db.execute(f"CREATE QUERY twin WITH (priority = 'high') AS {heavy} {window}")
    pipe.db.execute(
        f"CREATE QUERY alarm WITH (priority = 'high') AS SELECT value FROM probes WHERE value > 1000 {window}"
    )
    pipe.engine.drain()
    pipe.engine._planner.pace = MeasuredPace(lambda: now_s)
    took: list[float] = []
    reached: list[int] = []
    values = np.arange(1_500.0)
    ids = np.ones(len(values) + 1, np.int32)
    for number in range(30):
        pipe.clock.advance(1000)
        pipe.db.push("probes", pa.table({"id": ids, "value": np.append(values, 2_000.0 + number)}))
        record = pipe.engine.cycle()
        assert record is not None
        start, end = record.start, record.end
        new = sum(end.data.values()) - sum(start.data.values())
        low = sum(last - first for _, first, last in late_pieces(start.data, start.late, end.late))
        low += new if end.late is None else 0
        took.append(new * 1e-6 + low * 1e-3)
        now_s += took[-1]
        assert rows_of(pipe, "alarm")[-1] == (2_000.0 + number,)  # in the cycle of its reading
        found = pipe.db.standing.invoke("heavy")
        reached.append(found.cycle)
        twin = pipe.db.standing.invoke("twin", found.cycle)
        assert found.table["value"].sort() == twin.table["value"].sort()
        assert (found.behind is None) == (end.late is None)
        if found.behind is not None and end.late is not None:
            assert found.behind.cycle == found.cycle == record.cycle - end.late.behind
            assert found.behind.rows == waiting_rows(end.data, end.late) > 0 < found.behind.seconds
            with pytest.raises(PenstockError, match=f"LAGGING: it stands at cycle {found.cycle}") as lagging:
                pipe.db.standing.invoke("heavy", record.cycle)
            assert lagging.value.condition == "not_ready"
        facts = pipe.db.query("heavy")
        assert (facts["state"] == "LAGGING") == (end.late is not None) == bool(found.notices)
    assert sum(seconds > 1.5 * TARGET_S for seconds in took) == 1  # the first: nothing was known of it
    assert reached[-1] > reached[5] and record.cycle > reached[-1]  # behind, and never still
    subscribed = pipe.db.subscribe("heavy")
    event = subscribed.next(0.0)
    assert event is not None and event.cycle == reached[-1] and event.behind == pipe.db.invoke("heavy").behind
    assert event.behind is not None and event.behind.cycle == event.cycle
    while pipe.db.query("heavy")["state"] == "LAGGING":
        record = pipe.engine.cycle()
        assert record is not None
    assert rows_of(pipe, "heavy") == rows_of(pipe, "twin")
    event = subscribed.next(0.0)
    assert event is not None and reached[-1] < event.cycle <= record.cycle
