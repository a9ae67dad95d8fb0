"""Splitting a join's conditions into predicates, keys and the rest loses nothing and adds nothing.

Behind `OR FALSE` a condition stays whole, so both spellings have to accept the same combinations, NULLs included.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Call, Column
from penstock.sql.plan import JoinPlan
from penstock.types import BOOLEAN, Type, parse_type
from tests.sql.world import World, plant
from tests.support.examples import examples

WORLD: World = plant()
STREAMS = {"a": "odd", "b": "sensors", "c": "loops"}
COLUMNS = {
    "a": {"id": "BIGINT", "r.name": "TEXT", "big": "BIGINT"},
    "b": {"sensor_id": "INT", "location": "TEXT", "ppm": "DOUBLE", "gas_id": "INT"},
    "c": {"loop_id": "INT", "segment": "INT", "length": "INT", "speed": "DOUBLE"},
}
CONDITIONS = (
    "a.id = b.sensor_id",
    "b.sensor_id = c.loop_id",
    "a.big = c.segment",
    "c.segment = b.gas_id",
    "c.loop_id = a.id",
    "a.big = a.id",
    "c.length = a.big",
    "b.ppm = c.speed",
    "a.id = c.speed",
    "b.sensor_id + 1 = c.length",
    "b.location = a.r.name",
    "b.location = 'x'",
    "c.length > 0",
    "b.ppm < c.speed",
    "a.id + b.gas_id > c.length",
    "(a.id IS NULL OR b.gas_id = 1)",
    "NOT c.segment = 1",
    "TRUE",
)
VALUES = {
    "INT": st.sampled_from([None, 0, 1, 2]),
    "BIGINT": st.sampled_from([None, 0, 1, 2]),
    "DOUBLE": st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, float("nan")]),
    "TEXT": st.sampled_from([None, "x", "y"]),
}

Rows = dict[str, dict[str, pa.Array]]


@st.composite
def streams(draw: st.DrawFn, names: str) -> Rows:
    found: Rows = {}
    for name in names:
        size = draw(st.integers(0, 5))
        found[name] = {
            column: pa.array(draw(st.lists(VALUES[type_], min_size=size, max_size=size)), parse_type(type_).to_arrow())
            for column, type_ in COLUMNS[name].items()
        }
    return found


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=6), streams("abc"))
def test_an_inner_join_accepts_what_its_where_says(chosen: list[str], rows: Rows) -> None:
    where = " AND ".join(chosen)
    start = f"SELECT a.id FROM {', '.join(f'{table} {alias}' for alias, table in STREAMS.items())} WINDOW = '1m' WHERE "
    split, whole = WORLD.join(start + where), WORLD.join(f"{start}({where}) OR FALSE")
    assert not any(each.keys for each in whole.inputs)
    assert _accepted(split, rows) == _accepted(whole, rows)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from([c for c in CONDITIONS if "a." not in c]), min_size=1, max_size=5), streams("bc"))
def test_partners_of_outer_joins_are_those_that_on_says(chosen: list[str], rows: Rows) -> None:
    on = " AND ".join(chosen)
    left = "SELECT b.ppm FROM sensors b LEFT JOIN loops c ON {} WINDOW(b,c) = '1m'"
    anti = "SELECT b.ppm FROM sensors b WHERE NOT EXISTS (SELECT 1 FROM loops c WHERE {} WINDOW(b,c) = '1m')"
    for sql in (left, anti):
        split, whole = WORLD.join(sql.format(on)), WORLD.join(sql.format(f"({on}) OR FALSE"))
        assert split.inputs[0].static_predicate is None and split.inputs[0].stream_predicate is None
        assert _accepted(split, rows) == _accepted(whole, rows)


def _accepted(plan: JoinPlan, rows: Rows) -> set[tuple[int, ...]]:
    """The combinations of row numbers that a plan accepts, by brute force and without any window."""
    sizes = [len(next(iter(rows[each.alias].values()))) for each in plan.inputs]
    kept, keys = [], []
    for each, size in zip(plan.inputs, sizes, strict=True):
        columns = rows[each.alias]
        masks = [evaluate_mask(p, columns, size) for p in (each.static_predicate, each.stream_predicate)]
        kept.append(np.flatnonzero(masks[0] & masks[1]))
        keys.append([evaluate(key, columns, size) for key in each.keys])
    combinations = np.array(list(product(*kept)), np.int64).reshape(-1, len(sizes))
    together = {
        f"{each.alias}.{name}": values.take(pa.array(combinations[:, place]))
        for place, each in enumerate(plan.inputs)
        for name, values in rows[each.alias].items()
    }
    good = np.ones(len(combinations), np.bool_)
    for condition in plan.conditions:
        good &= evaluate_mask(condition, together, len(combinations))
    for place in range(1, len(plan.inputs)):
        for number, key in enumerate(plan.inputs[place].keys):
            good &= _equal(key.type, keys[0][number], keys[place][number], combinations[:, 0], combinations[:, place])
    return {tuple(map(int, row)) for row in combinations[good]}


def _equal(type_: Type, left: pa.Array, right: pa.Array, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    columns = {"l": left.take(pa.array(i)), "r": right.take(pa.array(j))}
    return evaluate_mask(Call("eq", (Column("l", type_), Column("r", type_)), BOOLEAN), columns, len(i))
