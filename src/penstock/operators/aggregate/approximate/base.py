"""The base of approximate partials: cells that may be cut, bounds, and a guaranteed error."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.types import Type

Floats = npt.NDArray[np.float64]
NEVER = -(2**62)
CUT = "cut_"


@dataclass(frozen=True, slots=True)
class Coarseness:
    """How far cells may grow: not over the edges of panes (0: there are none), and none of the last `recent_us`."""

    pane_us: int = 0
    recent_us: int = 60_000_000


@dataclass(frozen=True, slots=True)
class Brackets:
    """Values between bounds, one per line; where `known` is false there is no value."""

    values: Floats
    lowers: Floats
    uppers: Floats
    known: npt.NDArray[np.bool_]

    @property
    def errors(self) -> Floats:
        """How far the truth can be from the value, at most."""
        return np.maximum(_apart(self.uppers, self.values), _apart(self.values, self.lowers))

    def within(self, epsilon: float) -> npt.NDArray[np.bool_]:
        """Whether every truth between the bounds is at most `epsilon` of itself away from the value."""
        low, high = _apart(self.values, self.lowers), _apart(self.uppers, self.values)
        found: npt.NDArray[np.bool_] = (low <= epsilon * np.abs(self.lowers)) & (high <= epsilon * np.abs(self.uppers))
        return found | ~self.known


def _apart(large: Floats, small: Floats) -> Floats:
    """How far two are from each other; an infinity is at itself."""
    with np.errstate(invalid="ignore"):
        return np.where(large == small, 0.0, large - small)


class Approximate(Partial):
    """A partial with a guaranteed error, for cells of any width.

    Beside the fields of its own a state has `newest`, the time of the cell's newest row, and where the kind brackets cut
    cells the same fields once more with CUT in front: what may or may not be inside.
    """

    keeps_nulls = True
    share: float = np.inf
    """Two neighbours may become one while they weigh no more than this share of everything newer."""
    bytes_fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types)
        self.epsilon, self.coarseness = epsilon, coarseness

    @abstractmethod
    def own(self) -> dict[str, tuple[Any, Any]]:
        """The fields of the rows that are inside for certain."""

    @abstractmethod
    def take(self, state: State, values: Values) -> None:
        """Take values (none of them NULL) into their cells."""

    @abstractmethod
    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        """Merge the own fields, or those with CUT in front."""

    @abstractmethod
    def within(self, state: State) -> npt.NDArray[np.bool_]:
        """Which lines keep the guaranteed error, whichever rows of the cut cells are inside."""

    @abstractmethod
    def weights(self, state: State) -> Floats:
        """How much a cell weighs beside others of its group."""

    brackets_cut: ClassVar[bool] = True

    def fields(self) -> dict[str, tuple[Any, Any]]:
        own = self.own()
        cut = {CUT + name: field for name, field in own.items()} if self.brackets_cut else {}
        return {"newest": (np.int64, NEVER), **own, **cut}

    def add(self, state: State, values: Values) -> None:
        np.maximum.at(state["newest"], values.cells, values.times)
        if values.valid.all():
            self.take(state, values)
        else:
            v = values.valid
            numbers = tuple(n[v] for n in values.numbers)
            self.take(state, Values(values.cells[v], numbers, values.times[v], values.positions[v], v[v]))

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.maximum.at(state["newest"], at, other["newest"])
        self.join(state, at, other, "")
        if self.brackets_cut:
            self.join(state, at, other, CUT)

    def restricted(self, state: State, low: int) -> State:
        """What is known of cells that BEGIN cuts at `low`, all of which have newer rows."""
        found = self.empty(len(state["newest"]))
        found["newest"] = state["newest"]
        for name in self.own():
            found[CUT + name] = state[name]
        return found

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name.removeprefix(CUT) in self.bytes_fields:
            return pa.array(field.tolist(), pa.large_binary())
        return super().to_arrow(name, field)

    def nbytes(self, state: State) -> int:
        held = [n for n in state if n.removeprefix(CUT) in self.bytes_fields]
        return super().nbytes(state) + sum(len(data) + 33 for n in held for data in state[n] if data is not None)


def per_cell(cells: Ints) -> list[tuple[int, Ints]]:
    """Each cell that occurs, and where."""
    if not len(cells):
        return []
    order = np.argsort(cells, kind="stable")
    firsts = np.flatnonzero(np.append(True, np.diff(cells[order]) != 0))
    return list(zip(cells[order[firsts]].tolist(), np.split(order, firsts[1:]), strict=True))
