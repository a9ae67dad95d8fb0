"""The base of all partial aggregates: add rows, merge, give the value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.types import Type

Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[Any]
State: TypeAlias = dict[str, Numbers]
"""The partials of many cells: one array per field."""
ARITHMETIC_KINDS = frozenset({"INT", "BIGINT", "DOUBLE"})
NUMBER_KINDS = ARITHMETIC_KINDS | {"TIMESTAMP", "BOOLEAN"}
"""The types whose values are machine numbers."""
OBJECT_KINDS = frozenset({"TEXT", "DECIMAL", "BINARY"})
"""The types whose values are Python objects, which can be compared."""
SCALAR_KINDS = NUMBER_KINDS | OBJECT_KINDS
ALL_KINDS = SCALAR_KINDS | {"ARRAY", "STRUCT"}


@dataclass(frozen=True, slots=True)
class Values:
    """An argument's values, each with its cell, its time and its log position.

    Those that are NULL are not among them, unless the partial keeps NULLs; then they are not `valid`.
    """

    cells: Ints
    numbers: tuple[Numbers, ...]  # one array per argument: float64, or int64 for whole numbers, times and truth values
    times: Ints
    positions: Ints
    valid: npt.NDArray[np.bool_]

    def take(self, rows: Numbers) -> Values:
        numbers = tuple(n[rows] for n in self.numbers)
        return Values(self.cells[rows], numbers, self.times[rows], self.positions[rows], self.valid[rows])


class Mergeable(ABC):
    """The state of many cells as arrays, and how cells are merged.

    The order of merges must not change the value, and nothing is ever subtracted: a window that has moved is added up
    again.
    """

    @abstractmethod
    def fields(self) -> dict[str, tuple[Any, Any]]:
        """The arrays it keeps: their types and what stands for nothing."""

    @abstractmethod
    def merge(self, state: State, at: Ints, other: State) -> None:
        """Take cell i of `other` into cell at[i]; several may go into one."""

    def empty(self, count: int) -> State:
        return {name: np.full(count, nothing, dtype) for name, (dtype, nothing) in self.fields().items()}

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        """A field as it travels. Objects are bytes, unless a partial says otherwise."""
        if field.dtype == object:
            return pa.array(field.tolist(), pa.large_binary())
        return pa.array(field, from_pandas=False)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        field: Numbers = column.to_numpy(zero_copy_only=False)
        return field

    def nbytes(self, state: State) -> int:
        return sum(field.nbytes for field in state.values())

    def kept(self, state: State) -> int:
        """How many values it keeps one by one: 0 where a cell is as large as any other."""
        return 0

    @property
    def keeps_values(self) -> bool:
        """Whether a cell grows with the values that it has seen."""
        return type(self).kept is not Mergeable.kept


class Accumulator(Mergeable):
    """A mergeable state that also takes rows, in any order."""

    keeps_nulls: ClassVar[bool] = False

    @abstractmethod
    def add(self, state: State, values: Values) -> None:
        """Take rows into their cells."""

    def condense(self, state: State) -> None:
        """Run users' code on what is kept of rows. Only workers of the pipeline do that."""

    def convert(self, values: pa.Array) -> Numbers:
        """An argument as the numbers that `add` takes; what stands for NULL does not matter."""
        return numbers_of(values)


class Partial(Accumulator):
    """One kind of partial aggregate over arguments of one type; it gives the values of aggregate functions."""

    name: ClassVar[str]
    functions: ClassVar[frozenset[str]]
    kinds: ClassVar[frozenset[str]] = ARITHMETIC_KINDS
    arguments: ClassVar[tuple[int, ...]] = (1,)
    """How many arguments its functions may have, all of its kinds."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.types = types

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        """Whether it gives the value of a function with arguments of these types."""
        fits = len(types) in cls.arguments and all(t.kind in cls.kinds for t in types)
        return function in cls.functions and fits

    @property
    def whole(self) -> bool:
        """Whether the argument is an integer inside."""
        return self.types[0].kind != "DOUBLE"

    @abstractmethod
    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        """The value per cell, NULL where there is none. `parameter`: a call's parameter beside its arguments."""


def per_cell(cells: Ints, column: Numbers | None = None) -> list[tuple[int, Numbers]]:
    """Each cell that occurs, and its values of a column, or where it occurs."""
    if not len(cells):
        return []
    order = np.argsort(cells, kind="stable")
    firsts = np.flatnonzero(np.append(True, np.diff(cells[order]) != 0))
    parts = np.split(order if column is None else column[order], firsts[1:])
    return list(zip(cells[order[firsts]].tolist(), parts, strict=True))


def parts_per_cell(own: Numbers, at: Ints, other: Numbers) -> Iterator[tuple[int, list[Any]]]:
    """Each cell that takes objects in, with all that it will stand for: its own, if any, and then the others."""
    new: dict[int, list[Any]] = {}
    for cell, part in zip(at.tolist(), other.tolist(), strict=True):
        if part is not None:
            new.setdefault(cell, []).append(part)
    for cell, parts in new.items():
        yield cell, parts if own[cell] is None else [own[cell], *parts]


def numbers_of(values: pa.Array) -> Numbers:
    """Values as float64 or int64; what stands for NULL does not matter."""
    if pa.types.is_floating(values.type):
        real: Numbers = (values.fill_null(0.0) if values.null_count else values).to_numpy()
        return real
    if pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type) or pa.types.is_boolean(values.type):
        cast = values.cast(pa.int64())
        whole: Numbers = (cast.fill_null(0) if cast.null_count else cast).to_numpy()
        return whole
    return np.zeros(len(values), np.int64)  # only whether there is a value matters
