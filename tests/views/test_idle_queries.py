"""Selections that no client uses sleep, wake when they are used, and answer the same in between."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from penstock.answers.subscription import Subscription
from penstock.clock import SECOND
from penstock.operators.select.storage_choice import LOOK_CYCLES
from penstock.operators.select.strategy_costs import RowCost
from penstock.views import idle_queries
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

HOT = "SELECT id, value FROM probes WHERE value > {} BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture
def sleepy(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "data", sleep_after_s=60)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS {HOT.format(5)}; CREATE QUERY cold AS {HOT.format(2)}")
    pipe.push(3.0, 7.0)
    pipe.engine.drain()
    yield pipe
    pipe.db.stop()


def rest(pipe: Pipe, seconds: float = 61) -> None:
    """Time passes in which no client asks; then the server looks."""
    pipe.db.idle_queries.look()
    pipe.clock.advance(round(seconds * SECOND))
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.idle_queries.look()
    pipe.engine.drain()


def sleeping(pipe: Pipe) -> set[str]:
    return {name for name, query in pipe.db.catalog.state.queries.items() if query.sleeping}


def test_a_query_that_no_client_uses_sleeps_and_answers_the_same(sleepy: Pipe) -> None:
    rest(sleepy)
    assert sleeping(sleepy) == {"hot", "cold"}
    assert sleepy.engine.commits.last is not None and sleepy.engine.commits.last.end.run_plan == 1
    matched = sleepy.db.standing.store.matched(sleepy.db.catalog.state.queries["hot"].id)
    sleepy.push(9.0, 4.0)
    sleepy.engine.drain()
    assert sleepy.db.standing.store.matched(sleepy.db.catalog.state.queries["hot"].id) == matched  # no cycle met it
    assert sleepy.answer("hot") == [7.0, 9.0] and sleepy.answer("cold") == [3.0, 7.0, 9.0, 4.0]


def test_the_first_use_wakes_a_query(sleepy: Pipe) -> None:
    rest(sleepy)
    assert sleepy.answer("hot") == [7.0]
    sleepy.db.idle_queries.look()
    assert sleeping(sleepy) == {"cold"}
    sleepy.push(8.0)
    sleepy.engine.drain()
    assert sleepy.answer("hot") == [7.0, 8.0] and sleepy.db.standing.strategy_of(1) == "partial"


def test_a_restart_and_a_new_window_find_it_asleep(sleepy: Pipe) -> None:
    rest(sleepy)
    sleepy.push(9.0)
    sleepy.engine.drain()
    sleepy.restart()
    assert sleeping(sleepy) == {"hot", "cold"}
    assert sleepy.answer("hot") == [7.0, 9.0]
    sleepy.db.execute("ALTER QUERY cold SET BEGIN (NOW - 2 HOURS)")
    sleepy.engine.drain()
    assert sleepy.answer("cold") == [3.0, 7.0, 9.0]
    sleepy.db.catalog.write_snapshot()
    sleepy.restart()
    assert sleeping(sleepy) == {"hot", "cold"} and sleepy.db.catalog.state.run_plan == 1


def test_explain_and_the_system_table_say_that_it_sleeps_and_why(sleepy: Pipe) -> None:
    rest(sleepy)
    text = "\n".join(sleepy.db.execute("EXPLAIN hot").table.column(0).to_pylist())
    assert "answer kept: none, because it sleeps: no client has used it for a while" in text
    facts = sleepy.db.query("hot")
    assert facts["strategy"] == "none" and facts["sleeping"].startswith("it sleeps") and facts["state"] == "RUNNING"


@pytest.mark.parametrize(
    "use",
    [
        lambda pipe: pipe.db.subscribe("hot"),
        lambda pipe: pipe.db.execute("CREATE QUERY reader AS SELECT COUNT(*) AS n FROM hot BEGIN (NOW - 1m) END (NOW)"),
        lambda pipe: pipe.db.execute("ALTER QUERY hot SET STRATEGY partial"),
        lambda pipe: pipe.db.execute("CREATE SINK s FOR hot TO files (folder = 'alarms')"),
    ],
    ids=["subscriber", "reader", "strategy", "sink"],
)
def test_a_query_in_use_does_not_sleep(sleepy: Pipe, use: Callable[[Pipe], object]) -> None:
    kept = use(sleepy)
    rest(sleepy)
    rest(sleepy)
    assert "hot" not in sleeping(sleepy) and "cold" in sleeping(sleepy)
    if isinstance(kept, Subscription):
        kept.close()
        rest(sleepy)
        assert sleeping(sleepy) == {"hot", "cold"}


def test_other_queries_never_sleep(sleepy: Pipe) -> None:
    for name, sql in {
        "latched": "SELECT COUNT(*) AS n FROM probes GROUP BY LATCH",
        "counted": "SELECT AVG(value) AS a FROM probes BEGIN (NOW - 1m) END (NOW)",
        "last": "SELECT value FROM probes BEGIN (LAST 3 ROWS)",
        "ever": "SELECT value FROM probes WHERE value > 100 BEGIN (START) END (NOW)",
        "held": "SELECT value FROM probes WHERE value > 1 FOR 5 SECONDS BEGIN (NOW - 1m) END (NOW)",
    }.items():
        sleepy.db.execute(f"CREATE QUERY {name} AS {sql}")
    sleepy.engine.drain()
    rest(sleepy)
    assert sleeping(sleepy) == {"hot", "cold"}


def test_a_query_of_class_high_stays_awake_and_is_woken(sleepy: Pipe) -> None:
    sleepy.db.execute("ALTER QUERY hot SET PRIORITY high")
    rest(sleepy)
    assert sleeping(sleepy) == {"cold"}
    sleepy.db.execute("ALTER QUERY hot SET PRIORITY low; ALTER QUERY cold SET PRIORITY high")
    rest(sleepy)
    assert sleeping(sleepy) == {"hot"}


def test_a_query_over_a_stream_without_readings_stays_awake(sleepy: Pipe) -> None:
    sleepy.db.execute("CREATE TABLE silent (k INT PRIMARY KEY, r STREAM (v INT)) WITH (time = 'valid')")
    sleepy.db.execute("CREATE QUERY none AS SELECT v FROM silent BEGIN (NOW - 1m) END (NOW)")
    sleepy.engine.drain()
    rest(sleepy)
    assert sleeping(sleepy) == {"hot", "cold"}


def test_a_window_with_too_many_rows_keeps_a_query_awake_and_wakes_it(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "data", sleep_after_s=60, answer_read_max_rows=10)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS {HOT.format(5)}")
    pipe.engine.drain()
    rest(pipe)
    assert sleeping(pipe) == {"hot"}
    pipe.push(*range(20))
    pipe.engine.drain()
    pipe.db.idle_queries.look()
    assert sleeping(pipe) == set()
    rest(pipe)
    assert sleeping(pipe) == set()
    pipe.db.stop()


def test_rounds_look_at_all_queries_in_turn(sleepy: Pipe) -> None:
    sleepy.db.idle_queries.look(1)
    sleepy.clock.advance(61 * SECOND)
    sleepy.push(1.0)
    sleepy.engine.drain()
    for _ in range(3):
        sleepy.db.idle_queries.look(1)
    assert sleeping(sleepy) == {"hot", "cold"}


def test_readers_have_their_turn_while_the_server_looks(sleepy: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the log are listed beside the lock."""
    standing, pool, read = sleepy.db.standing, ThreadPoolExecutor(1), list[bool]()
    listdir = os.listdir

    def listed(folder: Path) -> list[str]:
        read.append(not wait([pool.submit(standing.strategy_of, 1)], 5.0).not_done)
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", listed)
    monkeypatch.setattr(idle_queries, "LOOKS_A_HOLD", 1)
    sleepy.db.idle_queries.look()
    assert read and all(read)


def test_subscribers_may_come_while_the_server_looks_which_queries_are_used(sleepy: Pipe) -> None:
    before, standing = sys.getswitchinterval(), sleepy.db.standing
    kept: list[Subscription] = []
    coming = threading.Thread(
        target=lambda: kept.extend(Subscription(standing, "hot", None, False) for _ in range(3_000 if SOAK else 1_000))
    )
    sys.setswitchinterval(1e-6)
    try:
        coming.start()
        while coming.is_alive():
            assert standing.followed() <= {"hot"}
    finally:
        sys.setswitchinterval(before)
        coming.join()
    assert standing.followed() == {"hot"}


def priced(pipe: Pipe, evaluate_ns: float, match_ms: float) -> idle_queries.IdleQueries:
    """Looks with these costs of a row in place of those that were measured."""
    cost = RowCost(evaluate_ns, match_ms * 1e6, 1.0)
    return idle_queries.IdleQueries(pipe.db.standing, pipe.db.catalog, 60, lambda _: cost)


def cycles(pipe: Pipe, count: int = LOOK_CYCLES) -> None:
    for _ in range(count):
        pipe.push(1.0)
        pipe.engine.cycle()


def test_a_query_that_is_asked_seldom_is_left_out_where_that_is_cheaper_and_taken_in_again(sleepy: Pipe) -> None:
    cheap, dear = priced(sleepy, 1.0, 5.0), priced(sleepy, 1e6, 0.5)
    sleepy.answer("hot")
    cheap.look()
    sleepy.engine.cycle()
    assert sleeping(sleepy) == set()  # not yet for sixteen cycles
    cycles(sleepy)
    dear.look()
    assert sleeping(sleepy) == set()
    cheap.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == {"hot"}  # cold was never asked, and not idle for long enough
    assert "by its costs: cutting it out " in sleepy.db.query("hot")["sleeping"]
    assert ", evaluating its window " in sleepy.db.standing.strategy_reason(1)
    sleepy.push(8.0)
    sleepy.engine.cycle()
    assert sleepy.answer("hot") == [7.0, 8.0]
    cheap.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == {"hot"}  # a request alone does not wake it
    sleepy.db.standing.storage_choice.note_ms(1, 1000.0, "evaluate_ms")  # requests take longer than was expected
    cheap.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == set()
    assert sleepy.answer("hot") == [7.0, 8.0]


def test_a_subscriber_takes_a_query_in_again_that_was_left_out_by_cost(sleepy: Pipe) -> None:
    cheap = priced(sleepy, 1.0, 5.0)
    sleepy.answer("hot")
    cycles(sleepy)
    cheap.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == {"hot"}
    kept = sleepy.db.subscribe("hot")
    cheap.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == set()
    kept.close()


def test_explain_analyze_says_what_each_strategy_costs_and_why_none_is_not_possible(sleepy: Pipe) -> None:
    def explained(name: str) -> str:
        return "\n".join(sleepy.db.execute(f"EXPLAIN ANALYZE {name}").table.column(0).to_pylist())

    sleepy.answer("hot")
    cycles(sleepy)
    text = explained("hot")
    assert "a cycle at 0.062 requests: complete " in text and ", none " in text and "until both were measured" in text
    sleepy.db.execute("ALTER QUERY hot SET PRIORITY high")
    sleepy.engine.drain()
    assert "not none, because it is of class high" in explained("hot")
    kept = sleepy.db.subscribe("cold")
    assert "not none, because it has a subscriber, a sink or a reader" in explained("cold")
    kept.close()
    sleepy.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS a FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    sleepy.engine.drain()
    assert "with none, every request would read its rows again" in explained("mean")


def test_a_window_that_takes_200_ms_or_more_to_evaluate_keeps_a_query_awake(sleepy: Pipe) -> None:
    slow, fast = priced(sleepy, 1e8, 5.0), priced(sleepy, 1.0, 5.0)
    for looks in (slow, fast):
        looks.look()
    sleepy.clock.advance(61 * SECOND)
    cycles(sleepy, 1)
    slow.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == set()
    fast.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == {"hot", "cold"}
    slow.look()
    cycles(sleepy, 1)
    assert sleeping(sleepy) == set()
