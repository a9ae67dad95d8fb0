"""A new aggregate over a long history is FILLING while Spark's workers slice it; no request waits for all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError, error, expect
from penstock.operators.aggregate import answer as answer_module
from penstock.operators.aggregate import history, history_fill
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.history_fill import HistoryFiller
from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.spark.asking import rows_of
from tests.support.local_engine import LocalEngine
from tests.support.pipe import BEGAN_US, Pipe

ROWS, MOST = 4000, 900
PATIENCE_S = 60.0
WINDOW = "BEGIN (NOW - 2000 SECONDS) END (NOW)"


class GatedEngine(LocalEngine):
    """An engine whose workers begin a job once the gate lets them, or fail."""

    gate: threading.Semaphore
    failures: list[Exception]
    most_tasks = 1000  # a job of more is too slow

    def run_tasks(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        assert self.gate.acquire(timeout=PATIENCE_S)
        if len(tasks) > self.most_tasks:
            raise error("statement_timeout", detail="the job was too slow")
        if self.failures:
            raise self.failures.pop()
        return super().run_tasks(tasks)


class World(Pipe):
    """Two sensors with a reading every half second, all of them there before any query."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.gate, self.failures = threading.Semaphore(0), list[Exception]()
        super().__init__(folder, intervals=Intervals(ready_s=0.0), answer_read_max_rows=most, cycles_keep=3)
        self.probes("WITH (time = 'valid', out_of_order = 'accept')")
        self.values = np.random.default_rng(3).integers(0, 100, ROWS).astype(float)
        for part in np.array_split(np.arange(ROWS), 10):
            ts = pa.array(BEGAN_US - (ROWS - 1 - part) * (SECOND // 2), pa.timestamp("us", "UTC"))
            ids = pa.array(1 + part % 2, pa.int32())
            self.db.push("probes", pa.table({"id": ids, "ts": ts, "value": pa.array(self.values[part])}))
            self.engine.drain()

    def _make_engine(self, *arguments: Any) -> LocalEngine:
        engine = GatedEngine(*arguments, clock=self.clock)
        engine.gate, engine.failures = self.gate, self.failures
        return engine

    def create(self, name: str = "totals", window: str = WINDOW) -> None:
        text = "SELECT place, COUNT(*) AS n, SUM(value) AS s FROM probes GROUP BY place"
        self.db.execute(f"CREATE QUERY {name} AS {text} {window}")
        self.engine.drain()

    def expected(self, rows: int = ROWS) -> list[tuple[str, int, float]]:
        found = {place: self.values[at::2][-((rows + at) // 2) :] for at, place in enumerate(("north", "south"))}
        return [(place, len(values), float(values.sum())) for place, values in found.items()]

    def totals(self, name: str = "totals") -> list[tuple[Any, ...]]:
        return sorted(rows_of(self.db.invoke(name).table))

    def open_gate(self, name: str = "totals") -> None:
        """Let all jobs run, and wait until the query is filled."""
        self.gate.release(1000)
        assert self.db.standing.is_ready(name, PATIENCE_S)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    yield from opened(tmp_path, monkeypatch)


def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int = MOST) -> Iterator[World]:
    for module in (answer_module, history):
        monkeypatch.setattr(module, "READ_ROWS", 500)
    monkeypatch.setattr(history_fill, "FILL_ROWS", 1000)
    monkeypatch.setattr(history_fill, "FILL_ROWS_ALONE", 2000)
    made = World(tmp_path / "data", most)
    yield made
    made.gate.release(1000)
    made.db.stop()


def progress(world: World) -> float:
    return float(world.db.query("totals")["progress"])


def test_a_query_is_filling_with_progress_and_an_estimate_until_its_history_is_sliced(world: World) -> None:
    world.create()
    assert world.db.query("totals")["state"] == "FILLING" and progress(world) == 0.0
    with pytest.raises(PenstockError, match=r"FILLING its window: 0% of its history read") as refused:
        world.db.invoke("totals")
    assert refused.value.condition == "not_ready"
    with pytest.raises(PenstockError, match="FILLING"):
        world.db.standing.wait_ready("totals", timeout_s=3600)  # comes at once
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    with pytest.raises(PenstockError, match=r"[1-9]\d% of its history read, about .+ left"):
        world.db.invoke("totals")
    assert any("% of its history read, about" in line for line in explained(world))
    world.open_gate()
    facts = world.db.query("totals")
    assert (facts["state"], facts["progress"], facts["fill_left_s"]) == ("RUNNING", 1.0, None)
    assert world.totals() == world.expected()
    assert (world.db.standing.reads.most or 0) <= MOST


def explained(world: World) -> list[str]:
    found: list[str] = world.db.execute("EXPLAIN ANALYZE totals").table.column("plan").to_pylist()
    return found


def test_readings_that_come_meanwhile_are_counted_once(world: World) -> None:
    world.create()
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    world.clock.advance(SECOND)
    ts = pa.array([BEGAN_US], pa.timestamp("us", "UTC"))
    world.db.push("probes", pa.table({"id": pa.array([1], pa.int32()), "ts": ts, "value": pa.array([1000.0])}))
    world.engine.drain()
    world.open_gate()
    (north, n, s), south = world.expected()
    assert world.totals() == [(north, n + 1, s + 1000.0), south]


def test_a_short_history_is_not_filled(world: World) -> None:
    world.create("short", "BEGIN (NOW - 100 SECONDS) END (NOW)")
    assert world.db.query("short")["state"] == "RUNNING"


def test_a_query_of_the_same_family_has_its_cells_from_the_first_one(world: World) -> None:
    world.create()
    world.open_gate()
    jobs = world.engine.tasks_run
    world.create("again")
    assert world.db.query("again")["state"] == "RUNNING"
    assert world.totals("again") == world.expected() and world.engine.tasks_run == jobs


def test_a_restart_in_mid_fill_fills_again(world: World) -> None:
    world.create()
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    world.gate.release(1000)
    world.restart()
    assert world.db.standing.is_ready("totals", PATIENCE_S)
    assert world.totals() == world.expected()


def test_the_cycle_after_a_fill_saves_its_cells_for_a_restart(world: World) -> None:
    world.create()
    world.open_gate()
    world.db.execute("INSERT INTO probes VALUES (3, 'east', NULL)")
    world.engine.drain()
    world.restart()
    assert world.db.query("totals")["state"] == "RUNNING" and world.engine.tasks_run == 0
    assert world.totals() == world.expected()


def test_a_dropped_query_ends_its_fill_and_the_next_one_is_filled(world: World) -> None:
    world.create()
    world.create("other", "BEGIN (NOW - 1900 SECONDS) END (NOW)")
    world.db.execute("DROP QUERY totals")
    world.engine.drain()
    world.open_gate("other")
    assert world.totals("other") == world.expected(3801)


def test_spark_that_is_restarted_delays_a_fill(world: World) -> None:
    world.failures.append(error("not_ready", detail="Spark is being restarted"))
    world.create()
    world.open_gate()
    assert world.totals() == world.expected()


def test_a_job_that_is_too_slow_is_tried_again_with_fewer_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_fill, "FILL_ROWS_LEAST", 100)
    monkeypatch.setattr(GatedEngine, "most_tasks", 1)
    world.create()
    world.create("other", "BEGIN (NOW - 1900 SECONDS) END (NOW)")
    world.open_gate()
    world.open_gate("other")
    assert world.totals() == world.expected() and world.totals("other") == world.expected(3801)


def test_after_a_failure_the_next_query_has_its_turn(world: World) -> None:
    world.create()
    world.create("other", "BEGIN (NOW - 1900 SECONDS) END (NOW)")
    fills = world.db.standing.store.slices.fills
    first, second = fills
    world.failures.append(error("not_ready", detail="Spark is being restarted"))
    world.gate.release(2)
    assert world.db.standing.feed.wait(lambda: list(fills) == [second, first], PATIENCE_S)


def test_a_history_that_cannot_be_read_is_told_by_name_and_harms_no_other_query(world: World) -> None:
    world.failures += [PenstockError("corrupt_segment", "a file is damaged") for _ in range(2)]  # also by a new listing
    world.create()
    world.gate.release(1000)
    assert world.db.standing.feed.wait(lambda: _failed(world), PATIENCE_S)
    assert world.db.query("totals")["state"] == "FAILED"
    world.create("short", "BEGIN (NOW - 100 SECONDS) END (NOW)")
    assert world.totals("short") == world.expected(201)
    world.db.execute("ALTER QUERY totals PAUSE")
    world.db.execute("ALTER QUERY totals RESUME")
    world.engine.drain()
    world.open_gate()
    assert world.totals() == world.expected()


def _failed(world: World) -> bool:
    try:
        world.db.invoke("totals")
    except PenstockError as failure:
        return failure.condition == "corrupt_segment"
    return False


def test_a_subscriber_waits_for_the_fill_and_begins_with_the_whole_answer(world: World) -> None:
    world.create()
    subscription = world.db.subscribe("totals")
    assert subscription.next(0.0) is None
    world.open_gate()
    event = subscription.next(PATIENCE_S)
    assert event is not None and sorted(rows_of(event.table)) == world.expected()


SHORT = "BEGIN (NOW - 100 SECONDS) END (NOW)"


def lengthened(world: World) -> None:
    """Two queries of the same cells, of which older ones have been forgotten; then one gets a longer window."""
    world.set_intervals(trim_cycles=1)
    world.create("short", SHORT)
    world.create("totals", SHORT)
    for number in range(3, 10):
        world.db.execute(f"INSERT INTO probes VALUES ({number}, 'east', NULL)")
        world.engine.drain()
        assert world.totals() == world.expected(201)
    world.db.execute(f"ALTER QUERY totals SET {WINDOW}")
    world.engine.drain()


def test_a_longer_window_is_filling_and_the_others_answer_meanwhile(world: World) -> None:
    lengthened(world)
    assert world.db.query("totals")["state"] == "FILLING"
    with pytest.raises(PenstockError, match="FILLING its window"):
        world.db.invoke("totals")
    assert world.totals("short") == world.expected(201)
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    ts = pa.array([BEGAN_US, BEGAN_US - 1500 * SECOND], pa.timestamp("us", "UTC"))
    late = pa.table({"id": pa.array([1, 2], pa.int32()), "ts": ts, "value": pa.array([1000.0, 2000.0])})
    world.db.push("probes", late)
    world.engine.drain()
    world.open_gate()
    (north, n, s), (south, m, t) = world.expected()
    assert world.totals() == [(north, n + 1, s + 1000.0), (south, m + 1, t + 2000.0)]
    (north, n, s), south_short = world.expected(201)
    assert world.totals("short") == [(north, n + 1, s + 1000.0), south_short]


def test_a_restart_goes_on_with_a_longer_window(world: World) -> None:
    lengthened(world)
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    world.gate.release(1000)
    world.restart()
    assert world.db.standing.is_ready("totals", PATIENCE_S)
    assert world.totals() == world.expected() and world.totals("short") == world.expected(201)


def test_a_query_that_is_dropped_leaves_no_older_cells(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "SLOT_ROWS", 1)  # cells stay as many as they are
    lengthened(world)
    shared = world.db.query("short")["memory"]
    world.gate.release()
    assert world.db.standing.feed.wait(lambda: progress(world) > 0, PATIENCE_S)
    assert world.db.query("short")["memory"] > 1.5 * shared
    world.db.execute("DROP QUERY totals")
    for number in range(10, 14):
        world.db.execute(f"INSERT INTO probes VALUES ({number}, 'east', NULL)")
        world.engine.drain()
    assert world.db.query("short")["memory"] < 2.2 * shared, "all is its own now"
    assert world.totals("short") == world.expected(201)


def push_at(world: World, second: int) -> None:
    """One reading, so long after the others."""
    world.clock.advance(BEGAN_US + second * SECOND - world.clock.now_us())
    ts = pa.array([BEGAN_US + second * SECOND], pa.timestamp("us", "UTC"))
    world.db.push("probes", pa.table({"id": pa.array([1], pa.int32()), "ts": ts, "value": pa.array([0.0])}))
    world.engine.drain()


def test_a_wide_slot_is_ready_before_begin_enters_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEGIN is in a slot of ten minutes, and two minutes before the next one, which has more rows than an answer may read."""
    monkeypatch.setattr(tiles, "MANY_CELLS", 0)
    monkeypatch.setattr(tiles, "SLOT_POSITIONS", 100)
    monkeypatch.setattr(tiles, "TILE_SLOTS", (10, 1))
    world.gate.release(1000)
    world.create("totals", "BEGIN (NOW - 1500 SECONDS) END (NOW)")
    assert world.db.standing.is_ready("totals", PATIENCE_S)
    push_at(world, 200)
    (north, n, s), (south, m, t) = world.expected(2601)
    assert world.totals() == [(north, n + 1, s), (south, m, t)]
    expect(AggregateAt, world.db.standing.held("totals", asked=False)).refine_ahead()
    jobs = world.engine.tasks_run
    assert jobs
    push_at(world, 310)
    (north, n, s), (south, m, t) = world.expected(2381)
    assert world.totals() == [(north, n + 2, s), (south, m, t)]
    assert world.engine.tasks_run == jobs, "the request read no more than an answer may"


@pytest.fixture
def wide_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Cells become slots of ten minutes, which have more rows than an answer may read."""
    monkeypatch.setattr(tiles, "MANY_CELLS", 0)
    monkeypatch.setattr(tiles, "SLOT_POSITIONS", 100)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 100)
    monkeypatch.setattr(tiles, "TILE_SLOTS", (10, 1))
    yield from opened(tmp_path, monkeypatch, most=500)


CUTTING = "BEGIN (NOW - 1500 SECONDS) END (NOW)"


def assert_no_job(world: World, expected: list[Any], name: str = "totals") -> None:
    jobs = world.engine.tasks_run
    assert world.totals(name) == expected
    assert world.engine.tasks_run == jobs, "the request waited for a job"


def test_a_query_is_filling_until_the_wide_slots_that_its_window_cuts_are_finer(wide_world: World) -> None:
    wide_world.create("totals")
    wide_world.open_gate()
    assert_no_job(wide_world, wide_world.expected())
    # Of the same cells, but both edges cut other slots.
    wide_world.create("again", "BEGIN (NOW - 1500 SECONDS) END (NOW - 650 SECONDS)")
    wide_world.open_gate("again")
    (north, n, s), (south, m, t) = wide_world.expected(3001)
    (_, no, so), (_, mo, to) = wide_world.expected(1300)
    assert_no_job(wide_world, [(north, n - no, s - so), (south, m - mo, t - to)], "again")


def test_aggregates_with_windows_of_their_own_wait_for_no_job(wide_world: World) -> None:
    text = f"SELECT place, COUNT(*) AS n, SUM(value, 1500 SECONDS) AS s FROM probes GROUP BY place {WINDOW}"
    wide_world.db.execute(f"CREATE QUERY totals AS {text}")
    wide_world.engine.drain()
    wide_world.open_gate()
    pairs = zip(wide_world.expected(), wide_world.expected(3001), strict=True)
    assert_no_job(wide_world, [(place, n, s) for (place, n, _), (_, _, s) in pairs])


def test_an_altered_window_is_filling_until_its_slots_are_finer(wide_world: World) -> None:
    wide_world.create("totals")
    wide_world.open_gate()
    while wide_world.gate.acquire(blocking=False):
        pass
    wide_world.db.execute(f"ALTER QUERY totals SET {CUTTING}")
    wide_world.engine.drain()
    assert wide_world.db.query("totals")["state"] == "FILLING"
    with pytest.raises(PenstockError, match="FILLING its window"):
        wide_world.db.invoke("totals")
    wide_world.open_gate()
    assert_no_job(wide_world, wide_world.expected(3001))


def test_after_a_restart_without_finer_cells_a_query_is_filling_again(wide_world: World) -> None:
    wide_world.create("totals", CUTTING)
    wide_world.open_gate()
    for path in wide_world.db.folder.root.glob("slices/*/*"):
        path.unlink()
    wide_world.restart()
    wide_world.open_gate()
    assert_no_job(wide_world, wide_world.expected(3001))


def test_wide_slots_are_looked_after_before_begin_enters_the_first_one(wide_world: World) -> None:
    wide_world.create("totals", "BEGIN (NOW - 2500 SECONDS) END (NOW)")
    wide_world.open_gate()
    assert wide_world.db.standing.store.slices.tiled_queries


def test_wide_slots_of_a_subquery_beside_a_join_are_looked_after(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MANY_CELLS", 0)
    monkeypatch.setattr(tiles, "SLOT_POSITIONS", 100)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 100)
    monkeypatch.setattr(tiles, "TILE_SLOTS", (10, 1))
    world.gate.release(1000)
    pairs = "FROM probes a, probes b WHERE b.place = a.place WINDOW(a, b) = 1 SECOND GROUP BY a.place"
    world.db.execute(
        f"CREATE QUERY pairs AS SELECT a.place, AVG(a.value) AS v {pairs}"
        " HAVING AVG(a.value) < (SELECT SUM(value) FROM probes) BEGIN (NOW - 1500 SECONDS) END (NOW)"
    )
    world.engine.drain()
    assert world.db.standing.is_ready("pairs", PATIENCE_S)
    push_at(world, 200)
    assert len(world.totals("pairs")) == 2
    assert world.db.standing.store.slices.tiled_queries
    (service,) = HistoryFiller(world.db.standing).services()
    service.step()  # which raised: the answer of the join is not one of cells of the log
