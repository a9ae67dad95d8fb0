"""Since when each sensor is observed, and how far retention has come."""

from __future__ import annotations

from penstock.types import INT, TEXT, Field
from tests.catalog.bench import CatalogBench


def test_pushed_sensors_are_observed_from_their_insert_until_their_delete(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    bench.clock.advance(5)
    bench.catalog.delete_rows("sensors", [0])
    assert bench.state.observations(1) == {0: [(1_000, 1_005)], 1: [(1_000, None)]}


def test_other_sensors_are_observed_while_they_are_open(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    assert bench.state.observations(table.id) == {}
    bench.catalog.observe(table.id, [0, 1], [])
    bench.clock.advance(5)
    bench.catalog.observe(table.id, [], [0])
    bench.catalog.observe(table.id, [0], [])
    bench.catalog.observe(table.id, [], [])
    bench.catalog.observe(99, [1], [])
    assert bench.state.observations(table.id) == {0: [(1_000, 1_005), (1_005, None)], 1: [(1_000, None)]}
    assert bench.state.position == 5


def test_a_sensor_that_ended_is_known_as_such_until_it_is_reached_in_another_way(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(i, "gate", f"address {i}") for i in range(5)])
    bench.catalog.observe(table.id, [0, 1, 2, 3, 4], [])
    bench.catalog.observe(table.id, [], [0, 1, 2, 3], [0, 1, 2, 3])
    assert bench.state.ended(table.id) == {0, 1, 2, 3}
    bench.catalog.update_rows("sensors", {0: (0, "pier", "address 0"), 1: (1, "gate", "elsewhere")})
    bench.catalog.delete_rows("sensors", [2])
    bench.reopen()
    assert bench.state.ended(table.id) == {0, 3}
    bench.catalog.observe(table.id, [3], [])
    assert bench.state.ended(table.id) == {0}
    bench.catalog.add_column("sensors", Field("unit", TEXT), to_stream=False)
    assert bench.state.ended(table.id) == {0}
    bench.catalog.add_column("sensors", Field("quality", INT), to_stream=True)
    assert bench.state.ended(table.id) == set()


def test_retention_only_moves_forward_and_only_for_tables_that_are_there(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    for position in (10, 5, 10):
        bench.catalog.retain(table.id, position)
    bench.catalog.retain(99, 10)
    assert (bench.state.retention(table.id), bench.state.retention(99), bench.state.position) == (10, 0, 2)
