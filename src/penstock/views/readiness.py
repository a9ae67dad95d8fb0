"""Whether a standing query can be answered, and the error where it cannot: it is paused, it is filling, or it failed."""

from __future__ import annotations

import threading

from penstock.errors import PenstockError, error
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed
from penstock.views.intervals import Intervals
from penstock.views.query_state import QueryState

FIRST_EVALUATION_S = 60.0
_MENDING = {
    "table_not_found": "drop the query, create it anew",
    "over_budget": "give it a shorter window or fewer groups, use APPROX_DISTINCT, APPROX_PERCENTILE or WITHIN n PERCENT,"
    " or raise slices_memory_mb or exact_values_max; then pause and resume it",
    "function_failed": "drop the query, mend the function, create it anew",
    "corrupt_segment": "put the file back from a backup, then pause and resume the query: it reads its history again",
}


class Readiness:
    """Checks which standing queries can be answered; a base of `StandingQueries`."""

    _lock: threading.RLock
    store: AnswerStore
    feed: CommitFeed
    intervals: Intervals

    def _answer_of(self, name: str) -> QueryState | None:
        with self._lock:
            definition = self.store.state.queries.get(name)
            return self.store.answers.get(definition.id) if definition is not None else None

    def is_resting(self, name: str) -> bool:
        """Whether a query answers nothing for now: it is paused, or reads again what it missed."""
        with self._lock:
            reader = self.store.reader(name)
            if reader is not None:
                read = self.store.read_by(reader[1])
                return reader[0].paused or (read is not None and read.error is None and not read.ready)
            resampling = self.store.resampling(name)
            if resampling is not None:
                return resampling.paused
            evaluated = self.store.evaluated(name)
            if evaluated is not None:
                return evaluated.paused or not self.store.evaluations.is_answered(evaluated.id)
            answer = self._answer_of(name)
            return answer is not None and answer.error is None and not answer.answers

    def check_failed(self, name: str) -> None:
        """Raise what a FAILED query failed with."""
        with self._lock:
            reader = self.store.reader(name)
            if reader is not None:
                failure = self.store.reader_failures.get(reader[0].id)
                if failure is not None:
                    raise PenstockError("over_budget", failure, hint=_MENDING["over_budget"])
                name = reader[1].relations[0].table
            self._check_evaluated(name)
            answer = self._answer_of(name)
            if answer is not None and answer.error is not None and answer.error_condition == "query_quarantined":
                hint = f"mend what it reads or calls; ALTER QUERY {name} RESUME has it read its history again"
                raise error("query_quarantined", query=name, reason=answer.error, hint=hint)
            if answer is not None and answer.error is not None:
                raise PenstockError(answer.error_condition, answer.error, hint=_MENDING.get(answer.error_condition))

    def _check_evaluated(self, name: str) -> None:
        """Raise what the evaluation of a query by Spark SQL fails with: a join that it reads, or itself."""
        evaluated = self.store.evaluated(name)
        if evaluated is None:
            return
        for below in self.store.joins_read(evaluated.id):
            self.check_failed(below)
        failure = self.store.evaluations.failure(evaluated.id)
        if failure is not None:
            raise failure.to_error()

    def is_ready(self, name: str, timeout_s: float) -> bool:
        """Whether a query has read its history, waiting for that a while. Raises where it never will."""
        with self._lock:
            reader, resampling = self.store.reader(name), self.store.resampling(name)
        if resampling is not None:
            self._refuse_paused(name, resampling.paused)
            return True
        if reader is not None:
            self.check_failed(name)
            self._refuse_paused(name, reader[0].paused)
            # A paused query can still be read: the results that it has given stay.
            self.feed.wait(lambda: not self.is_resting(name), timeout_s)
            self.check_failed(name)
            return not self.is_resting(name)

        if self.store.evaluated(name) is not None:
            return self._is_evaluated(name, timeout_s)

        def ready() -> bool:
            with self._lock:
                answer = self._answer_of(name)
                return answer is None or answer.ready or answer.paused or answer.error is not None

        self.feed.wait(ready, timeout_s)
        with self._lock:
            answer = self._answer_of(name)
            if answer is None:
                return True
            self.check_failed(name)
            self._refuse_paused(name, answer.paused)
            return answer.ready

    def _is_evaluated(self, name: str, timeout_s: float) -> bool:
        """Whether a query has been evaluated by Spark SQL, waiting for that a while."""

        def answered() -> bool:
            with self._lock:
                definition = self.store.evaluated(name)
                if definition is None or definition.paused:
                    return True
                self.check_failed(name)
                return self.store.evaluations.is_answered(definition.id)

        self.feed.wait(answered, timeout_s)
        with self._lock:
            definition = self.store.evaluated(name)
            if definition is None and name not in self.store.state.queries:
                raise error("query_not_found", query=name, hint="it was dropped")
            self._refuse_paused(name, definition is not None and definition.paused)
            return answered()

    def _refuse_paused(self, name: str, paused: bool) -> None:
        if paused:
            raise error("not_ready", detail=f'query "{name}" is PAUSED', hint=f"ALTER QUERY {name} RESUME")

    def wait_ready(self, name: str, timeout_s: float | None = None) -> None:
        """Wait a little for a query that is still filling its window; then raise an error with its state."""
        with self._lock:
            evaluated = self.store.evaluated(name) is not None
        if timeout_s is None:
            timeout_s = FIRST_EVALUATION_S if evaluated else self.intervals.ready_s
        if not self.is_ready(name, timeout_s):
            with self._lock:
                reader = self.store.reader(name)
                answer = self._answer_of(reader[1].relations[0].table if reader is not None else name)
            if evaluated and (answer is None or answer.ready):
                detail = f'query "{name}" has not been evaluated yet'
                raise error("not_ready", detail=detail, hint="ask again in a moment")
            if answer is None:
                raise error("query_not_found", query=name, hint="it was dropped")
            raise error(
                "not_ready",
                detail=f'query "{name}" is FILLING its window: {answer.progress:.0%} of its history read',
                hint="ask again in a moment",
            )
