"""Definitions and sensors by the thousand, in seconds."""

from __future__ import annotations

import time

import pyarrow as pa

from tests.catalog.bench import CatalogBench
from tests.support.new_query import new_query


def test_ten_thousand_sensors_come_in_one_insert_and_are_found(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    rows = [(i, f"place {i}", f"plant/{i}") for i in range(10_000)]
    began = time.process_time()
    assert bench.catalog.insert_rows("sensors", rows) == 10_000
    assert time.process_time() - began < 2
    assert bench.state.rows(table.id).find([pa.array([9_999, 10_000])]).tolist() == [9_999, -1]
    assert bench.state.position == 2


def test_a_thousand_queries_come_one_by_one_in_seconds(bench: CatalogBench) -> None:
    bench.make_sensors()
    plan: dict[str, object] = {"outputs": [["ppm", "DOUBLE", {"column": "ppm"}]] * 10}
    began = time.process_time()
    for number in range(1_000):
        bench.catalog.create_queries(
            [new_query(f"q{number}", "SELECT s.reading.ppm FROM sensors s", plan, ("sensors",))]
        )
    # Of our own time: how long a thousand syncs take is the disk's affair.
    assert time.process_time() - began < 15, "one by one must not mean all again for each"


def test_opening_and_closing_ten_thousand_sensors_is_cheap(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(i, "x", f"plant/{i}") for i in range(10_000)])
    sids = list(range(10_000))
    began = time.process_time()
    for _ in range(10):
        bench.catalog.observe(table.id, sids, [])
        bench.catalog.observe(table.id, [], sids)
    assert time.process_time() - began < 2
