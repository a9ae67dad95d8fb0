"""WITHIN n PERCENT: a correlated aggregate keeps its promise and its bounds, from SQL, against all rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.operators.aggregate.test_correlated import ASKED, TABLE
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

OUTER = "COUNT(*) AS n, SUM(cost) AS s, AVG(duration) AS m, MAX(duration) AS high, COUNT(*) / 2.0 AS half"
SHARE = 0.05


def explained(pipe: Pipe, name: str) -> str:
    return "\n".join(pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist())


def told(rows: list[tuple[int, Any, Any, Any]], asked: tuple[Any, Any, Any]) -> dict[str, float | None]:
    _, passes, inner = asked
    known = [r[1] for r in rows if r[1] is not None]
    chosen = [r for r in rows if r[1] is not None and passes(r, inner(known))]
    costs, durations = [r[2] for r in chosen if r[2] is not None], [r[1] for r in chosen]
    return {
        "n": len(chosen),
        "s": math.fsum(costs) if costs else None,
        "m": math.fsum(durations) / len(durations) if durations else None,
        "high": max(durations, default=None),
    }


@pytest.mark.parametrize("seed", range(2 if SOAK else 1))
def test_every_answer_is_as_near_as_promised_and_between_its_bounds(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    pipe.db.execute(TABLE)
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL), (2, NULL)")
    window = "BEGIN (NOW - 10 MINUTES) END (NOW)" if seed % 2 else "BEGIN (START - 1 DAY) END (NOW)"
    for name, (where, _, _) in ASKED.items():
        question = f"SELECT {OUTER} FROM calls WHERE {where} {window} WITHIN {100 * SHARE:g} PERCENT WITH BOUNDS"
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
        assert isinstance(plan_from_json(pipe.db.catalog.state.queries[name].plan), AggregatePlan), name
    rows: list[tuple[int, Any, Any, Any]] = []
    for _ in range(12):
        pushed = []
        for _ in range(chance.choice([3, 150])):
            pipe.clock.advance(chance.choice([10_000, 900_000, 4_000_000]))
            ts = (pipe.clock.now_us() - chance.choice([0, 0, 0, chance.randint(0, 300_000_000)])) // 1000 * 1000
            duration = chance.choice([None, round(chance.lognormvariate(3, 0.5), 3), chance.gauss(30, 5)])
            cost, intl = chance.choice([None, chance.randint(1, 9)]), chance.choice([True, True, False, None])
            rows.append((ts, duration, cost, intl))
            reading = {"ts": format_timestamp(ts), "duration": duration, "cost": cost, "intl": intl}
            pushed.append({"id": chance.choice([1, 2]), **reading})
        pipe.db.push("calls", pushed)
        pipe.engine.drain()
        if chance.random() < 0.2:
            pipe.restart()
        now = max(r[0] for r in rows)
        inside = [r for r in rows if not seed % 2 or r[0] >= now - 600_000_000]
        for name, asked in ASKED.items():
            (found,) = pipe.db.standing.invoke(name).table.to_pylist()
            for column, truth in told(inside, asked).items():
                value = found[column]
                if truth is None:
                    assert value is None, (seed, name, column)
                    continue
                assert abs(value - truth) <= SHARE * abs(truth) + 1e-9, (seed, name, column, value, truth)
                if column == "high":
                    assert value == truth, "MIN and MAX are exact"
                lower, upper = found[f"{column}_lower"], found[f"{column}_upper"]
                assert lower - 1e-9 <= truth <= upper + 1e-9, (seed, name, column, lower, truth, upper)
            assert found["half"] == found["n"] / 2 and "half_lower" not in found
    text = explained(pipe, "above")
    assert (
        "approximate" in text
        and "within 5 % of the truth, for certain; a bucket has at most 2.5 % of what lies" in text
    ), text
    assert "bounds: the newest answer is within" in text and "memory: " in text, text


def test_a_promise_that_buckets_cannot_keep_is_kept_by_reading(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL)")
    # What is added and taken away is nearly the same: buckets say next to nothing about the difference.
    question = "SELECT SUM(cost) AS s FROM calls WHERE duration > (SELECT AVG(duration) FROM calls)"
    pipe.db.execute(f"CREATE QUERY q AS {question} BEGIN (START) END (NOW) WITHIN 40 PERCENT WITH BOUNDS")
    chance = random.Random(3)
    rows = [(chance.lognormvariate(0, 1), 5 if i % 2 else -5) for i in range(4001)]
    pipe.clock.advance(1_000_000)
    stamp = format_timestamp(pipe.clock.now_us())
    pipe.db.push("calls", [{"id": 1, "ts": stamp, "duration": d, "cost": c, "intl": True} for d, c in rows])
    pipe.engine.drain()
    mean = math.fsum(d for d, _ in rows) / len(rows)
    truth = sum(c for d, c in rows if d > mean)
    assert pipe.db.standing.invoke("q").table.to_pylist() == [{"s": truth, "s_lower": truth, "s_upper": truth}]
    assert "for 1 of 1 answer the rows were read from the log" in explained(pipe, "q")


@pytest.mark.parametrize(
    ("question", "condition", "words"),
    [
        ("SELECT COUNT(*) FROM calls WITHIN 1 PERCENT", "not_supported", "APPROX_COUNT"),
        ("SELECT duration FROM calls WHERE cost > 1 WITHIN 1 PERCENT", "not_supported", "APPROX_COUNT"),
        (
            "SELECT COUNT(*) FROM calls WHERE duration > (SELECT AVG(duration) FROM calls WITHIN 1 PERCENT)",
            "not_supported",
            "behind aggregates",
        ),
        ("SELECT COUNT(*) FROM calls WHERE cost > 1 WITHIN 0 PERCENT", "invalid_parameter", "0.1 to 50"),
        ("SELECT COUNT(*) FROM calls WHERE cost > 1 WITHIN a PERCENT", "syntax_error", "a number of percent"),
        ("SELECT COUNT(*) FROM calls WHERE cost > 1 WITHIN 1", "syntax_error", "PERCENT"),
    ],
)
def test_where_it_means_nothing_it_is_refused_with_a_caret(
    question: str, condition: str, words: str, pipes: Callable[..., Pipe]
) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY q AS {question}")
    assert refused.value.condition == condition and refused.value.line is not None, refused.value
    assert words in f"{refused.value.message} {refused.value.hint}"


def test_asked_once_it_is_exact_and_its_own_bounds(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    question = "SELECT COUNT(*) AS n FROM calls WHERE cost > (SELECT AVG(cost) FROM calls) WITHIN 1 PERCENT WITH BOUNDS"
    text = pipe.db.execute(f"EXPLAIN {question}").table.column("plan").to_pylist()
    assert text[0].startswith("Spark SQL") and any("n_lower BIGINT, n_upper BIGINT" in line for line in text), text


def test_an_infinite_reading_is_told_as_it_is(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(value) AS s FROM probes"
        " WHERE value <= 2 * (SELECT MIN(value) FROM probes)"
        " BEGIN (NOW - 1 HOUR) END (NOW) WITHIN 5 PERCENT WITH BOUNDS"
    )
    pipe.push(-math.inf, 1.0)
    pipe.engine.drain()
    (row,) = pipe.db.invoke("q").table.to_pylist()
    assert (row["n"], row["s"], row["s_lower"], row["s_upper"]) == (1, -math.inf, -math.inf, -math.inf)
