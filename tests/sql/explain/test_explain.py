"""EXPLAIN where there is nothing left to explain."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.explain.plan import explain
from tests.sql.world import plant


def test_a_plan_whose_table_is_gone_is_explained_all_the_same() -> None:
    """A journal of an older version may have a query that was registered while its table was dropped."""
    world = plant()
    plan = world.plan("SELECT ppm FROM sensors WHERE ppm > 3", standing=True)
    emptied = replace(world, tables={}, tables_by_id={})
    first, *rest = explain(plan, emptied).splitlines()
    assert first == "shared pass over the stream of a table that was dropped"
    assert rest == explain(plan, world).splitlines()[1:]
