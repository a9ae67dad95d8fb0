"""Aggregates over a window join live with the join: restarts, pauses, new windows, streams that lag, budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.operators.join.projection import ResultProjection
from tests.support.join_life import Life, upto_now
from tests.support.watched import watched

PAIRS = "FROM left_side a, right_side b WINDOW(a,b) = 2 SECONDS WHERE a.k = b.k AND b.n < 900"
COUNTED = f"SELECT a.k, COUNT(*) AS n, MAX(b.n) AS most {PAIRS} GROUP BY a.k"
Pair = tuple[int, int, int, int]


class NoSpark:
    def run(self, *_: Any) -> Any:
        raise AssertionError("nothing of this is Spark's")


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    made.runner = NoSpark()  # type: ignore[assignment]
    yield made
    made.db.stop()


def counts(life: Life, name: str = "counted", as_of: int | None = None) -> dict[int, tuple[int, int]]:
    table = life.db.invoke(name, as_of).table
    return {row["k"]: (row["n"], row["most"]) for row in table.to_pylist()}


def expected(life: Life, low: int | None = None, pairs: list[Pair] | None = None) -> dict[int, tuple[int, int]]:
    inside = [p for p in (upto_now(life) if pairs is None else pairs) if low is None or min(p[0], p[2]) >= low]
    key = {n: k for _, k, n in life.rows["left_side"]}
    counted = Counter(key[an] for _, an, _, _ in inside)
    return {k: (counted[k], max(p[3] for p in inside if key[p[1]] == k)) for k in counted}


def test_they_live_through_restarts_pauses_and_new_windows(life: Life) -> None:
    life.push()
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    assert counts(life) == expected(life)
    life.restart()
    assert counts(life) == expected(life)
    life.push()
    assert counts(life) == expected(life) and sum(n for n, _ in counts(life).values()) > 50
    life.execute("ALTER QUERY counted PAUSE")
    life.push()
    with pytest.raises(PenstockError, match="PAUSED"):
        life.db.invoke("counted")
    life.execute("ALTER QUERY counted RESUME")
    life.push()
    assert counts(life) == expected(life)
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 4 SECONDS) END (NOW)")
    life.push()
    assert counts(life) == expected(life, life.now() - 4 * SECOND)


def test_an_older_cycle_is_answered_as_it_was_and_a_subscriber_hears_of_each(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN (NOW - 3 SECONDS) END (NOW)")
    subscription = life.db.subscribe("counted", changes=True)
    known: dict[int, tuple[int, int]] = {}
    told: dict[int, dict[int, tuple[int, int]]] = {}
    for _ in range(3):
        life.push()
        told[life.db.standing.store.cycle] = expected(life, life.now() - 3 * SECOND)
    for cycle, answer in told.items():
        assert counts(life, as_of=cycle) == answer
    while (event := subscription.next(0.0)) is not None:
        rows = event.table.to_pylist()
        for row in rows:
            if row["op"] == "-":
                assert known.pop(row["k"]) == (row["n"], row["most"])
        known |= {row["k"]: (row["n"], row["most"]) for row in rows if row["op"] == "+"}
        if event.cycle in told:
            assert known == told[event.cycle]
    assert known == counts(life)
    subscription.close()


@pytest.fixture
def read() -> Iterator[list[int]]:
    """How many pairs each look at a join has read from the log."""
    found: list[int] = []
    with watched(ResultProjection.results, tell=lambda given: found.append(len(given["picked"].numbers))):
        yield found


def test_each_pair_is_read_from_the_log_once_and_the_cut_second_again(life: Life, read: list[int]) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    for _ in range(4):
        life.push()
        assert counts(life) == expected(life)
    assert sum(read) == len(upto_now(life)) > 100
    read.clear()
    assert counts(life) == expected(life) and not read
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 4500 MS) END (NOW)")
    assert counts(life) == expected(life, life.now() - 4_500_000)
    read.clear()
    assert counts(life) == expected(life, life.now() - 4_500_000)
    low = life.now() - 4_500_000
    cut = [p for p in upto_now(life) if low <= min(p[0], p[2]) < (low // SECOND + 1) * SECOND]
    assert sum(read) == len(cut) > 0


def test_results_that_END_has_not_reached_wait(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    now = life.now()
    ahead = [(now + i * SECOND // 10, i % 5, 500 + i) for i in range(1, 15)]
    life.rows["left_side"] += ahead
    life.db.push("left_side", [{"id": 1, "ts": ts, "k": k, "n": n} for ts, k, n in ahead])
    life.engine.drain()
    assert life.now() == now and len(life.pairs()) > len(upto_now(life))
    assert counts(life) == expected(life)
    waiting = len(life.pairs()) - len(upto_now(life))
    text = "\n".join(life.db.execute("EXPLAIN counted").table["plan"].to_pylist())
    assert f"{waiting} results wait for NOW" in text, text
    life.push()
    assert counts(life) == expected(life)


def test_they_are_described_with_both_parts(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    text = "\n".join(life.db.execute("EXPLAIN counted").table["plan"].to_pylist())
    assert "slices: none yet" in text
    life.push()
    counts(life)
    facts = life.db.query("counted")
    assert facts["runs"] == "window join, then slices" and facts["reason"] is None and facts["state"] == "RUNNING"
    assert facts["window"] == "BEGIN (START) END (NOW)" and facts["memory"] > 0
    text = "\n".join(life.db.execute("EXPLAIN counted").table["plan"].to_pylist())
    assert "slices of the results of a window join" in text and "last step" in text and "slices: 1s wide" in text
    assert life.db.execute("DESCRIBE counted").table["column"].to_pylist() == ["k", "n", "most"]
    life.execute("DROP QUERY counted")
    assert life.db.standing.store.slices.nbytes == 0


def test_the_best_keys_are_the_first_of_the_whole_answer_and_a_subscriber_hears_of_them(life: Life) -> None:
    life.execute(f"CREATE QUERY best AS {COUNTED} BEGIN (NOW - 3 SECONDS) END (NOW) ORDER BY n DESC, k DESC LIMIT 2")
    life.execute(f"CREATE QUERY pairs AS SELECT a.k, b.n AS b {PAIRS} BEGIN ('2020-01-01') END (NOW)")
    life.execute("CREATE QUERY low AS SELECT k, MAX(b) AS most FROM pairs GROUP BY k ORDER BY most OFFSET 1")
    subscription = life.db.subscribe("best", changes=True)
    known: list[tuple[int, int, int]] = []
    for _ in range(4):
        life.push()
        whole = expected(life, life.now() - 3 * SECOND)
        best = sorted(((k, n, most) for k, (n, most) in whole.items()), key=lambda row: (-row[1], -row[0]))[:2]
        told = life.db.invoke("best").table
        assert list(zip(*(c.to_pylist() for c in told.columns), strict=True)) == best and len(best) == 2
        while (event := subscription.next(0.0)) is not None:
            for row in event.table.to_pylist():
                (known.append if row.pop("op") == "+" else known.remove)((row["k"], row["n"], row["most"]))
        assert sorted(known) == sorted(best)
    subscription.close()
    life.clock.advance(2 * SECOND)
    life.engine.cycle()  # a reader sees the rows of the cycle before
    lowest = sorted((most, k) for k, (_, most) in expected(life).items())[1:]
    assert [(r["most"], r["k"]) for r in life.db.invoke("low").table.to_pylist()] == lowest


def test_another_end_leaves_the_beginning_where_the_longest_window_had_put_it(life: Life) -> None:
    life.push()
    for name, longest in (("own", "4 SECONDS"), ("one", "3 SECONDS")):
        life.execute(
            f"CREATE QUERY {name} AS SELECT COUNT(*, 3 SECONDS) AS few, MAX(b.n, {longest}) AS most {PAIRS} ORDER BY 1"
        )
        life.execute(f"ALTER QUERY {name} SET END (NOW - 1 SECOND)")
        assert f"BEGIN (NOW - '{longest[0]}s') END (NOW - 1 SECOND)" in life.db.definition(name).sql
        end = life.now() - SECOND
        inside = [p for p in life.pairs() if max(p[0], p[2]) <= end]
        recent = {
            s: [p for p in inside if min(p[0], p[2]) >= max(end - s * SECOND, life.now() - int(longest[0]) * SECOND)]
            for s in (3, 4)
        }
        most = max(p[3] for p in recent[int(longest[0])])
        assert life.db.invoke(name).table.to_pylist() == [{"few": len(recent[3]), "most": most}]


def test_nothing_has_been_observed(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.execute(f"CREATE QUERY whole AS SELECT COUNT(*) AS n, SUM(a.n) AS s {PAIRS} BEGIN (NOW - 1 HOUR) END (NOW)")
    assert counts(life) == {}
    assert life.db.invoke("whole").table.to_pylist() == [{"n": 0, "s": None}]


def test_too_many_values_or_slices_are_refused_and_mended_by_a_shorter_window(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", exact_values_max=60)
    try:
        life.execute(f"CREATE QUERY counted AS SELECT COUNT(DISTINCT b.n) AS n {PAIRS} BEGIN ('2020-01-01') END (NOW)")
        with pytest.raises(PenstockError, match="one by one") as refused:
            for _ in range(6):
                life.push()
                life.db.invoke("counted")
        assert refused.value.condition == "over_budget"
        life.execute("ALTER QUERY counted SET BEGIN (NOW - 2 SECONDS) END (NOW)")
        life.push()
        low = life.now() - 2 * SECOND
        seen = {p[3] for p in upto_now(life) if min(p[0], p[2]) >= low}
        assert life.db.invoke("counted").table["n"].to_pylist() == [len(seen)]
    finally:
        life.db.stop()


def test_a_reader_hears_of_each_cycle_rests_when_it_is_paused_and_has_a_budget(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", exact_values_max=60)
    life.runner = NoSpark()  # type: ignore[assignment]
    try:
        life.execute(f"CREATE QUERY pairs AS SELECT a.k, b.n AS b {PAIRS} BEGIN ('2020-01-01') END (NOW)")
        life.execute("CREATE QUERY few AS SELECT k, COUNT(*) AS n, MAX(b) AS most FROM pairs GROUP BY k")
        life.execute("CREATE QUERY many AS SELECT COUNT(DISTINCT b) AS n FROM pairs BEGIN ('2020-01-01') END (NOW)")
        subscription = life.db.subscribe("few", changes=True)
        assert subscription.next(60.0) is not None
        life.push()
        life.clock.advance(2 * SECOND)
        life.engine.cycle()
        assert counts(life, "few") == expected(life)
        heard: dict[int, tuple[int, int]] = {}
        while (event := subscription.next(0.0)) is not None:
            heard |= {r["k"]: (r["n"], r["most"]) for r in event.table.to_pylist() if r["op"] == "+"}
        assert heard == expected(life)
        facts = life.db.query("few")
        assert facts["runs"] == "slices" and facts["reason"] is None and facts["memory"] > 0
        life.execute("ALTER QUERY few PAUSE")
        with pytest.raises(PenstockError, match="PAUSED"):
            life.db.invoke("few")
        assert subscription.next(0.0) is None
        life.execute("ALTER QUERY few RESUME")
        assert counts(life, "few") == expected(life)
        with pytest.raises(PenstockError, match="one by one"):
            for _ in range(6):
                life.push()
                life.db.invoke("many")
        assert life.db.query("many")["state"] == "FAILED" and life.db.query("few")["state"] == "RUNNING"
        life.execute("DROP QUERY pairs CASCADE")
        assert life.db.standing.store.slices.nbytes == 0 and not life.db.standing.store.reader_failures
    finally:
        life.db.stop()
