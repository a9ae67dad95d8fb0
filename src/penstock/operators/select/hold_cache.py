"""A cache of results for conditions that have to last, for a few cycles and windows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.expr.windows import FOREVER
from penstock.operators.base.log_reader import TimedPositions
from penstock.operators.select.hold_runs import Bools, Ints

KEPT = 4  # cycles that are asked about at the same time: of invocations, and of subscribers that are behind


@dataclass(frozen=True, slots=True)
class HoldRows:
    """All rows below `head` from a time on at which the condition has lasted; they depend on positions from `lowest` on."""

    since: int
    head: int
    lowest: int
    rows: TimedPositions


@dataclass(frozen=True, slots=True)
class Eves:
    """Each sensor's newest row up to a time, below `head`, by sid: when (NEVER: none), where, and whether it is true."""

    since: int
    head: int
    times: Ints
    positions: Ints
    true: Bools

    @property
    def lowest(self) -> int:
        return int(self.positions.min(initial=FOREVER))


Kept = TypeVar("Kept", HoldRows, Eves)


@dataclass(slots=True)
class HoldCache:
    """The cached results of one query. Soft state: missing results are read from the log."""

    found: list[HoldRows] = field(default_factory=list)
    eves: list[Eves] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def nearest(self, kept: Sequence[Kept], since: int, head: int, floor: int) -> Kept | None:
        """What needs the least added; nothing that stands on rows which retention has taken."""
        with self.lock:
            usable = [k for k in kept if k.since <= since and k.head <= head and k.lowest >= floor]
        return max(usable, key=lambda k: (k.head, k.since), default=None)

    def keep(self, kept: list[Kept], new: Kept) -> None:
        with self.lock:
            kept[:] = [k for k in kept if (k.since, k.head) != (new.since, new.head)]
            kept.append(new)
            del kept[:-KEPT]

    def clear(self) -> None:
        with self.lock:
            self.found.clear()
            self.eves.clear()

    @property
    def nbytes(self) -> int:
        with self.lock:
            rows = sum(f.rows.positions.nbytes + f.rows.times.nbytes + f.rows.vids.nbytes for f in self.found)
            return rows + sum(e.times.nbytes + e.positions.nbytes + e.true.nbytes for e in self.eves)
