"""What every partial aggregate does: take rows in, merge, say the value."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


@dataclass(frozen=True, slots=True)
class Values:
    """An argument's values: in which cell each one is, when it was read, and where it stands in the log.

    Those that are NULL are not among them, unless the partial keeps NULLs; then they are not `valid`.
    """

    cells: Ints
    numbers: tuple[Numbers, ...]  # one array per argument: float64, or int64 for whole numbers, times and truth values
    times: Ints
    positions: Ints
    valid: npt.NDArray[np.bool_]


class Partial(ABC):
    """One kind of partial aggregate over arguments of one type.

    The order in which rows are added and cells are merged must not change what `finish` says, and nothing is ever taken
    out again: a window that has moved on is added up anew.
    """

    name: ClassVar[str]
    functions: ClassVar[frozenset[str]]
    keeps_nulls: ClassVar[bool] = False

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.types = types

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        """Whether it says the value of a function of arguments of these types."""
        return function in cls.functions and all(t.kind in ("INT", "BIGINT", "DOUBLE") for t in types)

    @property
    def whole(self) -> bool:
        """Whether the argument is an integer inside."""
        return self.types[0].kind != "DOUBLE"

    @abstractmethod
    def fields(self) -> dict[str, tuple[Any, Any]]:
        """The arrays it keeps: their types and what stands for nothing."""

    @abstractmethod
    def add(self, state: State, values: Values) -> None:
        """Take rows into their cells."""

    @abstractmethod
    def merge(self, state: State, at: Ints, other: State) -> None:
        """Take cell i of `other` into cell at[i]; several may go into one."""

    @abstractmethod
    def finish(self, function: str, state: State, type_: Type) -> pa.Array:
        """The value per cell, NULL where there is none."""

    def empty(self, count: int) -> State:
        return {name: np.full(count, nothing, dtype) for name, (dtype, nothing) in self.fields().items()}
