"""A sample: the rows that a mining function sees of one group as points, whatever their times are."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.operators.mining.series import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A line of `points` per row, in log order. `total`: how many rows the group has, of which these may be a part."""

    points: Floats
    total: int

    def __len__(self) -> int:
        return len(self.points)
