"""Several partials of the same cells as one partial, so that a cell holds all that is known of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.operators.aggregate.partials.base import Accumulator, Ints, Mergeable, State, Values

LATEST = "latest"


class CompositePartial(Mergeable):
    """The fields of its parts, numbered. Rows come in through the parts: `joined` puts what they made of them side by side."""

    def __init__(self, parts: Sequence[Accumulator]) -> None:
        self.parts = tuple(parts)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return self.joined([part.fields() for part in self.parts])

    def joined(self, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Fields of all parts as one."""
        return {f"{place}.{name}": field for place, own in enumerate(fields) for name, field in own.items()}

    def part(self, state: State, place: int) -> State:
        """The fields of one part."""
        return {name: state[f"{place}.{name}"] for name in self.parts[place].fields()}

    def empty(self, count: int) -> State:
        return self.joined([part.empty(count) for part in self.parts])

    def merge(self, state: State, at: Ints, other: State) -> None:
        for place, part in enumerate(self.parts):
            own = self.part(state, place)
            part.merge(own, at, self.part(other, place))
            state |= {f"{place}.{name}": field for name, field in own.items()}

    def nbytes(self, state: State) -> int:
        return sum(part.nbytes(self.part(state, place)) for place, part in enumerate(self.parts))

    def kept(self, state: State) -> int:
        return max(part.kept(self.part(state, place)) for place, part in enumerate(self.parts))


class Marks(Accumulator):
    """The marks of results of a join. The arguments are the latest time and a log position per input."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs

    def fields(self) -> dict[str, tuple[Any, Any]]:
        lowest = {oldest(place): (np.int64, np.iinfo(np.int64).max) for place in range(self.inputs)}
        return {LATEST: (np.int64, np.iinfo(np.int64).min), **lowest}

    def add(self, state: State, values: Values) -> None:
        given = dict(zip(self.fields(), values.numbers, strict=True))
        self.merge(state, values.cells, given)

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.maximum.at(state[LATEST], at, other[LATEST])
        for place in range(self.inputs):
            np.minimum.at(state[oldest(place)], at, other[oldest(place)])


def oldest(place: int) -> str:
    return f"oldest{place}"
