"""Answers as of past times: what the window held then, as far as the log knows today."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.parse import parse_as_of
from penstock.sql.statements import AsOf
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
VALID = "WITH (time = 'valid', out_of_order = 'accept'{})"


def seconds(at: float) -> int:
    return BEGAN_US + int(at * SECOND)


def send(pipe: Pipe, *readings: tuple[int, float, float]) -> None:
    """(sensor, seconds, value) each."""
    pipe.clock.set(max(pipe.clock.now_us(), seconds(max(at for _, at, _ in readings))))
    rows = [{"id": s, "ts": format_timestamp(seconds(at)), "value": v} for s, at, v in readings]
    assert pipe.db.push("probes", rows).accepted == len(rows)


def values(pipe: Pipe, name: str, as_of: Any) -> list[float]:
    answer = pipe.db.invoke(name, as_of).table.column("value").to_pylist()
    return sorted(answer)


def at(when: float) -> AsOf:
    return AsOf(time_us=seconds(when))


def test_an_older_answer_comes_back_by_time_distance_and_cycle(pipe: Pipe) -> None:
    pipe.probes(VALID.format(""))
    pipe.db.execute(
        "CREATE QUERY recent AS SELECT value FROM probes WHERE value > 0 BEGIN (NOW - 10 SECONDS) END (NOW)"
    )
    cycles = {}
    for when in (0, 6, 12, 30):
        send(pipe, (1, when, when + 1), (2, when, -1))
        pipe.engine.drain()
        cycles[when] = pipe.db.standing.store.cycle
    assert values(pipe, "recent", None) == [31]
    assert values(pipe, "recent", at(12)) == values(pipe, "recent", cycles[12]) == [7, 13]
    assert values(pipe, "recent", "NOW - 18 SECONDS") == [7, 13]
    assert values(pipe, "recent", at(11.5)) == [7] and values(pipe, "recent", at(9)) == [1, 7]
    assert values(pipe, "recent", at(29)) == [] and values(pipe, "recent", at(-1)) == []
    time = format_timestamp(seconds(12))
    for moment in (f"'{time}'", f"TIMESTAMP '{time}'", "NOW - 18 SECONDS", f"CYCLE {cycles[12]}", "(NOW - 18 SECONDS)"):
        found = pipe.db.execute(f"SELECT * FROM recent AS OF {moment}")
        assert sorted(found.table.column("value").to_pylist()) == [7, 13] and found.now_us == seconds(12), moment
    assert pipe.db.invoke("recent", time, limit=1).table.num_rows == 1


def test_a_cycle_that_is_still_to_come_is_not_called_gone(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes")
    pipe.engine.drain()
    newest = pipe.db.standing.store.cycle
    with pytest.raises(PenstockError, match=f"cycle {newest + 7} has not come yet; the newest is {newest}"):
        pipe.db.invoke("q", newest + 7)


def test_a_query_answers_for_times_before_it_was_registered(pipe: Pipe) -> None:
    pipe.probes(VALID.format(""))
    send(pipe, *[(1, n, n) for n in range(20)])
    pipe.db.execute("CREATE QUERY late AS SELECT value FROM probes BEGIN (NOW - 2 SECONDS) END (NOW)")
    pipe.engine.drain()
    assert values(pipe, "late", at(5)) == [3, 4, 5]


def test_a_late_reading_corrects_the_answer_of_its_own_time(pipe: Pipe) -> None:
    pipe.probes(VALID.format(""))
    pipe.db.execute("CREATE QUERY all_of_it AS SELECT value FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")
    send(pipe, (1, 0, 1), (1, 20, 2))
    pipe.engine.drain()
    assert values(pipe, "all_of_it", at(8)) == [1]
    send(pipe, (1, 7, 3))
    pipe.engine.drain()
    assert values(pipe, "all_of_it", at(8)) == [1, 3]


def test_the_window_is_the_one_that_the_query_has_now(pipe: Pipe) -> None:
    pipe.probes(VALID.format(""))
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes BEGIN (NOW - 1 SECOND) END (NOW)")
    send(pipe, *[(1, n, n) for n in range(20)])
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 3 SECONDS)")
    pipe.engine.drain()
    assert values(pipe, "q", at(10)) == [7, 8, 9, 10]
    pipe.db.execute("ALTER QUERY q PAUSE")
    pipe.engine.drain()
    assert values(pipe, "q", at(10)) == [7, 8, 9, 10], "what is paused still has a past"


def test_beyond_retention_the_oldest_possible_time_is_named(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes(VALID.format(", retention = '60 SECONDS'"))
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.db.execute("CREATE QUERY rows3 AS SELECT value FROM probes BEGIN (LAST 3 ROWS)")
    for n in range(0, 100, 5):
        send(pipe, (1, n, n))
        pipe.engine.drain()
    assert values(pipe, "q", at(20)) == [10, 15, 20], "what is still there is found"
    pipe.db.catalog.retain(pipe.db.catalog_table("probes").id, 7)
    pipe.engine.drain()
    # Readings are kept from 95 - 60 = 35 s on, and the window reaches 10 s further.
    assert values(pipe, "q", at(45)) == [35, 40, 45]
    with pytest.raises(PenstockError) as gone:
        pipe.db.invoke("q", at(44))
    assert gone.value.condition == "history_gone" and gone.value.status == 410
    assert format_timestamp(seconds(45)) in gone.value.message and "10s" in str(gone.value.hint)
    with pytest.raises(PenstockError, match="the oldest possible is"):
        pipe.db.invoke("rows3", at(34))
    with pytest.raises(PenstockError, match=r"the oldest possible is 2025-11-15T07:00:45\.000000Z"):
        pipe.db.invoke("rows3", at(44))
    assert values(pipe, "rows3", at(45)) == [35, 40, 45]


@pytest.mark.parametrize(
    ("moment", "detail"),
    [
        ("NOW + 1 SECOND", "AS OF wants a moment that has been"),
        ("START", "AS OF wants a moment that has been"),
        ("'yesterday'", '"yesterday" is not a time'),
        ("'2999-01-01'", "has not come yet"),
        ("CYCLE many", "expected a cycle's number"),
    ],
)
def test_a_moment_that_is_none_is_pointed_at(pipe: Pipe, moment: str, detail: str) -> None:
    pipe.probes(VALID.format(""))
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes BEGIN (NOW - 1 SECOND) END (NOW)")
    send(pipe, (1, 0, 1))
    pipe.engine.drain()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"SELECT * FROM q AS OF {moment}")
    assert detail in refused.value.message and refused.value.line == 1


def test_only_a_standing_query_by_name_has_a_past(pipe: Pipe) -> None:
    pipe.probes(VALID.format(""))
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes BEGIN (NOW - 1 SECOND) END (NOW)")
    for text in (
        "SELECT value FROM q AS OF NOW - 1 SECOND",
        "SELECT * FROM probes AS OF NOW - 1 SECOND",
        "CREATE QUERY p AS SELECT * FROM q AS OF NOW - 1 SECOND",
    ):
        with pytest.raises(PenstockError, match="AS OF here is not supported") as refused:
            pipe.db.execute(text)
        assert refused.value.column == text.index("AS OF") + 1
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="nothing has been observed yet"):
        pipe.db.invoke("q", "NOW - 1 SECOND")
    for text in ("", "soon", "NOW - 1 SECOND; DROP QUERY q", "NOW -"):
        with pytest.raises(PenstockError, match="is not a moment"):
            parse_as_of(text)
    assert parse_as_of("17") == AsOf(cycle=17) and parse_as_of("now - 5 minutes") == AsOf(offset_us=-300 * SECOND)


class Runner:
    """Stands in for Spark: remembers what it was to run, and when."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []

    def run(self, plan: Any, moment: Any, system: Any) -> pa.Table:
        self.runs.append((plan, moment))
        return pa.table({"n": [1, 2]})


def test_what_no_kernel_keeps_is_evaluated_at_that_time_as_spark_sql(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.set_intervals(own_writes_s=0.0)
    runner = Runner()
    pipe.spark = lambda: runner
    pipe.probes(VALID.format(""))
    send(pipe, (1, 0, 1), (1, 30, 2))
    pipe.engine.drain()
    texts = {
        "counted": "SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)",
        "newest": "SELECT MAX(value) AS n FROM probes BEGIN (LAST 3 ROWS)",
        "joined": "SELECT a.value AS n FROM probes a, probes b DWINDOW(a, b) = 5 SECONDS WHERE a.id = b.id"
        " BEGIN (NOW - 1 MINUTE) END (NOW)",
    }
    for name, text in texts.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {text}")
    pipe.engine.drain()
    expected = {"counted": [(10, 20)], "newest": [(None, 20)], "joined": [(-40, 20), (-40, 20)]}
    for name, ranges in expected.items():
        found = pipe.db.invoke(name, "NOW - 10 SECONDS", limit=1)
        assert found.table.num_rows == 1 and found.now_us == seconds(20)
        plan, moment = runner.runs[-1]
        assert moment.now_us == seconds(20) and len(plan.relations) == len(ranges)
        for relation, (low, high) in zip(plan.relations, ranges, strict=True):
            low_us, high_us = moment.ranges[relation.name]
            assert (low_us, high_us) == (seconds(low) if low is not None else -(2**62), seconds(high))
    pipe.db.execute("CREATE QUERY sorted AS SELECT value FROM probes BEGIN (NOW - 10 SECONDS) END (NOW) ORDER BY value")
    pipe.engine.drain()
    now = pipe.db.invoke("sorted").table
    assert pipe.db.invoke("sorted", pipe.db.standing.store.cycle).table.equals(now)
    with pytest.raises(PenstockError, match="cycle 1 is no longer kept; the oldest is"):
        pipe.db.invoke("sorted", 1)
    pipe.db.execute("CREATE QUERY about AS SELECT COUNT(*) AS n FROM penstock.cycles")
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="which has no past"):
        pipe.db.invoke("about", "NOW - 1 SECOND")


FORMS = [
    "BEGIN (NOW - 7 SECONDS) END (NOW)",
    "BEGIN (NOW - 9 SECONDS) END (NOW - 4 SECONDS)",
    "BEGIN (START - 20 SECONDS) END (NOW)",
    "BEGIN (LAST 5 ROWS)",
    "BEGIN (LAST 2 ROWS PER SENSOR)",
]


@pytest.mark.parametrize("seed", range(4))
def test_every_window_gives_what_brute_force_finds_at_any_time(pipe: Pipe, seed: int) -> None:
    rng = random.Random(seed)
    pipe.probes(VALID.format(""))
    log: list[tuple[int, float, int]] = []
    for form, text in enumerate(FORMS):
        pipe.db.execute(
            f"CREATE QUERY q{form} AS SELECT value FROM probes WHERE value % 3 <> 0 AND place = 'north' {text}"
        )
        pipe.db.execute(f"CREATE QUERY all{form} AS SELECT value FROM probes WHERE value > 9 {text}")
    for _ in range(rng.randrange(3, 7)):
        batch = [(rng.choice((1, 2)), rng.randrange(0, 60) / 2, len(log) + n) for n in range(rng.randrange(1, 12))]
        send(pipe, *batch)
        log += batch
        pipe.engine.drain()
    for name, passes in (("q", lambda r: r[0] == 1), ("all", lambda r: True)):
        matches = (lambda r: r[2] % 3) if name == "q" else (lambda r: r[2] > 9)
        known = [r for r in log if passes(r)]
        newest = max(r[1] for r in known)
        for _ in range(12):
            when = min(rng.randrange(-4, 62) / 2, newest)
            before = sorted((r for r in known if r[1] <= when), key=lambda r: (r[1], r[2]))
            expected = [
                [r for r in before if when - 7 <= r[1]],
                [r for r in before if when - 9 <= r[1] <= when - 4],
                before,  # no time was known at registration
                before[-5:],
                [r for s in (1, 2) for r in [b for b in before if b[0] == s][-2:]],
            ]
            for form, rows in enumerate(expected):
                found = values(pipe, f"{name}{form}", at(when))
                assert found == sorted(r[2] for r in rows if matches(r)), (name, FORMS[form], when)
