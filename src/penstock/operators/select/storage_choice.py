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

# Until both were measured, moving an answer on counts as so many times what cutting it out costs.
ASKED_PER_CYCLE = 1.5
LOOK_CYCLES = 16
# The other way is taken where it is so much cheaper; the newest measurement counts for so much.
CHEAPER = 1.2
_NEWEST = 0.3
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
    per_cycle: float = 0.0  # requests, when this was last looked at
    cut_ms: float | None = None  # to answer a request from matches
    move_ms: float | None = None  # to bring the answer that is kept to the next cycle

    def is_cheaper_ready(self) -> bool:
        """Whether keeping the answer current costs less, by enough to change or to stay as it is."""
        moving, cutting = ASKED_PER_CYCLE, self.per_cycle
        if self.move_ms is not None and self.cut_ms is not None:
            moving, cutting = self.move_ms, self.cut_ms * self.per_cycle
            return moving < CHEAPER * cutting if self.ready else CHEAPER * moving < cutting
        return cutting >= moving


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
        if asked is not None and asked.move_ms is not None and asked.cut_ms is not None:
            return (
                f"keeping it current takes {asked.move_ms:.2f} ms a cycle, cutting it out {asked.cut_ms:.2f} ms a request,"
                f" at {asked.per_cycle:.1f} requests a cycle"
            )
        rate = f"asked for {ASKED_PER_CYCLE:g} times a cycle or more"
        return f"it is {rate}" if asked is not None and asked.ready else f"it is not {rate}"

    def note(self, query_id: int, cycle: int) -> None:
        """Count one request for the current answer of a query."""
        asked = self._asked.get(query_id)
        if asked is None:
            asked = self._asked[query_id] = _Asked(cycle)
        asked.times += 1
        self._look(asked, cycle)

    def note_ms(self, query_id: int, ms: float, moved: bool) -> None:
        """What it took to bring a kept answer to the next cycle, or to cut one out for a request.

        Called without the lock, for which a reader would wait: a lost measurement changes no answer.
        """
        asked = self._asked.get(query_id)
        if asked is None:
            return
        before = asked.move_ms if moved else asked.cut_ms
        now = ms if before is None else before + _NEWEST * (ms - before)
        if moved:
            asked.move_ms = now
        else:
            asked.cut_ms = now

    def _look(self, asked: _Asked, cycle: int) -> None:
        passed = cycle - asked.since
        if passed < LOOK_CYCLES:
            return
        asked.per_cycle = asked.times / passed
        often = asked.is_cheaper_ready()
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
