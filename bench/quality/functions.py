"""User functions behind other conditions: calls saved, the time of a cycle, and what the learned order costs beside the best one.

Cycles run in this process, without Spark: what is compared is the work of the cycle, not the start of its tasks.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.quality import Figures
from penstock.catalog.model import Field, Function
from penstock.clock import SECOND
from penstock.expr.expression import Call, Column, UserCall
from penstock.expr.lazy_factors import FactorFigures, LazyFactor, Ordering
from penstock.expr.predicate_index import PredicateIndex
from penstock.expr.user_functions import compile_function
from penstock.types import BOOLEAN, DOUBLE
from tests.support.manual_clock import ManualClock

BEGAN_US = 1_763_190_000_000_000
SENSORS = 100
ROWS, CYCLES = 100_000, 12
# Turns of a loop in Python that take about so long; what a call really took is a figure of its own.
CALLS = {"2us": 60, "5us": 190, "10us": 420}
SLOW = "sum(range({})) > 0 and x < 1.0"
FILTER = "y > 95"  # of 0 to 100
WINDOW = "BEGIN (NOW - 1 SECOND) END (NOW)"
BATCH, BATCHES = 65_536, 40
# Written in this order, the worst: turns of a loop, and the share of rows that each keeps.
THREE = {"first": (120, 0.9), "second": (60, 0.5), "third": (10, 0.1)}


def run(settings: Any) -> Figures:
    return {**_filtered(settings.say), **_three(settings.say)}


def _filtered(say: Any) -> Figures:
    """The cycle with a function on every row, and with the same function behind a filter that leaves 5 %."""
    found: Figures = {"function_calls_saved": None, "function_cycle_without_ms": _cycles(f"{FILTER} {WINDOW}", 1)[0]}
    offered = CYCLES * ROWS
    for name, turns in CALLS.items():
        every_ms, every = _cycles(f"slow(x) {WINDOW}", turns)
        few_ms, few = _cycles(f"slow(x) AND {FILTER} {WINDOW}", turns)
        assert (every.calls, every.saved, few.calls + few.saved) == (offered, 0, offered)
        say(
            f"{every.ns / 1000:.1f} us a call: a cycle takes {every_ms:.0f} ms with all calls, {few_ms:.0f} ms behind the filter"
        )
        found["function_calls_saved"] = few.saved / offered
        found[f"function_cycle_ratio_{name}"] = every_ms / few_ms
        found[f"function_cycle_every_row_ms_{name}"] = every_ms
        found[f"function_cycle_filtered_ms_{name}"] = few_ms
        found[f"function_call_us_{name}"] = every.ns / 1000
    return found


def _cycles(condition: str, turns: int) -> tuple[float, FactorFigures]:
    """The median time of a cycle, and what became of the function."""
    chance, clock, spent = np.random.default_rng(18), ManualClock(BEGAN_US), []
    with local_database(clock) as (database, engine):
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE, y DOUBLE)) WITH (time = 'valid')")
        database.execute(f"INSERT INTO t VALUES {', '.join(f'({n}, NULL)' for n in range(SENSORS))}")
        database.execute(
            f"CREATE FUNCTION slow(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ {SLOW.format(turns)} $$"
        )
        database.execute(f"CREATE QUERY q AS SELECT id, x FROM t WHERE {condition}")
        engine.drain()
        for _ in range(CYCLES):
            times = clock.now_us() + np.sort(chance.integers(0, SECOND, ROWS))
            rows = {
                "id": pa.array(chance.integers(0, SENSORS, ROWS).astype(np.int32)),
                "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "x": pa.array(chance.uniform(0, 20, ROWS)),
                "y": pa.array(chance.uniform(0, 100, ROWS)),
            }
            accepted = database.push("t", pa.table(rows)).accepted
            assert accepted == ROWS, f"{accepted} of {ROWS} readings were accepted"
            clock.advance(SECOND)
            began = time.perf_counter()
            engine.cycle()
            spent.append((time.perf_counter() - began) * 1000)
        table_id = database.catalog.state.tables["t"].id
        figures = database.costs.of_condition(table_id, UserCall("slow", (Column("x", DOUBLE),), BOOLEAN))
    return statistics.median(spent), figures or FactorFigures()


class Counted:
    """A function that counts the rows that it is called for."""

    def __init__(self, name: str, turns: int, share: float) -> None:
        field, body = Field("x", DOUBLE), f"sum(range({turns})) >= 0 and x < {share}"
        self._call = compile_function(Function(name, (field,), BOOLEAN, body))
        self.rows = 0

    def __call__(self, *arrays: pa.Array, rows: int) -> pa.Array:
        self.rows += rows
        return self._call(*arrays, rows=rows)


def _three(say: Any) -> Figures:
    """Three functions in the worst order, from the first batch on, against the best order from the first batch on."""
    chance = np.random.default_rng(18)
    columns = {name: Column(name, DOUBLE) for name in THREE}
    functions = {name: Counted(name, *cost) for name, cost in THREE.items()}
    condition = Call("and", tuple(UserCall(name, (columns[name],), BOOLEAN) for name in THREE), BOOLEAN)
    orders: dict[str, Ordering | None] = {
        "worst": _fixed(list(THREE)),
        "best": _fixed(["third", "second", "first"]),
        "learned": None,
    }
    indexes = {name: PredicateIndex([(1, None, condition)], functions, order) for name, order in orders.items()}
    spent, called = dict.fromkeys(orders, 0.0), dict.fromkeys(orders, 0)
    vids, versions = np.zeros(BATCH, np.int32), pa.table({"s": [1]})
    for batch in range(BATCHES):
        rows = {name: pa.array(chance.random(BATCH)) for name in THREE}
        # In turns, so that a busy machine slows all of them.
        for name in [*orders][batch % 3 :] + [*orders][: batch % 3]:
            before, began = sum(f.rows for f in functions.values()), time.process_time()
            list(indexes[name].match(rows, vids, versions))
            spent[name] += time.process_time() - began
            called[name] += sum(f.rows for f in functions.values()) - before
    say(", ".join(f"{name}: {seconds:.2f} s, {called[name]:,} calls" for name, seconds in spent.items()))
    return {
        "function_order_ratio": spent["learned"] / spent["best"],
        "function_order_worst_ratio": spent["worst"] / spent["best"],
        "function_order_calls_ratio": called["learned"] / called["best"],
    }


def _fixed(names: list[str]) -> Ordering:
    def order(factors: list[LazyFactor]) -> list[LazyFactor]:
        return sorted(factors, key=lambda factor: names.index(factor.calls[0].function))

    return order
