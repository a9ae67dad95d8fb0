"""How long readings waited until they were in the answer of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.answers.delays import CYCLES_KEPT, Delays
from penstock.clock import SECOND
from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from penstock.cycle.late import Late
from penstock.cycle.offset import Offset
from tests.support.pipe import Pipe

MS = 1_000
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


def commit(delays: Delays, cycle: int, arrived_us: dict[int, int], behind: int = 0) -> None:
    """Cycle n is in the answers at n seconds."""
    late = Late(behind, behind) if behind else None
    offset = Offset("f", {}, 1, cycle * SECOND)
    record = CommitRecord(cycle, offset, replace(offset, late=late), RESULT_SCHEMA.empty_table(), {})
    delays.note_cycle(record, arrived_us, cycle * SECOND)


def test_delays_are_by_table_and_forget_all_but_the_last_cycles() -> None:
    delays = Delays()
    commit(delays, 10, {1: 2 * SECOND})
    assert delays.p95_ms([1], False) == 8000.0
    assert delays.p95_ms([2], False) is None and delays.p95_ms([], False) is None
    for cycle in range(11, 11 + CYCLES_KEPT):
        commit(delays, cycle, {1: cycle * SECOND - 100 * MS, 2: cycle * SECOND - cycle * MS})
    assert delays.p95_ms([1], False) == 100.0
    assert delays.p95_ms([2], False) == 29.0  # the largest but one of twenty
    assert delays.p95_ms([1, 2, 3], False) == 100.0


def test_a_query_that_stands_behind_waits_until_it_comes_to_the_cycle() -> None:
    delays = Delays()
    commit(delays, 1, {1: 0})
    commit(delays, 2, {1: 1 * SECOND}, behind=1)
    commit(delays, 3, {1: 2 * SECOND}, behind=2)
    assert delays.p95_ms([1], False) == delays.p95_ms([1], True) == 1000.0
    commit(delays, 6, {1: 5 * SECOND})
    assert delays.p95_ms([1], False) == 1000.0
    assert delays.p95_ms([1], True) == 4000.0  # 5 and 4 seconds for the cycles 2 and 3


def test_a_query_says_how_long_readings_waited_for_their_cycle(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS SELECT value FROM probes WHERE value > 5 {WINDOW}")
    pipe.engine.drain()
    assert pipe.db.query("hot")["delay_p95_ms"] is None
    pipe.push(1.0)  # the oldest of its cycle, though the query does not select it
    pipe.clock.advance(2 * SECOND)
    pipe.push(7.0)
    pipe.clock.advance(1 * SECOND)
    pipe.engine.drain()
    assert pipe.db.query("hot")["delay_p95_ms"] == 3001.0
    pipe.restart()
    assert pipe.db.query("hot")["delay_p95_ms"] is None
