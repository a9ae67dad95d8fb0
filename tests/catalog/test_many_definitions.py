"""Definitions and sensors by the thousand: each costs as much as the first. Calls are counted, because a time depends on the machine."""

from __future__ import annotations

import pyarrow as pa

from tests.catalog.bench import CatalogBench
from tests.support.counted_calls import calls_of
from tests.support.new_query import new_query


def test_ten_thousand_sensors_come_in_one_insert_and_are_found(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    rows = [(i, f"place {i}", f"plant/{i}") for i in range(10_000)]
    calls = calls_of(lambda: bench.catalog.insert_rows("sensors", rows))
    assert bench.state.rows(table.id).current().num_rows == 10_000
    assert calls < 50 * len(rows)
    assert bench.state.rows(table.id).find([pa.array([9_999, 10_000])]).tolist() == [9_999, -1]
    assert bench.state.position == 2


def test_the_thousandth_query_costs_as_much_as_the_first(bench: CatalogBench) -> None:
    bench.make_sensors()
    plan: dict[str, object] = {"outputs": [["ppm", "DOUBLE", {"column": "ppm"}]] * 10}

    def create(first: int, end: int) -> None:
        for number in range(first, end):
            query = new_query(f"q{number}", "SELECT s.reading.ppm FROM sensors s", plan, ("sensors",))
            bench.catalog.create_queries([query])

    early = calls_of(lambda: create(0, 100))
    create(100, 900)
    late = calls_of(lambda: create(900, 1_000))
    assert late < 1.5 * early, "one by one must not mean all again for each"


def test_opening_and_closing_ten_thousand_sensors_is_cheap(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(i, "x", f"plant/{i}") for i in range(10_000)])
    sids = list(range(10_000))

    def open_and_close() -> None:
        for _ in range(10):
            bench.catalog.observe(table.id, sids, [])
            bench.catalog.observe(table.id, [], sids)

    calls = calls_of(open_and_close)
    assert calls < 5 * 20 * len(sids)
