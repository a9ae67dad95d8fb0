"""Fill the cells of aggregates over a long history, a job of Spark's at a time: no request waits for all of it.

In: queries with more rows of history without cells than an answer may read (`SliceStore.fills`). Out: their cells. Cells are soft: a
fill that a restart interrupts continues from what the last snapshot has.
"""

from __future__ import annotations

from penstock.errors import PenstockError, expect
from penstock.operators.aggregate.answer import AggregateAt
from penstock.services import Service
from penstock.views.standing_queries import StandingQueries

_IDLE_S = 0.5
# What another try may mend: Spark is restarted, or its job was too slow.
_PASSING = ("not_ready", "statement_timeout", "statement_cancelled")


class HistoryFiller:
    """Fills one query after the other, in the order in which they came."""

    def __init__(self, standing: StandingQueries) -> None:
        self._standing = standing
        self._service = Service("history fill", self._step)

    def start(self) -> None:
        self._service.start()

    def services(self) -> list[Service]:
        return [self._service]

    def stop(self) -> None:
        self._service.stop()
        self._standing.feed.wake()
        self._service.join(10)

    def _next(self) -> tuple[int, str] | None:
        with self._standing.locked() as store:
            return next(((q, store.state.queries_by_id[q].name) for q in store.slices.fills), None)

    def _step(self) -> float:
        self._standing.feed.wait(lambda: self._service.stopping or self._next() is not None, _IDLE_S)
        due = self._next()
        if due is None or self._service.stopping:
            return 0.0
        query_id, name = due
        failure: PenstockError | None = None
        try:
            expect(AggregateAt, self._standing.held(name, asked=False)).fill()
        except PenstockError as problem:
            if problem.condition in _PASSING:
                raise
            failure = problem
        with self._standing.locked() as store:
            if failure is not None and query_id in store.answers:
                store.answers[query_id].fail(failure.message, failure.condition)
            store.note_fill(query_id, 0)
            self._standing.snapshot_due |= failure is None and query_id not in store.slices.fills
        self._standing.feed.wake()
        return 0.0
