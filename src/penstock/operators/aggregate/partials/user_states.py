"""User aggregates: a cell keeps states, and rows that are in none of them yet. Users' code runs elsewhere.

A worker of the pipeline makes one state of a cell's rows (`condense`). In the server's process rows stay rows, merging puts states beside each
other, and `finish` sends them to a code worker.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from penstock.catalog.definition_json import function_from_json, to_json
from penstock.catalog.model import Function
from penstock.expr.code_workers import CODE_WORKERS
from penstock.expr.user_aggregates import compile_aggregate
from penstock.operators.aggregate.partials.base import (
    Ints,
    Numbers,
    Partial,
    State,
    Values,
    parts_per_cell,
    per_cell,
)
from penstock.operators.aggregate.partials.objects import item_bytes, objects_of
from penstock.types import Type

PREFIX = "user "
_LISTS = ("states", "rows")


def user_states_name(function: Function) -> str:
    """The name has the whole definition, so that cells of another body are cells of another partial."""
    return PREFIX + orjson.dumps(to_json(function)).decode()


def make_user_states(name: str, types: tuple[Type, ...]) -> UserStates:
    return UserStates(types, _function(name))


@lru_cache(maxsize=256)
def _function(name: str) -> Function:
    return function_from_json(orjson.loads(name.removeprefix(PREFIX)))


class UserStates(Partial):
    """`states` and `rows` have an array per cell (None: nothing), `size` is how many both have. A row is a tuple of arguments."""

    name = "user"
    functions = frozenset()

    def __init__(self, types: tuple[Type, ...], function: Function) -> None:
        super().__init__(types)
        self._function = function

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"size": (np.int64, 0), "states": (object, None), "rows": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        return objects_of(values)

    def add(self, state: State, values: Values) -> None:
        rows = _array(list(zip(*(column.tolist() for column in values.numbers), strict=True)))
        for cell, part in per_cell(values.cells, rows):
            known = state["rows"][cell]
            state["rows"][cell] = part if known is None else np.concatenate([known, part])
            state["size"][cell] += len(part)

    def condense(self, state: State) -> None:
        cells = [i for i, rows in enumerate(state["rows"]) if rows is not None]
        states = compile_aggregate(self._function).states([state["rows"][i] for i in cells])
        for cell, own in zip(cells, states, strict=True):
            known = state["states"][cell]
            state["states"][cell] = _array([own] if known is None else [*known, own])
            state["rows"][cell], state["size"][cell] = None, len(state["states"][cell])

    def merge(self, state: State, at: Ints, other: State) -> None:
        for name in _LISTS:
            for cell, parts in parts_per_cell(state[name], at, other[name]):
                state[name][cell] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        np.add.at(state["size"], at, other["size"])

    def _item_type(self, name: str) -> pa.DataType:
        if name == "states":
            assert self._function.state is not None
            return self._function.state.to_arrow()
        return pa.struct([(str(i), type_.to_arrow()) for i, type_ in enumerate(self.types)])

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name not in _LISTS:
            return super().to_arrow(name, field)
        items = [item for part in field if part is not None for item in part]
        if name == "rows":
            items = [{str(i): value for i, value in enumerate(row)} for row in items]
        ends = np.cumsum([0, *(0 if part is None else len(part) for part in field)])
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(items, self._item_type(name)))

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        if name not in _LISTS:
            return super().from_arrow(name, column)
        ends, items = column.offsets.to_numpy().tolist(), column.values.to_pylist()
        if name == "rows":
            items = [tuple(item.values()) for item in items]
        field: Numbers = np.full(len(column), None, object)
        for cell, (low, high) in enumerate(itertools.pairwise(ends)):
            if low < high:
                field[cell] = _array(items[low:high])
        return field

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + self.kept(state) * 8 + sum(item_bytes(state[name]) for name in _LISTS)

    def kept(self, state: State) -> int:
        return int(state["size"].sum())

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        lists = ([() if each is None else each.tolist() for each in state[name]] for name in _LISTS)
        return CODE_WORKERS.finish(self._function, *lists)


def _array(items: list[Any]) -> Numbers:
    """Objects one by one, also where they are tuples or lists."""
    found: Numbers = np.empty(len(items), object)
    found[:] = items
    return found
