"""The oracle on the real pipeline: at committed offsets every standing query gives what one Spark job works out anew.

Cycles come as Spark runs them. `make test` samples offsets; `make soak` checks all of them, with more stories, rows and queries.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.database.database import Database
from tests.oracle.choosing import Seeded
from tests.oracle.commands import CreateQuery, CreateTable, Insert
from tests.oracle.generate import seeded_script
from tests.oracle.making import make_query
from tests.oracle.on_spark import Story, on_wall_clock, oracle_session, show_log
from tests.oracle.questions import Table
from tests.spark.conftest import clear

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
# Seeds that failed once and were mended stay here.
KEPT: tuple[int, ...] = ()  # 76 of the long ones: a window made of a query on sensors one on readings
# In `make test`: stories with both kinds of time, with many queries of both kinds, with many changed windows.
SEEDS = [*KEPT, *(range(50, 90) if SOAK else (63, 71, 80))]
STEPS = 120 if SOAK else 40
SAMPLED = 2


@pytest.fixture(scope="module", autouse=True)
def alone(database: Database) -> Iterator[None]:
    clear(database)
    yield
    clear(database)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_query_of_a_story_equals_the_oracle_at_committed_offsets(
    database: Database, seed: int, tmp_path: Path
) -> None:
    spark = oracle_session(database)
    story = Story(database)
    try:
        script = seeded_script(seed, STEPS, aggregates=True)
        story.tell(on_wall_clock(script, f"o{seed}_", database.clock.now_us()))
        story.settle()
        for table in story.tables:
            show_log(spark, story, table, tmp_path)
        cycles = [c for c in story.line.offsets if story.shared(c)]
        for cycle in cycles if SOAK else [*random.Random(seed).sample(cycles[:-1], SAMPLED - 1), cycles[-1]]:
            story.check_cycle(spark, cycle, tmp_path)
        for cycle in cycles:
            story.check_cycle_by_hand(cycle)
        story.check_stamped()
        story.check_heard()
        print(f"{len(cycles)} cycles, {len(story.stamped)} stamped answers, {len(story.heard)} subscribers")
    except BaseException:
        print(f"failing seed: {seed}")
        raise
    finally:
        story.close()


ROWS, QUERIES = (200_000, 50) if SOAK else (10_000, 20)
BATCHES, SENSORS = 20, 40


def test_many_rows_and_many_queries_are_checked_by_one_spark_job(database: Database, tmp_path: Path) -> None:
    """Half of the queries are there before the first reading, half come while readings do."""
    spark = oracle_session(database)
    story, choose, chance = Story(database), Seeded(7), np.random.default_rng(7)
    fields = (("ppm", "DOUBLE"), ("code", "INT"), ("total", "BIGINT"), ("label", "TEXT"), ("alarm", "BOOLEAN"))
    static = (("sensor_id", "INT"), ("place", "TEXT"), ("height", "DOUBLE"), ("active", "BOOLEAN"))
    table = Table("big_probes", static, fields, "valid", "accept")
    places = ("north", "south", "it's", None)
    rows = [(i, places[i % 4], i / 4, i % 3 == 0) for i in range(SENSORS)]
    begin = database.clock.now_us() - 60 * SECOND
    asked: list[CreateQuery] = []
    while len(asked) < QUERIES:
        moved = on_wall_clock([CreateQuery(f"big_q{len(asked)}", make_query(choose, table))], "", begin)
        asked.append(moved[0])
    story.tell([CreateTable(table), Insert(table, rows)])
    story.register(asked[: QUERIES // 2])
    for batch in range(BATCHES):
        database.push(table.name, readings(chance, begin, batch))
        if batch == BATCHES // 2:
            story.register(asked[QUERIES // 2 :])
        time.sleep(0.05)
    story.settle()
    show_log(spark, story, table.name, tmp_path)
    cycles = [c for c in story.line.offsets if story.shared(c)]
    for cycle in cycles if SOAK else cycles[-1:]:
        compared = story.check_cycle(spark, cycle, tmp_path)
    assert len(story.shared(cycles[-1])) > QUERIES * 0.8 and compared > ROWS
    story.close()


def readings(chance: np.random.Generator, begin_us: int, batch: int) -> pa.Table:
    """A second of readings for every batch, some seconds late now and then, some values missing."""
    count = ROWS // BATCHES

    def some(values: np.ndarray, type_: pa.DataType) -> pa.Array:
        return pa.array(values.tolist(), type_, mask=chance.random(count) < 0.1)

    late = np.where(chance.random(count) < 0.05, chance.integers(0, 5 * SECOND, count), 0)
    ts = begin_us + SECOND * batch + np.arange(count) * (SECOND // count) - late
    words = np.array(["north", "south", "", "a%b", "Ärger", "n_"])
    return pa.table(
        {
            "sensor_id": pa.array(chance.integers(0, SENSORS, count), pa.int32()),
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "ppm": some(
                chance.choice([0.0, 0.5, 35.0, -2.25, 1e6], count) * chance.integers(1, 9, count), pa.float64()
            ),
            "code": some(chance.integers(-9, 10, count), pa.int32()),
            "total": some(chance.integers(-(2**40), 2**40, count), pa.int64()),
            "label": some(chance.choice(words, count), pa.string()),
            "alarm": some(chance.random(count) < 0.5, pa.bool_()),
        }
    )
