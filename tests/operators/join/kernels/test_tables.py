"""Versions of ordinary tables beside combinations: the definition, tried on every pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.operators.join.kernels import tables as module
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.tables import LookupTable, order_versions, with_table
from penstock.types import BOOLEAN, INT

ALIVE = 2**62
K, LEVEL = Column("k", INT), Column("level", INT)
POSITIVE = Call("gt", (LEVEL, Literal(0, INT)), BOOLEAN)


def _versions(rng: np.random.Generator, count: int) -> pa.Table:
    born = np.sort(rng.integers(1, 30, count))
    died = np.where(rng.random(count) < 0.4, ALIVE, born + rng.integers(1, 12, count))
    k = pa.array(rng.integers(0, 4, count), pa.int32(), mask=rng.random(count) < 0.2)
    level = pa.array(rng.integers(-1, 3, count), pa.int32())
    return pa.table({"k": k, "level": level, "_born": born, "_died": died})


def _combinations(rng: np.random.Generator, count: int) -> Combinations:
    k = pa.array(rng.integers(0, 5, count), pa.int32(), mask=rng.random(count) < 0.2)
    numbers = np.arange(count, dtype=np.int64)
    return Combinations({0: numbers, 1: numbers}, {0: numbers, 1: numbers}, np.empty(0, np.int64), {"a.k": k})


def _found(made: Combinations, journal: np.ndarray, table: LookupTable) -> list[tuple[int, ...]]:
    pairs = []
    for found, at in with_table(made, journal, ("a", "b"), table, {}):
        assert (journal[found.pos[0]] == at).all()
        places = [found.pos[0], found.pos[2]] if table.use in ("inner", "left") else [found.pos[0]]
        pairs += list(zip(*(p.tolist() for p in places), strict=True))
    return sorted(pairs)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("keyed", [True, False])
def test_each_combination_meets_the_versions_of_its_moment(
    seed: int, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(module, "PAIRS", int(rng.choice([1, 7, 1 << 20])))
    versions, made = _versions(rng, int(rng.integers(0, 40))), _combinations(rng, int(rng.integers(1, 40)))
    journal = rng.integers(0, 35, len(made))
    predicate: Expr | None = POSITIVE if rng.random() < 0.5 else None
    ordered = order_versions(versions, predicate, [K] if keyed else [])
    condition = Call("ne", (Column("z.level", INT), Column("a.k", INT)), BOOLEAN)
    columns = {"level": versions.column("level").combine_chunks()}
    table = LookupTable(2, "z", ordered, columns, (Column("a.k", INT),) if keyed else (), (condition,), "inner")
    expected = [
        (i, vid)
        for i, (k, at) in enumerate(zip(made.columns["a.k"].to_pylist(), journal.tolist(), strict=True))
        for vid, row in enumerate(versions.to_pylist())
        if row["_born"] <= at < row["_died"]
        and (predicate is None or row["level"] > 0)
        and (not keyed or (k is not None and row["k"] == k))
        and (k is not None and row["level"] != k)
    ]
    assert _found(made, journal, table) == expected
    some = {i for i, _ in expected}
    none = [i for i in range(len(made)) if i not in some]
    assert _found(made, journal, replace(table, use="exists")) == [(i,) for i in sorted(some)]
    assert _found(made, journal, replace(table, use="missing")) == [(i,) for i in none]
    assert _found(made, journal, replace(table, use="left")) == sorted([*expected, *((i, -1) for i in none)])


@pytest.mark.parametrize("seed", range(20))
def test_a_table_that_grew_is_ordered_as_if_it_were_new(seed: int) -> None:
    rng = np.random.default_rng(seed)
    versions = _versions(rng, 60)
    earlier = int(rng.integers(0, 60))
    young = versions.slice(0, earlier)
    # What was alive then may have died since.
    place = young.schema.get_field_index("_died")
    alive = np.where(rng.random(earlier) < 0.5, ALIVE, young.column("_died").to_numpy())
    before = order_versions(young.set_column(place, "_died", pa.array(alive)), POSITIVE, [K])
    grown, anew = order_versions(versions, POSITIVE, [K], before), order_versions(versions, POSITIVE, [K])
    assert grown.count == anew.count == 60
    for name in ("numbers", "keys", "deaths", "codes"):
        assert (getattr(grown, name) == getattr(anew, name)).all(), name
    by_code = [sorted(zip(v.codes.tolist(), v.vids.tolist(), v.born.tolist(), strict=True)) for v in (grown, anew)]
    assert by_code[0] == by_code[1]
