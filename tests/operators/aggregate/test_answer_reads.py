"""No answer reads more than answer_read_max_rows in the server: Spark's workers read the rest, and the answer is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.operators.resample import samples
from penstock.views.results import Result
from tests.operators.resample import streams as resampling
from tests.operators.resample.streams import ASKED, WINDOW, World
from tests.spark.asking import ask, rows_of
from tests.support.pipe import BEGAN_US, Pipe

MOST = 1000
ROWS, SECONDS = 300_000, 1000
NOW_US = BEGAN_US
PLACES = {1: "north", 2: "south"}


class History:
    """Two sensors whose readings were there before any query, and the same readings as arrays."""

    def __init__(self, folder: Path) -> None:
        self.pipe = Pipe(folder, answer_read_max_rows=MOST)
        self.pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
        chance = np.random.default_rng(7)
        self.times = NOW_US - np.sort(chance.integers(0, SECONDS * SECOND, ROWS))[::-1]
        self.times[-1] = NOW_US
        self.ids, self.values = chance.integers(1, 3, ROWS), chance.integers(0, 1000, ROWS).astype(float)
        for part in np.array_split(np.arange(ROWS), 10):
            self.push(self.times[part], self.ids[part], self.values[part])

    def push(self, times: np.ndarray, ids: np.ndarray, values: np.ndarray) -> None:
        ts = pa.array(times, pa.timestamp("us", "UTC"))
        self.pipe.db.push("probes", pa.table({"id": pa.array(ids, pa.int32()), "ts": ts, "value": pa.array(values)}))
        self.pipe.engine.drain()

    def since(self, seconds: int, sensor: int, now_us: int = NOW_US) -> np.ndarray:
        """The values of a sensor in the last seconds."""
        inside = (self.times >= now_us - seconds * SECOND) & (self.times <= now_us) & (self.ids == sensor)
        found: np.ndarray = self.values[inside]
        return found

    def ask(self, sql: str) -> Result:
        return self.pipe.db.execute(sql)

    def read(self, purpose: str = "search") -> float:
        registry = self.pipe.db.standing.reads.registry
        return registry.get_sample_value("penstock_answer_rows_read_total", {"purpose": purpose}) or 0.0

    @property
    def jobs(self) -> float:
        return self.pipe.db.standing.reads.registry.get_sample_value("penstock_answer_jobs_total") or 0.0

    @property
    def most(self) -> float | None:
        return self.pipe.db.standing.reads.registry.get_sample_value("penstock_answer_rows_read_max")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    made = History(tmp_path_factory.mktemp("history"))
    yield made
    assert made.most is not None and made.most <= MOST
    made.pipe.db.stop()


def totals(history: History, seconds: int, now_us: int = NOW_US) -> list[tuple[Any, ...]]:
    found = {place: history.since(seconds, sensor, now_us) for sensor, place in PLACES.items()}
    return [(place, len(v), v.sum(), v.min(), v.max()) for place, v in found.items()]


def test_a_new_standing_aggregate_has_its_history_sliced_by_workers(history: History) -> None:
    before, jobs = history.read(), history.jobs
    history.ask(
        "CREATE QUERY totals AS SELECT place, COUNT(*) AS n, SUM(value) AS s, MIN(value) AS low, MAX(value) AS high"
        " FROM probes GROUP BY place BEGIN (NOW - 900 SECONDS) END (NOW)"
    )
    history.pipe.engine.drain()
    assert history.pipe.db.standing.is_ready("totals", 60.0)
    first = history.pipe.db.invoke("totals")
    assert sorted(rows_of(first.table)) == totals(history, 900)
    filled = history.jobs
    assert filled > jobs and history.read() - before <= MOST
    # What the jobs found is kept: the next answer reads the edges of its window only.
    again = history.pipe.db.invoke("totals")
    assert sorted(rows_of(again.table)) == totals(history, 900)
    assert history.jobs == filled and not again.notices


@pytest.mark.parametrize(
    ("question", "seconds"),
    [
        ("SELECT place, COUNT(*), SUM(value), MIN(value), MAX(value, 900 SECONDS) FROM probes", 900),
        ("SELECT place, COUNT(*), SUM(value), MIN(value), MAX(value, 2000 SECONDS) FROM probes", 1100),
    ],
)
def test_a_one_shot_aggregate_is_found_by_workers(history: History, question: str, seconds: int) -> None:
    """With windows of its aggregates' own, for which Spark SQL has no words."""
    before, jobs = history.read(), history.jobs
    found = history.ask(f"{question} GROUP BY place BEGIN (NOW - {seconds} SECONDS) END (NOW)")
    assert sorted(rows_of(found.table)) == totals(history, seconds)
    assert found.notices and history.jobs > jobs and history.read() - before <= MOST


def test_an_average_over_time_is_found_by_workers(history: History) -> None:
    found = history.ask("SELECT place, TWA(value) FROM probes GROUP BY place BEGIN (NOW - 900 SECONDS) END (NOW)")
    expected = []
    for sensor, place in PLACES.items():
        mine = (history.ids == sensor) & (history.times >= NOW_US - 900 * SECOND)
        times, values = history.times[mine], history.values[mine]
        stood = np.append(times[1:], NOW_US) - times
        expected.append((place, pytest.approx((values * stood).sum() / stood.sum(), rel=1e-12)))
    assert sorted(rows_of(found.table)) == expected
    assert found.notices


def test_the_newest_rows_are_aggregated_by_workers(history: History) -> None:
    history.ask("CREATE QUERY last AS SELECT COUNT(*) AS n, SUM(value) AS s FROM probes BEGIN (LAST 40000 ROWS)")
    history.pipe.engine.drain()
    assert rows_of(history.pipe.db.invoke("last").table) == [(40_000, history.values[-40_000:].sum())]


def test_resample_has_its_first_sample_made_by_workers(history: History) -> None:
    history.ask("CREATE TABLE ticks (id INT PRIMARY KEY, tick STREAM (n INT)) WITH (time = 'valid')")
    history.ask("INSERT INTO ticks VALUES (1, NULL), (2, NULL)")
    at = NOW_US - np.arange(900, -1, -1) * SECOND
    ids = 1 + np.arange(len(at)) % 2
    ts = pa.array(at, pa.timestamp("us", "UTC"))
    rows = {"id": pa.array(ids, pa.int32()), "ts": ts, "n": pa.array(np.arange(len(at)), pa.int32())}
    history.pipe.db.push("ticks", pa.table(rows))
    question = "SELECT t.n, RESAMPLE(p.value, 1 SECOND, PREVIOUS) AS v FROM ticks t, probes p WHERE p.id = t.id"
    history.ask(f"CREATE QUERY sampled AS {question} BEGIN (NOW - 900 SECONDS) END (NOW)")
    history.pipe.engine.drain()
    expected = []
    for n, (us, sensor) in enumerate(zip(at, ids, strict=True)):
        mine = np.flatnonzero((history.ids == sensor) & (history.times <= us) & (history.times >= us - SECOND))
        expected.append((n, history.values[mine[-1]] if len(mine) else None))
    before, jobs = history.read(), history.jobs
    standing = history.pipe.db.invoke("sampled")
    assert sorted(rows_of(standing.table)) == expected and standing.notices
    assert history.jobs == jobs + 1 and history.read() == before
    once = history.ask(f"{question} BEGIN (NOW - 900 SECONDS) END (NOW)")
    assert sorted(rows_of(once.table)) == expected and once.notices


@pytest.mark.parametrize("task_rows", [1 << 20, 30])
def test_resample_says_the_same_with_the_smallest_budget(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch, task_rows: int
) -> None:
    """Base samples and all that moves them forward is read by workers, also in several parts of the window."""
    monkeypatch.setattr(samples, "TASK_ROWS", task_rows)
    world = World(pipes, task_rows, answer_read_max_rows=1)
    world.push(0, 20, 15)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    for low, high in ((0, 30), (20, 60), (40, 70)):
        world.push(low, high, 20)
        assert world.answer() == world.expected()
        assert resampling.in_order(ask(world.pipe.db, f"{ASKED} {WINDOW}")) == world.expected()
        assert world.answer(as_of=resampling.at(world.now())) == world.expected()
    assert world.pipe.db.standing.reads.most <= 1


def test_a_selection_that_is_evaluated_when_asked_is_evaluated_by_workers(history: History) -> None:
    history.ask(
        "CREATE QUERY high AS SELECT id, value FROM probes WHERE value > 990 BEGIN (NOW - 900 SECONDS) END (NOW)"
    )
    history.ask("ALTER QUERY high SET STRATEGY none")
    history.pipe.engine.drain()
    inside = (history.times >= NOW_US - 900 * SECOND) & (history.values > 990)
    expected = sorted(zip(history.ids[inside].tolist(), history.values[inside].tolist(), strict=True))
    before, jobs = history.read(), history.jobs
    assert sorted(rows_of(history.pipe.db.invoke("high").table)) == expected
    assert history.jobs > jobs and history.read() - before <= MOST


def test_an_answer_of_a_past_time_is_found_by_workers(history: History) -> None:
    history.ask("CREATE QUERY past AS SELECT id, value FROM probes WHERE value < 9 BEGIN (NOW - 200 SECONDS) END (NOW)")
    history.pipe.engine.drain()
    at_us = NOW_US - 300 * SECOND
    inside = (history.times >= at_us - 200 * SECOND) & (history.times <= at_us) & (history.values < 9)
    expected = sorted(zip(history.ids[inside].tolist(), history.values[inside].tolist(), strict=True))
    found = history.pipe.db.invoke("past", format_timestamp(at_us))
    assert sorted(rows_of(found.table)) == expected and found.notices


def test_a_condition_that_lasts_is_followed_by_workers(history: History) -> None:
    history.ask(
        "CREATE QUERY lasting AS SELECT id, value FROM probes WHERE value < 800 FOR 20 MILLISECONDS"
        " BEGIN (NOW - 300 SECONDS) END (NOW)"
    )
    history.pipe.engine.drain()
    expected = []
    for sensor in PLACES:
        mine = history.ids == sensor
        since: int | None = None
        for ts, value in zip(history.times[mine].tolist(), history.values[mine].tolist(), strict=True):
            since = None if value >= 800 else ts if since is None else since
            if since is not None and ts - since >= 20_000 and ts >= NOW_US - 300 * SECOND:
                expected.append((sensor, value))
    assert sorted(rows_of(history.pipe.db.invoke("lasting").table)) == sorted(expected)
