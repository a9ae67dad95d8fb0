"""CREATE QUERY .. KEEP: a subscriber that comes late receives what one received that came so much earlier."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.errors import PenstockError
from penstock.sql.plan import plan_from_json
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, r STREAM (value DOUBLE, seq BIGINT))"
    " WITH (time = 'valid', out_of_order = 'accept'{more})"
)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", cycles_keep=6)
    made.db.execute(TABLE.format(more=", retention = '1 HOUR'"))
    made.db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)")
    yield made
    made.db.stop()


def take(subscription: Subscription) -> list[int]:
    """What a subscriber has not received yet."""
    found: list[int] = []
    while (event := subscription.next(0)) is not None:
        found += event.table.column("seq").to_pylist()
    return found


class Readings:
    """Readings in the order of the log; late ones among them. NOW is the newest time."""

    def __init__(self, pipe: Pipe, seed: int) -> None:
        self.pipe, self.chance, self.at = pipe, random.Random(seed), 0
        self.rows: list[tuple[int, int, float | None]] = []  # ts, sensor, value; the place is its seq

    def push(self) -> None:
        chance = self.chance
        step = chance.choice([0, 300_000, 1_700_000, 4_000_000])
        self.at += step
        self.pipe.clock.advance(step)
        ts = max(0, self.at - chance.choice([0, 0, 0, 2_500_000, 9_000_000]))
        self.rows.append((ts, chance.choice([1, 2]), chance.choice([None, 1.0, 5.0, 20.0])))
        row = {"id": self.rows[-1][1], "value": self.rows[-1][2], "seq": len(self.rows) - 1, "ts": BEGAN_US + ts}
        assert self.pipe.db.push("probes", [row]).accepted == 1

    def inside(self, window_us: int) -> list[int]:
        """Which match and are inside of a window that ends at NOW."""
        now = max((ts for ts, _, _ in self.rows), default=0)
        return [
            seq
            for seq, (ts, _, value) in enumerate(self.rows)
            if value is not None and value > 2 and now - window_us <= ts <= now
        ]


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_late_subscriber_receives_what_is_kept_once_and_what_comes(pipe: Pipe, seed: int) -> None:
    pipe.set_intervals(trim_cycles=2, snapshot_cycles=4)
    pipe.db.execute(
        "CREATE QUERY kept KEEP 12 SECONDS AS SELECT seq FROM probes WHERE value > 2 BEGIN (NOW - 3 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    readings = Readings(pipe, seed)
    since: list[tuple[Subscription, list[int], list[int]]] = []
    for turn in range(30):
        for _ in range(readings.chance.randint(0, 4)):
            readings.push()
            if readings.chance.random() < 0.3:
                pipe.engine.cycle()
        pipe.engine.drain()
        if turn in (9, 20):
            pipe.restart()
            since.clear()  # their connections ended with the server
        answer = pipe.db.standing.invoke("kept").table.column("seq").to_pylist()
        assert Counter(answer) == Counter(readings.inside(3 * SECOND)), (seed, turn)
        for subscription, received, known in since:
            received += take(subscription)
            # Each row that was kept when it came, and each one that has been in an answer since; none twice.
            entered = set(known) | set(readings.inside(3 * SECOND))
            assert len(received) == len(set(received)), (seed, turn)
            assert entered <= set(received) and set(known) <= set(received), (seed, turn)
            known += [seq for seq in received if seq not in known]
            assert all(readings.rows[seq][2] is not None and readings.rows[seq][2] > 2 for seq in received)  # type: ignore[operator]
        if readings.chance.random() < 0.4:
            late = Subscription(pipe.db.standing, "kept", None, False)
            received = take(late)
            assert Counter(received) == Counter(readings.inside(15 * SECOND)), (seed, turn)
            since.append((late, received, list(received)))


def test_a_late_subscriber_receives_what_an_early_one_did(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY kept KEEP 1 MINUTE AS SELECT seq FROM probes WHERE value > 2 BEGIN (NOW - 1 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    early = Subscription(pipe.db.standing, "kept", None, False)
    take(early)
    first = []
    for seq in range(10):
        row = {"id": 1, "value": 9.0, "seq": seq, "ts": BEGAN_US + seq * 5 * SECOND}
        assert pipe.db.push("probes", [row]).accepted == 1
        pipe.engine.drain()
        first += take(early)
    late = Subscription(pipe.db.standing, "kept", None, False)
    assert take(late) == first == list(range(10))
    assert pipe.answer("kept", "seq") == [9]
    row = {"id": 1, "value": 9.0, "seq": 10, "ts": BEGAN_US + 50 * SECOND}
    assert pipe.db.push("probes", [row]).accepted == 1
    pipe.engine.drain()
    assert take(late) == take(early) == [10]


def test_another_window_repeats_nothing_that_was_kept(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY kept KEEP 1 MINUTE AS SELECT seq FROM probes WHERE value > 2 BEGIN (NOW - 1 SECONDS) END (NOW)"
    )
    rows = [{"id": 1, "value": 9.0, "seq": n, "ts": BEGAN_US + n * 5 * SECOND} for n in range(4)]
    assert pipe.db.push("probes", rows).accepted == 4
    pipe.engine.drain()
    late = Subscription(pipe.db.standing, "kept", None, False)
    assert take(late) == [0, 1, 2, 3]
    pipe.db.execute("ALTER QUERY kept SET BEGIN (NOW - 20 SECONDS)")
    pipe.engine.drain()
    assert take(late) == []
    assert pipe.answer("kept", "seq") == [0, 1, 2, 3]
    selection = plan_from_json(pipe.db.definition("kept").plan).selection
    assert selection is not None and selection.keep_us == 60 * SECOND
    with pytest.raises(PenstockError, match="its log has those of"):
        pipe.db.execute("ALTER QUERY kept SET BEGIN (NOW - 1 HOUR)")


def test_changes_begin_with_the_answer(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY kept KEEP 1 MINUTE AS SELECT seq FROM probes WHERE value > 2 BEGIN (NOW - 1 SECONDS) END (NOW)"
    )
    rows = [{"id": 1, "value": 9.0, "seq": n, "ts": BEGAN_US + n * 5 * SECOND} for n in range(4)]
    assert pipe.db.push("probes", rows).accepted == 4
    pipe.engine.drain()
    event = Subscription(pipe.db.standing, "kept", None, True).next(0)
    assert event is not None and [(r["op"], r["seq"]) for r in event.table.to_pylist()] == [("+", 3)]


def test_a_query_that_reads_it_begins_so_much_earlier(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY kept KEEP 12 SECONDS AS SELECT seq, value FROM probes WHERE value > 2 BEGIN (NOW - 1 SECONDS) END (NOW)"
    )
    rows = [{"id": 1, "value": 9.0, "seq": n, "ts": BEGAN_US + n * 5 * SECOND} for n in range(5)]
    assert pipe.db.push("probes", rows).accepted == 5
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM kept BEGIN (START) END (NOW)")
    pipe.engine.drain()
    assert pipe.answer("counted", "n") == [3]  # at 10, 15 and 20 seconds
    row = {"id": 1, "value": 9.0, "seq": 5, "ts": BEGAN_US + 25 * SECOND}
    assert pipe.db.push("probes", [row]).accepted == 1
    for _ in range(2):  # a reader is a cycle behind
        pipe.engine.cycle()
        pipe.engine.drain()
    pipe.restart()
    assert pipe.answer("counted", "n") == [4]


def test_explain_says_where_results_are_kept(pipe: Pipe) -> None:
    pipe.db.execute("CREATE QUERY kept KEEP 20 MINUTES AS SELECT seq FROM probes BEGIN (NOW - 1 MINUTE) END (NOW)")
    told = pipe.db.execute("EXPLAIN kept").table.column(0).to_pylist()
    assert "  keeps 20m for new subscribers: kept by the log" in told
    assert "  state: bounded: the readings inside the window, and those of 20m before it" in told


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("CREATE QUERY q KEEP 0 SECONDS AS SELECT seq FROM probes", "invalid_window"),
        ("CREATE QUERY q KEEP 2 AS SELECT seq FROM probes", "invalid_duration"),
        ("CREATE QUERY q KEEP AS SELECT seq FROM probes", "syntax_error"),
        ("CREATE QUERY q KEEP 2 HOURS AS SELECT seq FROM probes BEGIN (NOW - 1 SECONDS) END (NOW)", "not_supported"),
        ("CREATE QUERY q KEEP 1 HOUR AS SELECT seq FROM probes BEGIN (NOW - 1 SECONDS) END (NOW)", "not_supported"),
        ("CREATE QUERY q KEEP 1 MINUTE AS SELECT seq FROM probes BEGIN (LAST 3 ROWS)", "not_supported"),
        (
            "CREATE QUERY q KEEP 1 MINUTE AS SELECT COUNT(*) FROM probes BEGIN (NOW - 1 MINUTE) END (NOW)",
            "not_supported",
        ),
        (
            "CREATE QUERY q KEEP 1 MINUTE AS SELECT a.seq FROM probes a, probes b WHERE a.id = b.id WINDOW(a, b) = 1 SECOND",
            "not_supported",
        ),
    ],
)
def test_what_the_log_does_not_keep_is_refused_with_a_caret(pipe: Pipe, sql: str, condition: str) -> None:
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(sql)
    assert refused.value.condition == condition, refused.value.render()
    assert refused.value.line == 1
    assert "q" not in pipe.db.catalog.state.queries


def test_without_retention_the_log_keeps_everything(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE.format(more=""))
    pipe.db.execute("CREATE QUERY kept KEEP 7 DAYS AS SELECT seq FROM probes BEGIN (NOW - 1 MINUTE) END (NOW)")
    pipe.engine.drain()
    answered: list[Any] = pipe.answer("kept", "seq")
    assert answered == []
