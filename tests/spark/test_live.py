"""Standing queries while they live: subscriptions, functions, queries on queries, changes of the catalog."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.views.results import Event
from tests.spark.asking import answer, ask, at, eventually, make_meters, push, rows_of


def events_until(subscription: Subscription, enough: int) -> list[Event]:
    """Events up to the one that brings the number of rows to `enough`."""
    found: list[Event] = []
    while sum(e.table.num_rows for e in found) < enough:
        event = subscription.next(60)
        assert event is not None, found
        found.append(event)
    return found


def test_a_subscriber_gets_the_answer_and_then_each_row_once(db: Database) -> None:
    make_meters(db)
    push(db, (1, 0, 0), (1, 1, 1))
    db.execute("CREATE QUERY w AS SELECT n FROM meters WHERE n <> 3 BEGIN (NOW - 1 SECONDS) END (NOW)")
    db.wait_for_own_writes()
    subscription = db.subscribe("w")
    first = subscription.next(60)
    assert first is not None and sorted(rows_of(first.table)) == [(0,), (1,)]
    for n in range(2, 8):
        push(db, (1, n, n))
    got = [row for event in events_until(subscription, 5) for row in rows_of(event.table)]
    subscription.close()
    assert got == [(2,), (4,), (5,), (6,), (7,)]


def test_an_alarm_whose_window_passes_within_the_cycle_is_still_sent(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT n FROM meters WHERE n = 13 BEGIN (NOW - 1 SECONDS) END (NOW)")
    push(db, (1, 0, 0))
    db.wait_for_own_writes()
    subscription = db.subscribe("w")
    assert subscription.next(60) is not None
    push(db, (1, 1, 13), (1, 50, 50))
    event = subscription.next(60)
    subscription.close()
    assert event is not None and rows_of(event.table) == [(13,)]
    assert answer(db, "w") == []


@pytest.mark.parametrize(
    "clause",
    ["BEGIN (NOW - 3 SECONDS) END (NOW)", "BEGIN (LAST 4 ROWS)", "BEGIN (NOW - 9 SECONDS) END (NOW - 2 SECONDS)"],
)
def test_replayed_changes_give_what_select_gives_at_the_same_cycle(db: Database, clause: str) -> None:
    make_meters(db, accept=True)
    db.execute(f"CREATE QUERY w AS SELECT n, site FROM meters WHERE n % 3 <> 0 {clause}")
    push(db, (1, 0, 0), (2, 1, 1))
    db.wait_for_own_writes()
    subscription = db.subscribe("w", changes=True)
    events = [subscription.next(60)]
    held: Counter[tuple[Any, ...]] = Counter()
    for n in range(2, 14):
        push(db, (1 + n % 2, n - (2.5 if n % 5 == 0 else 0), n))
        db.wait_for_own_writes()
    last = db.standing.store.cycle
    while event := subscription.next(0.5):
        events.append(event)
    for event in events:
        assert event is not None
        for operation, *row in rows_of(event.table):
            held[tuple(row)] += 1 if operation == "+" else -1
        assert +held == held, "something left that had not come"
        assert sorted(held.elements()) == answer(db, "w", as_of=event.cycle)
    subscription.close()
    assert len(events) > 6 and sorted(held.elements()) == answer(db, "w", as_of=last)


def test_a_subscription_resumes_from_a_cycle(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0))
    db.wait_for_own_writes()
    subscription = db.subscribe("w")
    first = subscription.next(60)
    assert first is not None
    subscription.close()
    push(db, (1, 1, 1))
    push(db, (1, 2, 2))
    resumed = db.subscribe("w", from_cycle=first.cycle + 1)
    assert [r for e in events_until(resumed, 2) for r in rows_of(e.table)] == [(1,), (2,)]
    resumed.close()
    with pytest.raises(PenstockError, match="no longer kept"):
        db.subscribe("w", from_cycle=-5)


def test_an_older_cycle_is_answered_as_it_was(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 1 SECONDS) END (NOW)")
    seen = {}
    for n in range(5):
        push(db, (1, n, n))
        db.wait_for_own_writes()
        result = db.invoke("w")
        seen[result.cycle] = sorted(rows_of(result.table))
    assert list(seen.values()) == [[(0,)], [(0,), (1,)], [(1,), (2,)], [(2,), (3,)], [(3,), (4,)]]
    for cycle, rows in seen.items():
        assert answer(db, "w", as_of=cycle) == rows


def test_an_update_of_static_values_never_rewrites_earlier_results(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY north AS SELECT n, site FROM meters WHERE site = 'north' BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0), (2, 0, 10))
    db.execute("UPDATE meters SET site = 'east' WHERE id = 1; UPDATE meters SET site = 'north' WHERE id = 2")
    push(db, (1, 1, 1), (2, 1, 11))
    assert answer(db, "north") == [(0, "north"), (11, "north")]
    # One that comes later reads the same history.
    db.execute("CREATE QUERY later AS SELECT n, site FROM meters WHERE site = 'north' BEGIN (NOW - 1 HOUR) END (NOW)")
    assert answer(db, "later") == [(0, "north"), (11, "north")]
    assert sorted(ask(db, "SELECT n, site FROM meters WHERE site = 'north'")) == [(0, "north"), (11, "north")]


def test_a_sensor_inserted_later_takes_part_in_running_queries(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT id, n FROM meters WHERE site = 'west' BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0))
    db.execute("INSERT INTO meters VALUES (3, 'west', NULL)")
    push(db, (3, 1, 31))
    assert answer(db, "w") == [(3, 31)]


def test_a_column_that_was_added_reads_null_from_older_data(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0))
    db.execute("ALTER TABLE meters ADD COLUMN reading.volt DOUBLE")
    db.push("meters", [{"id": 1, "ts": at(1), "n": 1, "volt": 230.0}])
    db.execute("CREATE QUERY v AS SELECT n, volt FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    assert answer(db, "w") == [(0,), (1,)]
    db.wait_for_own_writes()
    assert sorted(rows_of(db.invoke("v").table)) == [(0, None), (1, 230.0)]
    assert ask(db, "SELECT n, volt FROM meters WHERE volt IS NULL") == [(0, None)]


def test_a_paused_query_says_so_and_misses_nothing(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0))
    assert answer(db, "w") == [(0,)]
    db.execute("ALTER QUERY w PAUSE")
    push(db, (1, 1, 1))
    db.wait_for_own_writes()
    with pytest.raises(PenstockError, match="PAUSED"):
        db.invoke("w")
    db.execute("ALTER QUERY w RESUME")
    push(db, (1, 2, 2))
    assert answer(db, "w") == [(0,), (1,), (2,)]


def test_functions_filter_and_compute_and_a_failing_one_harms_nobody_else(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE FUNCTION odd(x INT) RETURNS BOOLEAN LANGUAGE python AS $$ return x % 2 == 1 $$")
    db.execute("CREATE FUNCTION tenfold(x INT) RETURNS INT LANGUAGE python AS $$ return x * 10 $$")
    db.execute("CREATE FUNCTION picky(x INT) RETURNS INT LANGUAGE python AS $$ return 100 // (x - 3) $$")
    db.execute("CREATE QUERY o AS SELECT n, tenfold(n) AS t FROM meters WHERE odd(n) BEGIN (NOW - 1 HOUR) END (NOW)")
    db.execute("CREATE QUERY p AS SELECT n FROM meters WHERE picky(n) > 0 BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 0), (1, 1, 1), (1, 5, 5))
    assert answer(db, "o") == [(1, 10), (5, 50)]
    assert answer(db, "p") == [(5,)]
    push(db, (1, 6, 3), (1, 7, 7))
    assert answer(db, "o") == [(1, 10), (3, 30), (5, 50), (7, 70)]
    with pytest.raises(PenstockError) as caught:
        answer(db, "p")
    assert caught.value.condition == "function_failed" and "picky" in caught.value.message
    assert sorted(ask(db, "SELECT tenfold(n) FROM meters WHERE odd(n)")) == [(10,), (30,), (50,), (70,)]


def test_queries_read_queries(db: Database) -> None:
    make_meters(db)
    db.execute("CREATE QUERY some AS SELECT n, site FROM meters WHERE n > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    db.execute("CREATE QUERY fewer AS SELECT n FROM some WHERE site = 'north' BEGIN (NOW - 1 HOUR) END (NOW)")
    db.execute(
        "CREATE QUERY counted AS SELECT site, COUNT(*) AS c FROM some GROUP BY site BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    push(db, *((1 + n % 2, float(n), n) for n in range(6)))
    assert answer(db, "some") == [(2, "north"), (3, "south"), (4, "north"), (5, "south")]
    eventually(lambda: sorted(rows_of(db.invoke("fewer").table)) == [(2,), (4,)])
    eventually(lambda: sorted(rows_of(db.invoke("counted").table)) == [("north", 2), ("south", 2)])
    assert sorted(ask(db, "SELECT site, MAX(n) FROM some GROUP BY site")) == [("north", 4), ("south", 5)]
    with pytest.raises(PenstockError, match="used by"):
        db.execute("DROP QUERY some")


def test_no_history_and_no_users_function_runs_in_the_server(db: Database) -> None:
    """A function that gives its process gives the workers'; what the server itself reads of the log is counted."""
    make_meters(db)
    db.execute("CREATE FUNCTION whose(x INT) RETURNS BIGINT LANGUAGE python AS $$ import os; return os.getpid() $$")
    push(db, *((1 + n % 2, float(n), n) for n in range(6)))
    db.wait_for_own_writes()
    settings, reads = db.standing.settings, db.standing.reads
    db.standing.settings = replace(settings, answer_read_max_rows=2)
    try:
        db.execute("CREATE QUERY plain AS SELECT n FROM meters WHERE n > 2 AND site = 'north' BEGIN (LAST 9 ROWS)")
        db.execute("CREATE QUERY total AS SELECT SUM(n) AS n FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
        db.execute(
            "CREATE QUERY told AS SELECT n, whose(n) AS pid FROM meters WHERE whose(n) > 0 BEGIN (NOW - 1 HOUR) END (NOW)"
        )
        before, jobs = reads.most, reads.jobs._value.get()
        reads.most = 0
        db.wait_for_own_writes()
        assert db.standing.is_ready("total", 60.0)
        assert answer(db, "plain") == [(4,)] and answer(db, "total") == [(15,)]
        pids = {pid for _, pid in answer(db, "told")} | {pid for (pid,) in ask(db, "SELECT whose(n) FROM meters")}
        assert pids and os.getpid() not in pids
        assert reads.most <= 2 and reads.jobs._value.get() > jobs
        reads.most = max(before, reads.most)
    finally:
        db.standing.settings = settings
