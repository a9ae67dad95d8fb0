"""One stream beside ordinary tables over its life: tables that change, late readings, history, restarts, readers, parts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.errors import PenstockError
from penstock.operators.join.steps import units
from penstock.statements.descriptions import describe_query
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
MINE = "s.segment IN (SELECT segment FROM my_segments)"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", intervals=Intervals(own_writes_s=0.0), cycles_keep=4)
    made.db.execute(
        "CREATE TABLE loops (loop INT PRIMARY KEY, segment INT, r STREAM (speed DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept')"
    )
    made.db.execute("INSERT INTO loops VALUES (1, 7, NULL), (2, 8, NULL), (3, 9, NULL)")
    made.db.execute("CREATE TABLE my_segments (id INT PRIMARY KEY, segment INT, owner TEXT)")
    yield made
    made.db.stop()


def push(pipe: Pipe, *readings: tuple[int, float], at: int = 0) -> None:
    rows = [{"loop": loop, "speed": speed, "ts": BEGAN_US + at * SECOND} for loop, speed in readings]
    assert pipe.db.push("loops", rows).accepted == len(rows)


def answer(pipe: Pipe, name: str) -> list[tuple[Any, ...]]:
    pipe.engine.drain()
    table = pipe.db.standing.invoke(name).table
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def test_an_average_over_my_segments_follows_the_table_and_time(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'me'), (2, 7, 'me too')")
    pipe.db.execute(f"CREATE QUERY mean AS SELECT AVG(s.speed, 5 MINUTES) AS v FROM loops s WHERE {MINE}")
    push(pipe, (1, 10.0), (2, 99.0))
    assert answer(pipe, "mean") == [(10.0,)]  # a segment that stands there twice counts once
    pipe.db.execute("INSERT INTO my_segments VALUES (3, 8, 'me')")
    assert answer(pipe, "mean") == [(10.0,)]  # what was logged before is not mine
    push(pipe, (2, 30.0), at=10)
    assert answer(pipe, "mean") == [(20.0,)]
    pipe.db.execute("DELETE FROM my_segments WHERE segment = 7")
    push(pipe, (1, 1000.0), at=5)
    assert answer(pipe, "mean") == [(20.0,)]
    push(pipe, (2, 80.0), at=1)  # late, and mine
    assert answer(pipe, "mean") == [(40.0,)]
    pipe.restart()
    assert answer(pipe, "mean") == [(40.0,)]
    pipe.clock.advance(305 * SECOND)
    push(pipe, (3, 0.0), at=305)  # nobody's, but time passes
    assert answer(pipe, "mean") == [(30.0,)]


def test_not_in_is_never_true_beside_what_is_not_known(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO loops VALUES (4, NULL, NULL)")
    others = "WHERE s.segment NOT IN (SELECT segment FROM my_segments) AND s.speed > 0"
    pipe.db.execute(f"CREATE QUERY others AS SELECT s.loop, s.speed FROM loops s {others}")
    pipe.db.execute(f"CREATE QUERY counted AS SELECT s.speed, COUNT(*) AS n FROM loops s {others} GROUP BY s.speed")
    changes = (
        "DELETE FROM my_segments",  # nobody is in an empty table, whatever it is
        "INSERT INTO my_segments VALUES (1, 7, 'me')",
        "INSERT INTO my_segments VALUES (2, NULL, 'who knows')",
        "UPDATE my_segments SET segment = 8 WHERE id = 2",
    )
    for turn, change in enumerate(changes, 1):
        pipe.db.execute(change)
        push(pipe, *((loop, float(turn)) for loop in (1, 2, 3, 4)), at=turn)
    assert answer(pipe, "others") == sorted(
        [*((loop, 1.0) for loop in (1, 2, 3, 4)), (2, 2.0), (3, 2.0), (3, 4.0)], key=repr
    )
    assert answer(pipe, "counted") == [(1.0, 4), (2.0, 2), (4.0, 1)]


def test_it_is_described_as_what_it_is(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY fast AS SELECT s.speed FROM loops s WHERE {MINE} AND s.speed > 3")
    pipe.db.execute(f"CREATE QUERY mean AS SELECT AVG(s.speed, 5 MINUTES) AS v FROM loops s WHERE {MINE}")
    push(pipe, (1, 10.0))
    pipe.engine.drain()
    runs = [describe_query(pipe.db, pipe.db.definition(name))["runs"] for name in ("fast", "mean")]
    assert runs == ["join with tables", "join with tables, then slices"]
    told = "\n".join(pipe.db.execute("EXPLAIN ANALYZE fast").table.column("plan").to_pylist())
    assert told.startswith("one stream joined with tables, in the cycle beside the shared pass"), told
    assert 'table "my_segments", one row is enough, as it is when the reading is logged' in told
    assert "Spark SQL" not in told


def test_subscribers_hear_each_reading_once_and_its_leaving_with_changes(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'old')")
    pipe.db.execute(
        "CREATE QUERY owned AS SELECT s.speed, m.owner FROM loops s JOIN my_segments m ON m.segment = s.segment"
        " BEGIN (NOW - 10 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    plain, changes = (Subscription(pipe.db.standing, "owned", None, how) for how in (False, True))

    def heard(subscription: Subscription) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        while (event := subscription.next(0)) is not None:
            found += zip(*(c.to_pylist() for c in event.table.columns), strict=True)
        return found

    assert heard(plain) == heard(changes) == []
    push(pipe, (1, 1.0))
    pipe.engine.drain()
    pipe.db.execute("UPDATE my_segments SET owner = 'new' WHERE id = 1")
    push(pipe, (1, 2.0), at=5)
    pipe.engine.drain()
    push(pipe, (1, 3.0), at=12)
    pipe.engine.drain()
    assert heard(plain) == [(1.0, "old"), (2.0, "new"), (3.0, "new")]
    assert sorted(heard(changes)) == [("+", 1.0, "old"), ("+", 2.0, "new"), ("+", 3.0, "new"), ("-", 1.0, "old")]


def test_history_is_read_with_the_rows_of_its_time(pipe: Pipe) -> None:
    for number in range(5):
        pipe.db.execute("DELETE FROM my_segments")
        pipe.db.execute(f"INSERT INTO my_segments VALUES (1, {7 + number % 2}, 'owner {number}')")
        push(pipe, (1, number), (2, number), at=number)
    owned = "FROM loops s, my_segments m WHERE m.segment = s.segment BEGIN (NOW - 1 HOUR) END (NOW)"
    pipe.db.execute(f"CREATE QUERY owned AS SELECT s.loop, s.speed, m.owner {owned}")
    pipe.db.execute(
        f"CREATE QUERY total AS SELECT s.loop, SUM(s.speed) AS v {owned.replace(' BEGIN', ' GROUP BY s.loop BEGIN')}"
    )
    expected = [(1 + n % 2, float(n), f"owner {n}") for n in range(5)]
    assert answer(pipe, "owned") == sorted(expected, key=repr)
    assert answer(pipe, "total") == [(1, 6.0), (2, 4.0)]
    pipe.restart()
    assert answer(pipe, "owned") == sorted(expected, key=repr)


def test_parts_of_a_large_step_share_its_rows(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "SPREAD_ROWS", 2)
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'a'), (2, 7, 'b'), (3, 8, 'c')")
    for least in (0, 50):  # they differ in a constant, so one step serves both
        pipe.db.execute(
            f"CREATE QUERY over{least} AS SELECT s.speed, m.owner FROM loops s, my_segments m"
            f" WHERE m.segment = s.segment AND s.speed >= {least}"
        )
    pipe.engine.parallelism = 3
    push(pipe, *((1 + n % 3, float(n)) for n in range(100)))
    owners = ("ab", "c", "")
    expected = [(float(n), owner) for n in range(100) for owner in owners[n % 3]]
    assert answer(pipe, "over0") == sorted(expected, key=repr)
    assert answer(pipe, "over50") == sorted(((n, owner) for n, owner in expected if n >= 50), key=repr)
    # Nobody looks for partners among the readings of one stream: none are kept in memory.
    assert not [path for path in pipe.db.folder.buffers.rglob("*") if path.is_file() and path.name != ".owner"]


def test_it_is_read_like_a_stream_and_asked_on_demand(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'me')")
    pipe.db.execute(f"CREATE QUERY mine AS SELECT s.speed AS v FROM loops s WHERE {MINE}")
    pipe.db.execute("CREATE QUERY top AS SELECT MAX(v) AS v FROM mine BEGIN (NOW - 1 MINUTE) END (NOW)")
    push(pipe, (1, 10.0), (2, 99.0), (1, 20.0))
    pipe.engine.drain()
    push(pipe, (3, 0.0), at=1)  # rows of another query are read a cycle later
    assert answer(pipe, "top") == [(20.0,)]
    asked = pipe.db.execute("SELECT COUNT(*), SUM(v) FROM mine").table
    assert [c.to_pylist() for c in asked.columns] == [[2], [30.0]]


def test_a_table_that_it_reads_is_not_dropped_without_it(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY mine AS SELECT s.speed AS v FROM loops s WHERE {MINE}")
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("DROP TABLE my_segments")
    assert refused.value.condition == "dependents_exist" and 'query "mine"' in refused.value.message


def test_aggregates_look_back_as_far_as_each_says(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'me')")
    pipe.db.execute(
        "CREATE QUERY trend AS SELECT s.loop, AVG(s.speed, 10 SECONDS) AS now, AVG(s.speed, 1 MINUTE) AS lately,"
        f" COUNT(*, 10 SECONDS) AS n FROM loops s WHERE {MINE} GROUP BY s.loop"
    )
    push(pipe, (1, 10.0), (2, 99.0))
    push(pipe, (1, 20.0), at=20)
    assert answer(pipe, "trend") == [(1, 20.0, 15.0, 1)]
    push(pipe, (2, 0.0), at=40)  # not mine, but time passes
    assert answer(pipe, "trend") == [(1, None, 15.0, 0)]
    pipe.restart()
    assert answer(pipe, "trend") == [(1, None, 15.0, 0)]


def test_the_first_owner_is_asked_for_and_another_end_keeps_the_beginning(pipe: Pipe) -> None:
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 7, 'a'), (2, 8, 'b'), (3, 9, 'c')")
    pipe.db.execute(
        "CREATE QUERY top AS SELECT m.owner, MAX(s.speed, 1 MINUTE) AS v, COUNT(*, 10 SECONDS) AS n"
        " FROM loops s JOIN my_segments m ON m.segment = s.segment GROUP BY m.owner ORDER BY v DESC LIMIT 2"
    )
    assert describe_query(pipe.db, pipe.db.definition("top"))["runs"] == "join with tables, then slices"
    push(pipe, (1, 10.0), (2, 30.0))
    push(pipe, (3, 20.0), at=20)
    pipe.engine.drain()
    assert pipe.db.standing.invoke("top").table["owner"].to_pylist() == ["b", "c"]
    pipe.db.execute("ALTER QUERY top SET END (NOW - 15 SECONDS)")
    pipe.engine.drain()
    assert pipe.db.standing.invoke("top").table.to_pylist() == [
        {"owner": "b", "v": 30.0, "n": 1},
        {"owner": "a", "v": 10.0, "n": 1},
    ]
    assert "BEGIN (NOW - '1m') END (NOW - 15 SECONDS)" in pipe.db.definition("top").sql


@pytest.mark.parametrize("seed", range(2))
def test_first_and_last_are_of_the_readings_that_the_tables_leave(pipe: Pipe, seed: int) -> None:
    chance = random.Random(seed)
    pipe.db.execute("CREATE TABLE owners (segment INT PRIMARY KEY, owner TEXT)")
    ends = "FIRST(s.speed) AS a, LAST(s.speed) AS b, LAST(m.owner) FILTER (WHERE s.speed > 3) AS c"
    pipe.db.execute(
        f"CREATE QUERY ends AS SELECT s.loop, {ends}, FIRST(s.speed, 5 SECONDS) AS d"
        " FROM loops s LEFT JOIN owners m ON m.segment = s.segment GROUP BY s.loop BEGIN (NOW - 20 SECONDS) END (NOW)"
    )
    pipe.db.execute("CREATE QUERY owned AS SELECT s.loop, s.speed AS v FROM loops s JOIN owners m USING (segment)")
    pipe.db.execute("CREATE QUERY newest AS SELECT loop, LAST(v) AS v FROM owned GROUP BY loop")
    for name in ("ends", "newest"):
        assert describe_query(pipe.db, pipe.db.definition(name))["reason"] is None
    owners: dict[int, str] = {}
    sent: list[tuple[int, int, float, str | None]] = []
    for cycle in range(12):
        segment = chance.choice([7, 8, 9])
        if segment in owners and chance.random() < 0.5:
            pipe.db.execute(f"DELETE FROM owners WHERE segment = {segment}")
            del owners[segment]
        elif segment not in owners:
            owners[segment] = f"o{cycle}"
            pipe.db.execute(f"INSERT INTO owners VALUES ({segment}, 'o{cycle}')")
        for _ in range(chance.randint(1, 6)):
            loop, at, speed = (
                chance.randint(1, 3),
                max(0, 3 * cycle - chance.choice([0, 0, 2, 9])),
                chance.randint(0, 9),
            )
            push(pipe, (loop, float(speed)), at=at)
            sent.append((at, loop, float(speed), owners.get(loop + 6)))
        if cycle == 7:
            pipe.restart()
        now = max(at for at, *_ in sent)
        wanted = []
        for loop in (1, 2, 3):
            rows = sorted((r for r in sent if r[1] == loop and r[0] >= now - 20), key=lambda r: r[0])
            fast, late = [r[3] for r in rows if r[2] > 3], [r[2] for r in rows if r[0] >= now - 5]
            if rows:
                wanted.append((loop, rows[0][2], rows[-1][2], fast[-1] if fast else None, late[0] if late else None))
        assert answer(pipe, "ends") == sorted(wanted, key=repr), (seed, cycle)
    pipe.clock.advance(SECOND)
    push(pipe, (1, 5.0), at=36)  # rows of another query are read a cycle later
    mine = {loop: speed for _, loop, speed, owner in sorted(sent, key=lambda r: r[0]) if owner is not None}
    assert answer(pipe, "newest") == sorted(mine.items(), key=repr)


def test_time_alone_moves_an_aggregates_own_window(pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE calls (line INT PRIMARY KEY, r STREAM (s DOUBLE))")
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL)")
    pipe.db.execute("INSERT INTO my_segments VALUES (1, 1, 'me')")
    pipe.db.execute(
        "CREATE QUERY counts AS SELECT COUNT(c.s, 5 SECONDS) AS n, COUNT(c.s) AS whole"
        " FROM calls c JOIN my_segments m ON m.segment = c.line"
    )
    pipe.db.push("calls", [{"line": 1, "s": 1.0}])
    assert answer(pipe, "counts") == [(1, 1)]
    pipe.clock.advance(6 * SECOND)
    assert pipe.engine.cycle() is not None  # without any reading
    assert answer(pipe, "counts") == [(0, 1)]
