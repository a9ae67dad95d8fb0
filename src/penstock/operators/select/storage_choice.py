"""Choose how a query's answer is kept, by cost; all three strategies give the same rows.

- complete: the rows inside the window are kept current at each cycle. Costs each cycle, an invocation nearly nothing.
- partial: matches are found as rows come, the window is cut when asked. Costs bits per row, little per invocation.
- none: nothing is kept, an invocation evaluates its window. Costs only at invocations; chosen only on request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.operators.select.durability import is_pure
from penstock.views.query_state import QueryState

Strategy = Literal["complete", "partial", "none"]

# Moving an answer on costs about what cutting it out costs, so it pays from more than one invocation a cycle on.
ASKED_PER_CYCLE = 1.5
LOOK_CYCLES = 16
# What all answers that are kept current may cost a cycle; those left over are moved on when asked for.
MOST_READY = 64
READY_SECONDS = 0.05
READY_MAX_ROWS = 1 << 16
SLEEPS = "it sleeps: no client has used it for a while, and its window is evaluated when it is asked"


@dataclass(slots=True)
class _Asked:
    since: int
    times: int = 0
    ready: bool = False


class StorageChoice:
    """Counts how often each query is invoked, and chooses its strategy. Called under its owner's lock."""

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}

    def of(self, query_id: int, answer: QueryState, only: str | None) -> Strategy:
        """`only`: the reason why there is no choice."""
        if only is not None:
            return "partial"
        if (answer.strategy == "none" or answer.sleeping) and is_pure(answer.plan):
            return "none"
        if answer.strategy is not None:
            return "complete" if answer.strategy == "complete" else "partial"
        asked = self._asked.get(query_id)
        return "complete" if asked is not None and asked.ready else "partial"

    def why(self, query_id: int, answer: QueryState) -> str:
        """The reason of a choice, for EXPLAIN."""
        if answer.sleeping:
            return SLEEPS
        if answer.strategy is not None:
            return "a user chose it"
        asked = self._asked.get(query_id)
        rate = f"asked for {ASKED_PER_CYCLE:g} times a cycle or more"
        return f"it is {rate}" if asked is not None and asked.ready else f"it is not {rate}"

    def note(self, query_id: int, cycle: int) -> None:
        """Count one request for the current answer of a query."""
        asked = self._asked.get(query_id)
        if asked is None:
            asked = self._asked[query_id] = _Asked(cycle)
        asked.times += 1
        self._look(asked, cycle)

    def _look(self, asked: _Asked, cycle: int) -> None:
        passed = cycle - asked.since
        if passed < LOOK_CYCLES:
            return
        often = asked.times >= ASKED_PER_CYCLE * passed
        if often and not asked.ready and sum(a.ready for a in self._asked.values()) >= MOST_READY:
            often = False
        asked.since, asked.times, asked.ready = cycle, 0, often

    def calm_down(self, cycle: int) -> list[int]:
        """Queries that are not asked about any more; they are kept current no longer."""
        # A query with requests is checked again after LOOK_CYCLES: these had none for longer than that.
        gone = [q for q, a in self._asked.items() if cycle - a.since > 2 * LOOK_CYCLES]
        for query_id in gone:
            del self._asked[query_id]
        return gone

    def too_large(self, query_id: int) -> None:
        """An answer that was to be kept current has too many rows for that."""
        if query_id in self._asked:
            self._asked[query_id].ready = False

    def ready(self) -> list[int]:
        """Queries that are kept current because they are asked about often."""
        return [q for q, a in self._asked.items() if a.ready]

    def forget(self, query_id: int) -> None:
        self._asked.pop(query_id, None)
