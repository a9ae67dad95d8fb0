"""The estimate of cells is near to what is kept, and a window that cannot fit is refused with it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.operators.aggregate import cell_estimate
from penstock.operators.aggregate.cell_estimate import CellEstimate, count_groups, estimate_by_cells, estimate_cells
from penstock.operators.aggregate.partials import tiles
from penstock.operators.aggregate.shape import family_of
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

Rows = npt.NDArray[np.int64]
SENSORS = 40
KEYS = ("sid", "room")
"""Groups of few and of many sensors. Queries of both look at the same readings."""
DAY = 86_400


def create(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE TABLE m (sid INT PRIMARY KEY, room INT, x STREAM (v DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute(f"INSERT INTO m VALUES {', '.join(f'({i}, {i % 4}, NULL)' for i in range(SENSORS))}")


def readings(every_s: int, days: float, rates: str = "even", seed: int = 0) -> Rows:
    """Times and sensors in order. The end is at no round time."""
    chance, count = np.random.default_rng(seed), int(days * DAY / every_s)
    end_us, parts = BEGAN_US - int(chance.integers(DAY)) * SECOND, []
    for sensor in range(SENSORS):
        times = end_us - (np.arange(count) * every_s + sensor * every_s / SENSORS) * SECOND
        if rates == "different":  # some send four times as seldom as others, some sixteen times
            times = times[:: (1, 1, 4, 16)[sensor // 4 % 4]]
        elif rates == "by day":  # and nothing at night
            times = times[times // (SECOND * 3600) % 24 < 14]
        elif rates == "random":
            times = end_us - chance.integers(0, count * every_s, count) * SECOND
        elif rates == "bursts":  # five readings in a row, and then a pause
            times = times[np.arange(count) // 5 % 6 == sensor % 6]
        parts.append(np.stack([times.astype(np.int64), np.full(len(times), sensor)], 1))
    whole = np.concatenate(parts)
    return whole[np.argsort(whole[:, 0], kind="stable")]


def push(pipe: Pipe, rows: Rows) -> None:
    """The newest come in small parts, so that few of them are apart from the tiles."""
    tail = min(len(rows) // 4, 2000)
    parts = [*np.array_split(rows[:-tail], max(1, len(rows) // 40_000)), *np.array_split(rows[-tail:], 40)]
    for part in parts:
        values = pa.array(np.random.default_rng(1).normal(20.0, 5.0, len(part)))
        ts = pa.array(part[:, 0], pa.timestamp("us", "UTC"))
        pipe.db.push("m", pa.table({"sid": pa.array(part[:, 1], pa.int32()), "ts": ts, "v": values}))
        pipe.engine.drain()


def estimated(pipe: Pipe, name: str) -> CellEstimate:
    state = pipe.db.catalog.state
    plan = plan_from_json(state.queries[name].plan)
    assert isinstance(plan, AggregatePlan)
    segments = pipe.db.standing.listings.fresh(plan.table_id)
    found = estimate_cells(plan, segments, count_groups(family_of(plan), state.rows(plan.table_id)))
    assert found is not None
    return found


def explained(pipe: Pipe, name: str) -> CellEstimate:
    """The estimate that EXPLAIN shows."""
    plan = plan_from_json(pipe.db.catalog.state.queries[name].plan)
    assert isinstance(plan, AggregatePlan)
    with pipe.db.standing.locked() as store:
        found = estimate_by_cells(plan, pipe.db.standing.listings.fresh(plan.table_id), store.slices.of(plan))
    assert found is not None
    lines = pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist()
    (line,) = [line for line in lines if "a full window: about" in line]
    assert f"about {found.cells:,} cells" in line and f"{found.nbytes / 1e6:,.1f} MB" in line
    return found


def unsettled(full: CellEstimate) -> float:
    """Bytes by which memory differs from one moment to the next.

    Of each width but the widest, one to two tiles stay as they are; the estimate takes one and a half.
    """
    *narrow, _ = full.levels.values()
    return sum(narrow) / 3 * full.nbytes / max(1, full.cells)


@pytest.fixture(autouse=True)
def few_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 4 096 cells of the last commits stay apart whatever the window is. That is more than all cells of these small stores."""
    monkeypatch.setattr(tiles, "FEW_RECENT", 64)


@pytest.mark.parametrize(("keys", "every_s", "days"), [(KEYS, 60, 6.0), (KEYS, 3600, 200.0), (("sid",), 1, 0.2)])
def test_memory_is_within_a_fifth_of_the_estimate(
    pipes: Callable[..., Pipe], keys: tuple[str, ...], every_s: int, days: float
) -> None:
    pipe = pipes()
    window = f"BEGIN (NOW - {int(days * DAY)} SECONDS) END (NOW)"
    create(pipe)
    for key in keys:
        pipe.db.execute(
            f"CREATE QUERY {key} AS SELECT {key}, COUNT(*) AS n, AVG(v) AS m FROM m GROUP BY {key} {window}"
        )
    push(pipe, readings(every_s, days))
    for key in keys:
        pipe.db.invoke(key)
        kept, full = pipe.db.query(key)["memory"], estimated(pipe, key)
        assert full.nbytes == pytest.approx(kept, rel=0.2), (key, full)
        assert explained(pipe, key).nbytes == pytest.approx(kept, rel=0.02), key
        lines = pipe.db.execute(f"EXPLAIN {key}").table.column("plan").to_pylist()
        (level_line,) = [line for line in lines if "cells per partial" in line and "bytes each" in line]
        (full_line,) = [line for line in lines if "a full window: about" in line]
        assert "slices_memory_mb" in full_line
        assert " of 1" in level_line


CALLS = ("COUNT(*)", "COUNT(*), SUM(v)", "AVG(v)", "MIN(v), MAX(v)", "STDDEV_SAMP(v)", "COUNT(*), AVG(v), MAX(v)")


@pytest.mark.parametrize("seed", seeds(4, 24))
def test_memory_is_within_a_fifth_of_the_estimate_for_any_rate(pipes: Callable[..., Pipe], seed: int) -> None:
    """Random rates, lengths, aggregates and groups. Readings come evenly: before there are cells, no more is known of them."""
    chance = random.Random(seed)
    every_s = chance.choice([2, 7, 30, 60, 300, 900, 3600])
    days = chance.uniform(0.5, 1.0) * 200_000 / SENSORS * every_s / DAY
    keys, calls = chance.choice(["sid", "room"]), chance.choice(CALLS)
    pipe = pipes()
    create(pipe)
    window = f"BEGIN (NOW - {int(days * DAY)} SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY q AS SELECT {keys}, {calls} FROM m GROUP BY {keys} {window}")
    push(pipe, readings(every_s, days, seed=seed))
    pipe.db.invoke("q")
    kept, full = pipe.db.query("q")["memory"], estimated(pipe, "q")
    assert full.nbytes == pytest.approx(kept, rel=0.2, abs=unsettled(full)), (every_s, days, keys, calls, full)


@pytest.mark.parametrize("rates", ["different", "by day", "random", "bursts"])
def test_of_uneven_rates_half_of_a_window_tells_what_all_of_it_takes(pipes: Callable[..., Pipe], rates: str) -> None:
    """EXPLAIN goes by the cells that are kept. So it is as good as half of the window is like the other half."""
    pipe = pipes()
    create(pipe)
    for key in KEYS:
        pipe.db.execute(
            f"CREATE QUERY {key} AS SELECT {key}, COUNT(*), AVG(v) FROM m GROUP BY {key} BEGIN (NOW - 12 DAYS) END (NOW)"
        )
    rows = readings(300, 12.0, rates)
    half = int(np.searchsorted(rows[:, 0], rows[-1, 0] - 6 * DAY * SECOND))
    push(pipe, rows[:half])
    full = {}
    for key in KEYS:
        pipe.db.invoke(key)
        full[key] = explained(pipe, key)
    push(pipe, rows[half:])
    for key in KEYS:
        pipe.db.invoke(key)
        kept = pipe.db.query(key)["memory"]
        assert full[key].nbytes == pytest.approx(kept, rel=0.2), (key, full[key])


def test_values_that_are_no_numbers_are_estimated_by_the_cells_that_are_kept(pipes: Callable[..., Pipe]) -> None:
    """A formula knows nothing of their size: before a tenth of the window is there, EXPLAIN shows none."""
    pipe = pipes()
    create(pipe)
    queries = {
        "values_counted": "COUNT(DISTINCT v)",
        "medians": "MEDIAN(v)",
        "modes": "MODE() WITHIN GROUP (ORDER BY v)",
        "twa": "TWA(v)",
        "min_text": "MIN(CAST(v AS TEXT))",
        "max_decimal": "MAX(CAST(v AS DECIMAL(20, 2)))",
        "last_text": "LAST(CAST(v AS TEXT))",
    }
    for number, (name, call) in enumerate(queries.items()):
        # All rows pass each condition. Without it, some of these queries would share their cells.
        text = f"SELECT room, {call} FROM m WHERE v < {1000 + number} GROUP BY room BEGIN (NOW - 12 DAYS) END (NOW)"
        pipe.db.execute(f"CREATE QUERY {name} AS {text}")
    rows = readings(1200, 12.0)
    few, half = (int(np.searchsorted(rows[:, 0], rows[0, 0] + days * DAY * SECOND)) for days in (1, 6))
    push(pipe, rows[:few])
    for name in queries:
        pipe.db.invoke(name)
        lines = pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist()
        assert not [line for line in lines if "a full" in line], name
    push(pipe, rows[few:half])
    full = {}
    for name in queries:
        pipe.db.invoke(name)
        full[name] = explained(pipe, name)
    push(pipe, rows[half:])
    for name in queries:
        pipe.db.invoke(name)
        assert full[name].nbytes == pytest.approx(pipe.db.query(name)["memory"], rel=0.2), (name, full[name])


def test_memory_of_very_many_cells_is_within_a_fifth_of_the_estimate(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tiles, cell_estimate):
        monkeypatch.setattr(module, "MANY_CELLS", 1000)
        monkeypatch.setattr(module, "WIDE_ROWS", 1 << 16)
    pipe = pipes()
    create(pipe)
    window = "BEGIN (NOW - 20 HOURS) END (NOW)"
    for key in KEYS:
        pipe.db.execute(f"CREATE QUERY {key} AS SELECT {key}, COUNT(*), AVG(v) FROM m GROUP BY {key} {window}")
    push(pipe, readings(10, 20 / 24))
    for key in KEYS:
        pipe.db.invoke(key)
        kept, full = pipe.db.query(key)["memory"], estimated(pipe, key)
        assert max(full.levels) >= 3_600 * SECOND, "not so wide with fewer cells"
        assert full.nbytes == pytest.approx(kept, rel=0.2, abs=unsettled(full)), (key, full)


def test_a_window_that_cannot_fit_is_refused_with_the_numbers(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_estimate, "FEW_ROWS", 1000)
    pipe = pipes(slices_memory_mb=1)
    create(pipe)
    push(pipe, readings(1, 0.02))
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
    push(pipe, readings(60, 0.1))
    for number, window in enumerate(("BEGIN (START) END (NOW)", "BEGIN (LAST 100 ROWS)")):
        pipe.db.execute(f"CREATE QUERY q{number} AS SELECT COUNT(*) AS n FROM m {window}")
        plan = plan_from_json(pipe.db.catalog.state.queries[f"q{number}"].plan)
        assert isinstance(plan, AggregatePlan)
        assert estimate_cells(plan, pipe.db.standing.listings.fresh(plan.table_id), 1) is None
