"""Several partials of the same cells as one partial, so that a cell holds all that is known of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.operators.aggregate.partials.base import Accumulator, Ints, Mergeable, State


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
