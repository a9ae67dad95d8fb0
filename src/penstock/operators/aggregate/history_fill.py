"""Fill the cells of aggregates over a long history, a job of Spark's at a time: no request waits for it.

The wide slots that its windows cut are made again in finer ones before the first answer, and those that BEGIN enters next before it does.

In: queries with more rows of history without cells, or in such slots, than an answer may read (`SliceStore.fills`). Out: their cells. Cells are soft: a
fill that a restart interrupts continues from what the last snapshot has.
"""

from __future__ import annotations

import contextlib
import time
from typing import cast

from penstock.errors import PenstockError
from penstock.operators.base.table_answer import TableAnswer
from penstock.services import Service
from penstock.views.standing_queries import StandingQueries

FILL_ROWS, FILL_ROWS_ALONE = 1 << 17, 1 << 19
"""How many rows a job slices beside cycles, and at most while there are none."""
FILL_ROWS_LEAST = 1 << 10
"""How many rows a job slices at least, after jobs that were too slow."""
FILL_REST = 2.0
"""Beside cycles, how long it rests after a job, in times of the job."""
_IDLE_S = 0.5
TURN_STEPS = 100
# What another try may mend: Spark is restarted, or its job was too slow.
_PASSING = ("not_ready", "statement_timeout", "statement_cancelled")


class HistoryFiller:
    """Fills one query after the other, in the order in which they came."""

    def __init__(self, standing: StandingQueries) -> None:
        self._standing = standing
        self._service = Service("history fill", self._step)
        self._turn: list[str] = []  # queries that are looked after next
        self._each = 0
        self._rows = FILL_ROWS

    def start(self) -> None:
        self._service.start()

    def services(self) -> list[Service]:
        return [self._service]

    def stop(self) -> None:
        self._service.stop()
        self._standing.feed.wake()
        self._service.join(10)

    def _refine_ahead(self) -> None:
        """Look after some of the queries: all have their turn within a minute."""
        if not self._turn:
            with self._standing.locked() as store:
                known = store.slices.tiled_queries & store.state.queries_by_id.keys()
                self._turn = [store.state.queries_by_id[q].name for q in known]
            self._each = -(-len(self._turn) // TURN_STEPS)
        for _ in range(min(self._each, len(self._turn))):
            name = self._turn.pop()
            with contextlib.suppress(PenstockError):  # it was dropped, or a request will tell what is wrong
                for each in cast(TableAnswer, self._standing.held(name, asked=False)).cells_of_log:
                    each.refine_ahead()

    def _next(self) -> tuple[int, str] | None:
        with self._standing.locked() as store:
            return next(((q, store.state.queries_by_id[q].name) for q in store.slices.fills), None)

    def _put_off(self, query_id: int) -> None:
        """A job was too slow, or Spark is not there: the next one is smaller, and for another query if one waits."""
        self._rows = max(self._rows // 2, min(self._rows, FILL_ROWS_LEAST))
        with self._standing.locked() as store:
            fills = store.slices.fills
            if query_id in fills:
                fills[query_id] = fills.pop(query_id)

    def _step(self) -> float:
        self._standing.feed.wait(lambda: self._service.stopping or self._next() is not None, _IDLE_S)
        due = self._next()
        if self._service.stopping:
            return 0.0
        self._refine_ahead()
        if due is None:
            self._rows = FILL_ROWS  # the next history may come with cycles beside it
            return 0.0
        query_id, name = due
        began_s, cycle = time.monotonic(), self._standing.store.cycle
        failure: PenstockError | None = None
        is_whole = False
        try:
            budget = self._standing.new_budget(most=0)  # no row is read in this process
            held = cast(TableAnswer, self._standing.held(name, asked=False, budget=budget))
            filled = [each.fill(self._rows) for each in held.cells_of_log]
            is_whole = all(filled)
        except PenstockError as problem:
            if problem.condition in _PASSING:
                self._put_off(query_id)
                raise
            failure = problem
        with self._standing.locked() as store:
            if failure is not None and query_id in store.answers:
                store.answers[query_id].fail(failure.message, failure.condition)
            store.limit_slices(self._standing.settings)  # before cells of a longer window become part of the others
            store.note_fill(query_id, 0, cut=not is_whole)
            self._standing.snapshot_due |= failure is None and query_id not in store.slices.fills
        self._standing.feed.wake()
        if self._standing.store.cycle == cycle:
            self._rows = min(2 * self._rows, FILL_ROWS_ALONE)
            return 0.0
        self._rows = min(2 * self._rows, FILL_ROWS)
        return FILL_REST * (time.monotonic() - began_s)
