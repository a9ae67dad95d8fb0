"""BEW-join: backward evaluation, the family of the nested-loop and the hash join. A new tuple is answered at once."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers import hash, nested_loop
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import has_keys
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row: by hash chains where there is a key, else by nested loops."""
    if has_keys(sides):
        return hash.run(sides, bounds, conditions, counters)
    return nested_loop.run(sides, bounds, conditions, counters)
