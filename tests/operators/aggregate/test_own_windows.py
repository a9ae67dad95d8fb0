"""Every aggregate can have a window of its own: random readings against all rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import seeds
from tests.support.pipe import Pipe

ASKED = (
    "CREATE QUERY q AS SELECT place, PERCENTILE(value, 0.9, 5 SECONDS) AS p, MEDIAN(value, 3 SECONDS) AS m,"
    " PERCENTILE_CONT(0.25, 5 SECONDS) WITHIN GROUP (ORDER BY value) AS c, TWA(value, 4 SECONDS) AS t,"
    " APPROX_COUNT(*, 0.01, 5 SECONDS) AS n, APPROX_ERROR(n), APPROX_SUM(value, 3 SECONDS) AS s,"
    " CORR(value, value + 1, 5 SECONDS) AS r, COUNT(*, 4 SECONDS) FILTER (WHERE value > 5) AS f"
    " FROM probes GROUP BY place BEGIN (NOW - 12 SECONDS) END (NOW)"
)


def weighted(readings: list[tuple[int, float]], end: int) -> float | None:
    if not readings:
        return None
    times = [t for t, _ in readings] + [end]
    spans = [after - before for before, after in pairwise(times)]
    total = sum(spans)
    return sum(v * s for (_, v), s in zip(readings, spans, strict=True)) / total if total else readings[-1][1]


def expected(inside: list[tuple[int, float]], now: int) -> dict[str, Any]:
    def last(seconds: int) -> list[tuple[int, float]]:
        return [r for r in inside if r[0] >= now - seconds * 1_000_000]

    values = {s: [v for _, v in last(s)] for s in (3, 4, 5)}
    return {
        "p": float(np.percentile(values[5], 90)) if values[5] else None,
        "m": float(median(values[3])) if values[3] else None,
        "c": float(np.percentile(values[5], 25)) if values[5] else None,
        "t": weighted(last(4), now),
        "n": len(values[5]),
        "n_error": 0.0,
        "s": sum(values[3]) if values[3] else None,
        "f": sum(v > 5 for v in values[4]),
    }


@pytest.mark.parametrize("seed", seeds(3))
def test_each_looks_at_its_own_part_of_the_window(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(ASKED)
    assert isinstance(plan_from_json(pipe.db.catalog.state.queries["q"].plan), AggregatePlan)
    sent: dict[str, list[tuple[int, float]]] = {"north": [], "south": []}
    for _ in range(25):
        for _ in range(chance.randint(0, 4)):
            pipe.clock.advance(chance.choice([1000, 700_000, 2_500_000]))
            sensor, value = chance.choice([1, 2]), float(chance.randint(0, 9))
            ts = pipe.clock.now_us() - chance.choice([0, 0, 1_500_000, 6_000_000])
            pipe.db.push("probes", [{"id": sensor, "ts": format_timestamp(ts), "value": value}])
            sent["north" if sensor == 1 else "south"].append((ts, value))
        pipe.engine.drain()
        if chance.random() < 0.15:
            pipe.restart()
        now = max((ts for rows in sent.values() for ts, _ in rows), default=0)
        found = {row["place"]: row for row in pipe.db.standing.invoke("q").table.to_pylist()}
        for place, rows in sent.items():
            inside = sorted((r for r in rows if r[0] >= now - 12_000_000), key=lambda r: r[0])
            assert (place in found) == bool(inside), seed
            for name, value in expected(inside, now).items() if inside else ():
                wanted = value if value is None else pytest.approx(value, rel=1e-9)
                assert found[place][name] == wanted, (seed, place, name)


@pytest.mark.parametrize(
    ("call", "told"),
    [("COUNT(*, 5 SECONDS)", 3), ("APPROX_COUNT(*, 0.01, 5 SECONDS)", 3), ("COUNT(DISTINCT place, 5 SECONDS)", 1)],
)
def test_a_window_makes_it_a_question_about_readings(call: str, told: int, pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT {call} AS value FROM probes")
    pipe.push(8.0, sensor=2)
    pipe.clock.advance(6_000_000)
    pipe.push(1.0, 2.0, 3.0)
    pipe.engine.drain()
    assert pipe.answer("q") == [told]


@pytest.mark.parametrize(
    ("question", "condition", "words"),
    [
        ("SELECT PERCENTILE(value, 5 SECONDS) FROM probes", "syntax_error", "a value and a fraction"),
        ("SELECT PERCENTILE(value, 0.5, 0 SECONDS) FROM probes", "invalid_window", "longer than nothing"),
        ("SELECT TWA(value, 5 SECONDS) FROM probes GROUP BY TUMBLE(1 SECOND)", "not_supported", "beside TUMBLE"),
    ],
)
def test_what_means_nothing_is_refused_with_a_caret(
    question: str, condition: str, words: str, pipes: Callable[..., Pipe]
) -> None:
    pipe = pipes()
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY q AS {question}")
    assert refused.value.condition == condition and refused.value.line is not None
    assert words in f"{refused.value.message} {refused.value.hint}"


def test_another_end_leaves_the_beginning_where_the_longest_window_had_put_it(pipe: Pipe) -> None:
    """Nobody wrote BEGIN, so it is as far back as the longest of them; START would lose what was there before."""
    pipe.probes()
    pipe.push(1.0, 3.0)
    pipe.engine.drain()
    pipe.clock.advance(10_000_000)
    pipe.db.execute("CREATE QUERY q AS SELECT AVG(value, 90 SECONDS) AS long, COUNT(*, 5 SECONDS) AS short FROM probes")
    pipe.engine.drain()
    assert pipe.db.standing.invoke("q").table.to_pylist() == [{"long": 2.0, "short": 0}]
    pipe.db.execute("ALTER QUERY q SET END (NOW - 8 SECONDS)")
    pipe.engine.drain()
    assert pipe.db.standing.invoke("q").table.to_pylist() == [{"long": 2.0, "short": 2}]
    assert pipe.db.definition("q").sql.endswith("BEGIN (NOW - '1m30s') END (NOW - 8 SECONDS)")


@pytest.mark.parametrize(
    "asks",
    [
        "SELECT AVG(value, 90 SECONDS) AS mean FROM probes",
        "SELECT AVG(p.value, 90 SECONDS) AS mean FROM probes p WHERE p.place IN (SELECT place FROM mine)",
        "SELECT AVG(p.value, 90 SECONDS) AS mean, COUNT(*, 5 SECONDS) AS n FROM probes p, mine m WHERE m.place = p.place",
        "SELECT AVG(a.value, 90 SECONDS) AS mean FROM probes a, probes b WHERE a.id = b.id WINDOW(a, b) = 1 SECOND",
    ],
)
def test_another_end_leaves_the_beginning_wherever_aggregates_with_windows_run(pipe: Pipe, asks: str) -> None:
    pipe.probes()
    pipe.db.execute("CREATE TABLE mine (place TEXT PRIMARY KEY); INSERT INTO mine VALUES ('north')")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.clock.advance(10_000_000)
    pipe.db.execute(f"CREATE QUERY q AS {asks}")
    pipe.engine.drain()
    assert pipe.answer("q", "mean") == [1.0]
    pipe.db.execute("ALTER QUERY q SET END (NOW - 8 SECONDS)")
    pipe.engine.drain()
    assert pipe.answer("q", "mean") == [1.0]
    assert pipe.db.definition("q").sql.endswith("BEGIN (NOW - '1m30s') END (NOW - 8 SECONDS)")
