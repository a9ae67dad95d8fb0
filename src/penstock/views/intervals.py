"""How often the answers are tidied up, and how long a reader waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """Cycles between two rounds of tidying, and the patience of a reader. Tests of short lives give smaller ones."""

    trim_cycles: int = 20
    snapshot_cycles: int = 200
    own_writes_s: float = 5.0
    """How long a reader waits at most for a cycle that includes its own writes."""
    ready_s: float = 10.0
    """How long a reader waits at most for a query that still fills its window."""
