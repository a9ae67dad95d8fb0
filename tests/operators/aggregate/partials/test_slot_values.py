"""What slots of a series keep of symbols and of the last reading: the same in any order of merges, also through Arrow, in few bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.partials.base import Partial, State, Values
from penstock.operators.aggregate.partials.registry import make_partial
from penstock.operators.aggregate.partials.slot_values import SETS, slot_last_name
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT, Type

EVERY = 1_000_000
KINDS: list[tuple[Type, list[Any]]] = [
    (TEXT, ["on", "off", "ç"]),
    (BIGINT, [2**62, 7, -1]),
    (BOOLEAN, [True, False]),
    (DOUBLE, [0.5, -0.0, 1e300]),
]
Row = tuple[int, int, int, Any]
"""Slot, time, log position, value."""


def state_of(partial: Partial, rows: list[Row], slots: int) -> State:
    state = partial.empty(slots)
    cells, times, positions = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    column = partial.convert(pa.array([row[3] for row in rows], partial.types[0].to_arrow()))
    partial.add(state, Values(cells, (column,), times, positions, np.ones(len(rows), np.bool_)))
    return state


def travelled(partial: Partial, state: State) -> State:
    return {name: partial.from_arrow(name, partial.to_arrow(name, field)) for name, field in state.items()}


def merged(partial: Partial, rows: list[Row], slots: int, chance: random.Random) -> State:
    """The same rows in random parts, which come in any order, some through Arrow."""
    state, left = partial.empty(slots), rows[:]
    chance.shuffle(left)
    while left:
        count = chance.randint(1, len(left))
        part, left = state_of(partial, left[:count], slots), left[count:]
        partial.merge(state, np.arange(slots), travelled(partial, part) if chance.random() < 0.5 else part)
    return state


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("type_", "values"), KINDS)
def test_slots_are_the_same_in_any_order_of_merges(type_: Type, values: list[Any], seed: int) -> None:
    chance, slots = random.Random(seed), 6
    rows: list[Row] = []
    for position in range(60):
        slot = chance.randrange(slots - 1)
        rows.append((slot, (slot + 3) * EVERY + chance.choice([0, 5, EVERY - 1]), position, chance.choice(values)))
    last = make_partial(slot_last_name(EVERY), (type_,))
    truth = [max(own, default=None) for own in ([row[1:] for row in rows if row[0] == slot] for slot in range(slots))]
    found = last.finish("last", merged(last, rows, slots, chance), type_).to_pylist()
    assert found == [None if row is None else row[2] for row in truth]
    if type_ != DOUBLE:
        sets = make_partial(SETS, (type_,))
        state = merged(sets, rows, slots, chance)
        assert state["values"].tolist() == [
            tuple(sorted({r[3] for r in rows if r[0] == s})) or None for s in range(slots)
        ]
        assert sets.kept(state) == sum(map(len, filter(None, state["values"])))


@pytest.mark.parametrize("name", [SETS, slot_last_name(EVERY)])
def test_equal_symbols_of_many_slots_take_no_more_than_one(name: str) -> None:
    partial = make_partial(name, (TEXT,))
    rows: list[Row] = [(slot, slot * EVERY, slot, f"a state with a long name {slot % 3}") for slot in range(5000)]
    for state in (state_of(partial, rows, 5000), travelled(partial, state_of(partial, rows, 5000))):
        beside = sum(field.nbytes for field in state.values())
        assert beside < partial.nbytes(state) < beside + 1000
        assert len({id(value) for value in next(c for c in state.values() if c.dtype == object).tolist()}) == 3
