"""Where the queries of class low stand at the end of a cycle, and how far the next cycle takes them.

Definitions never change while the class is behind (`low_class`). So the rows that it still has to see are met by the definitions
that were there when they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import check_known

Positions = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Late:
    """How far behind the class low is at the end of a cycle.

    Its answers are those of `behind` cycles before. It has read up to `read`. What it reads next becomes visible when it comes
    to `goal`, where the cycle ended that was `goal_behind` cycles before.
    """

    behind: int
    goal_behind: int
    read: Positions = field(default_factory=dict)
    goal: Positions = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        places = {
            name: {str(t): p for t, p in sorted(of.items())} for name, of in (("read", self.read), ("goal", self.goal))
        }
        return {"behind": self.behind, "goal_behind": self.goal_behind, **places}


def late_from_json(data: dict[str, Any]) -> Late:
    check_known(data, {"behind", "goal_behind", "read", "goal"}, "the place of class low")
    read, goal = ({int(t): int(p) for t, p in data[name].items()} for name in ("read", "goal"))
    return Late(int(data["behind"]), int(data["goal_behind"]), read, goal)


def advance_late(start: Positions, late: Late | None, rows: int | None) -> Late | None:
    """Where the class stands after a cycle that begins at `start` and lets it read so many rows; None: it takes part.

    Pieces end at the ends of committed cycles, or before the next of these.
    """
    if rows is None:
        return None
    now = late or Late(0, 0, start, start)
    behind, goal_behind, read, goal, left = now.behind, now.goal_behind, dict(now.read), now.goal, rows
    while True:
        if all(read.get(t, 0) >= p for t, p in goal.items()):
            behind = goal_behind
            if goal_behind == 0:
                break
            goal_behind, goal = 0, start
            continue
        if left <= 0:
            break
        for table, end in goal.items():
            piece = min(left, end - read.get(table, 0))
            if piece > 0:
                read[table] = read.get(table, 0) + piece
                left -= piece
    return Late(behind + 1, goal_behind + 1, read, dict(goal))


def late_pieces(start: Positions, late: Late | None, after: Late | None) -> list[tuple[int, int, int]]:
    """What a cycle reads for the class beside its new rows: (table, first, end)."""
    if late is None:
        return []
    read = after.read if after is not None else start
    pieces = [(table, late.read.get(table, 0), read.get(table, 0)) for table in sorted(start)]
    return [piece for piece in pieces if piece[1] < piece[2]]


def waiting_rows(start: Positions, late: Late | None) -> int:
    """The rows before `start` that the class has not read."""
    return sum(end - late.read.get(table, 0) for table, end in start.items()) if late is not None else 0
