"""The base of approximate partials: cells that may be cut, bounds, a guaranteed error, and hashes of values."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.operators.join.kernels.keys import key_numbers
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
    share_of_error: ClassVar[float] = np.inf
    """Two neighbours may become one while they weigh no more than so many times `epsilon` of everything newer."""

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types)
        self.epsilon, self.coarseness, self.share = epsilon, coarseness, self.share_of_error * epsilon

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

    def weights(self, state: State) -> Floats:
        """How much a cell weighs beside others of its group."""
        return state["count"].astype(np.float64)

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
            self.take(state, values.take(values.valid))

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

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + bytes_held(state)


class Bracketed(Approximate):
    """An approximate partial with a value between bounds."""

    @abstractmethod
    def brackets(self, state: State) -> Brackets:
        """The values of all cells."""

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        return self.brackets(state).within(self.epsilon)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = self.brackets(state)
        if function.endswith("_error"):
            return pa.array(found.errors, mask=~found.known, from_pandas=False)
        values = found.values if type_.kind == "DOUBLE" else found.values.astype(np.int64)
        return pa.array(values, mask=~found.known, from_pandas=False).cast(type_.to_arrow())


def bytes_held(state: State) -> int:
    """Memory of the objects of a state that holds bytes."""
    objects = [field for field in state.values() if field.dtype == object]
    return sum(len(data) + 33 for field in objects for data in field if data is not None)


def hashes_of(values: pa.Array) -> Numbers:
    """A hash per value, as int64."""
    numbers, _ = key_numbers([values])
    hashes: Numbers = mixed(numbers).view(np.int64)
    return hashes


@kernel
def mixed(numbers: Ints) -> npt.NDArray[np.uint64]:
    out = np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        out[i] = mix(np.uint64(numbers[i]))
    return out


@kernel
def mix(number: np.uint64) -> np.uint64:
    """One step of the SplitMix64 generator: every bit of the number moves every bit of the result."""
    z = number + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
