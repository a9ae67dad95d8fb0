"""Versions that are alive at a position: by definition, and without a look at all the others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.join.kernels import tables as module
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.tables import (
    LookupTable,
    count_alive,
    earliest_births,
    order_versions,
    pick_alive,
    with_table,
)

ALIVE = 2**62


@pytest.mark.parametrize("seed", range(40))
def test_every_version_born_by_then_is_found_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    born = rng.integers(0, 30, int(rng.integers(0, 70)))
    count = int(rng.integers(1, 30))
    begin, end = np.sort(rng.integers(0, len(born) + 1, (2, count)), axis=0)
    journal = rng.integers(-1, 31, count)
    expected = [(i, v) for i in range(count) for v in range(begin[i], end[i]) if born[v] <= journal[i]]
    tree = earliest_births(born)
    counts = count_alive(tree, begin, end, journal)
    assert counts.tolist() == [sum(i == j for j, _ in expected) for i in range(count)]
    left, right = pick_alive(tree, begin, journal, counts)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_old_readings_are_not_tried_with_every_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows, one of them for ever the same, the others changed in turn: v0 v1 .. v9 v1' v2' .."""
    monkeypatch.setattr(module, "PAIRS", 1_000)
    changes, rows = 3_000, 10
    born = np.arange(changes)
    died = np.where(born + rows - 1 < changes, born + rows - 1, ALIVE)
    died[0] = ALIVE
    ordered = order_versions(pa.table({"_born": born, "_died": died}), None, [])
    numbers = np.arange(90, dtype=np.int64)
    made = Combinations({0: numbers}, {0: numbers}, np.empty(0, np.int64), {"a.k": pa.array(numbers)})
    table = LookupTable(1, "z", ordered, {}, (), (), "inner")
    # Each of them outlived by thousands, alive with ten: together too few to be looked at in pieces.
    found = list(with_table(made, numbers + 20, ("a",), table, {}))
    assert len(found) == 1
    pairs = set(zip(found[0][0].pos[0].tolist(), found[0][0].pos[1].tolist(), strict=True))
    assert pairs == {(i, v) for i in range(90) for v in range(changes) if born[v] <= i + 20 < died[v]}
    assert len(pairs) == 900
