"""The estimate of cells is near to what is kept, and a window that cannot fit is refused with it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.operators.aggregate import cell_estimate
from penstock.operators.aggregate.cell_estimate import CellEstimate, count_groups, estimate_cells
from penstock.operators.aggregate.shape import family_of
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

SENSORS = 40
DAY = 86_400


def create(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE TABLE m (sid INT PRIMARY KEY, room INT, x STREAM (v DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute(f"INSERT INTO m VALUES {', '.join(f'({i}, {i % 4}, NULL)' for i in range(SENSORS))}")


def push(pipe: Pipe, every_s: int, days: float, apart: bool = False) -> None:
    """Readings of all sensors at a steady rate, at once or each at a moment of its own (`apart`).

    The newest come one by one, so that few of them are apart from the tiles.
    """
    count = int(days * DAY / every_s)
    times = BEGAN_US - np.arange(count)[::-1] * every_s * SECOND
    for part in [*np.array_split(times[:-40], max(1, count * SENSORS // 40_000)), *np.array_split(times[-40:], 40)]:
        sensors = 1 if len(part) == 1 else SENSORS
        ids = np.tile(np.arange(sensors), len(part))
        ts = np.repeat(part, sensors) - (SENSORS - 1 - ids) * apart * every_s * SECOND // SENSORS
        values = np.random.default_rng(1).normal(20.0, 5.0, len(ts))
        rows = {"sid": pa.array(ids, pa.int32()), "ts": pa.array(ts, pa.timestamp("us", "UTC")), "v": pa.array(values)}
        pipe.db.push("m", pa.table(rows))
        pipe.engine.drain()


def estimated(pipe: Pipe, name: str) -> CellEstimate:
    state = pipe.db.catalog.state
    plan = plan_from_json(state.queries[name].plan)
    assert isinstance(plan, AggregatePlan)
    segments = pipe.db.standing.listings.fresh(plan.table_id)
    found = estimate_cells(plan, segments, count_groups(family_of(plan), state.rows(plan.table_id)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("keys", "every_s", "days"),
    [("sid", 60, 6.0), ("sid", 3600, 200.0), ("room", 60, 6.0), ("sid", 1, 0.2), ("room", 3600, 200.0)],
)
def test_memory_is_within_a_fifth_of_the_estimate(
    pipes: Callable[..., Pipe], keys: str, every_s: int, days: float
) -> None:
    pipe = pipes()
    window = f"BEGIN (NOW - {int(days * DAY)} SECONDS) END (NOW)"
    create(pipe)
    pipe.db.execute(f"CREATE QUERY q AS SELECT {keys}, COUNT(*) AS n, AVG(v) AS m FROM m GROUP BY {keys} {window}")
    push(pipe, every_s, days)
    pipe.db.invoke("q")
    kept, full = pipe.db.query("q")["memory"], estimated(pipe, "q")
    assert full.nbytes == pytest.approx(kept, rel=0.2), full
    lines = pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    (level_line,) = [line for line in lines if "cells per partial" in line and "bytes each" in line]
    (full_line,) = [line for line in lines if "a full window: about" in line]
    assert f"{full.cells:,} cells" in full_line and "slices_memory_mb" in full_line
    assert " of 1" in level_line


CALLS = ("COUNT(*)", "COUNT(*), SUM(v)", "AVG(v)", "MIN(v), MAX(v)", "STDDEV_SAMP(v)", "COUNT(*), AVG(v), MAX(v)")


@pytest.mark.parametrize("seed", seeds(4, 24))
def test_memory_is_within_a_fifth_of_the_estimate_for_any_rate(pipes: Callable[..., Pipe], seed: int) -> None:
    """Random rates, lengths, aggregates and groups. Readings come evenly: the estimate knows no more of them."""
    chance = random.Random(seed)
    every_s = chance.choice([2, 7, 30, 60, 300, 900, 3600])
    days = chance.uniform(0.5, 1.0) * 200_000 / SENSORS * every_s / DAY
    keys, calls = chance.choice(["sid", "room"]), chance.choice(CALLS)
    pipe = pipes()
    create(pipe)
    window = f"BEGIN (NOW - {int(days * DAY)} SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY q AS SELECT {keys}, {calls} FROM m GROUP BY {keys} {window}")
    push(pipe, every_s, days, apart=True)
    pipe.db.invoke("q")
    kept, full = pipe.db.query("q")["memory"], estimated(pipe, "q")
    # Of a small store it depends on the moment how much has become wide.
    assert full.nbytes == pytest.approx(kept, rel=0.2, abs=40_000), (every_s, days, keys, calls, full)


def test_a_window_that_cannot_fit_is_refused_with_the_numbers(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_estimate, "FEW_ROWS", 1000)
    pipe = pipes(slices_memory_mb=1)
    create(pipe)
    push(pipe, 1, 0.02)
    asked = "CREATE QUERY {} AS SELECT sid, COUNT(*) AS n, AVG(v) AS m FROM m GROUP BY sid BEGIN (NOW - {}) END (NOW)"
    with pytest.raises(
        PenstockError, match=r"a full window has about [\d,]+ cells per aggregate, \d+ MB at \d+ rows/s"
    ) as no:
        pipe.db.execute(asked.format("long", "1 DAY"))
    assert no.value.condition == "over_budget" and "rollup" in str(no.value.hint)
    pipe.db.execute(asked.format("brief", "5 MINUTES"))


def test_a_window_without_a_fixed_length_has_no_estimate(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    create(pipe)
    push(pipe, 60, 0.1)
    for number, window in enumerate(("BEGIN (START) END (NOW)", "BEGIN (LAST 100 ROWS)")):
        pipe.db.execute(f"CREATE QUERY q{number} AS SELECT COUNT(*) AS n FROM m {window}")
        plan = plan_from_json(pipe.db.catalog.state.queries[f"q{number}"].plan)
        assert isinstance(plan, AggregatePlan)
        assert estimate_cells(plan, pipe.db.standing.listings.fresh(plan.table_id), 1) is None
