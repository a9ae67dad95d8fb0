"""Push of queries outside the shared pass: what each evaluation changed against the one before."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa

from penstock.errors import error
from penstock.queries.held import answered_otherwise
from penstock.queries.results import Event
from penstock.queries.spark_queries import Evaluated, SparkQueries
from penstock.queries.standing import StandingQueries
from penstock.queries.subscription import Waiting, with_operation


class SparkSubscription(Waiting):
    """Rows that are new since the last evaluation this subscriber saw, or net changes.

    An evaluation stands for its cycle and all up to the next one. `from_cycle` n skips the current answer and begins
    with what cycle n brought: against the evaluation before it, which has to be among those that are kept.
    """

    def __init__(
        self,
        queries: SparkQueries,
        standing: StandingQueries,
        query_id: int,
        name: str,
        from_cycle: int | None,
        changes: bool,
    ) -> None:
        super().__init__(standing.feed)
        self._queries = queries
        self._standing = standing
        self._id = query_id
        self._name = name
        self._changes = changes
        self._from_cycle = from_cycle
        self._seen: Evaluated | None = None
        if from_cycle is not None and self._is_reached(from_cycle):
            self._seen = self._before(from_cycle)

    @property
    def cycle(self) -> int:
        return self._seen.cycle if self._seen is not None else 0

    def _is_reached(self, cycle: int) -> bool:
        last = self._feed.last()
        return last is not None and last.cycle >= cycle - 1

    def _before(self, cycle: int) -> Evaluated | None:
        """The answer that stood before a cycle; None where the query has none yet."""
        kept = self._queries.kept(self._id)
        if not kept:
            return None
        found = [e for e in kept if e.cycle < cycle]
        if not found:
            raise error(
                "cycle_gone",
                cycle=cycle - 1,
                oldest=kept[0].cycle,
                hint="subscribe again without FROM CYCLE: that begins with the current answer",
            )
        return found[-1]

    def next(self, timeout_s: float) -> Event | None:
        deadline = time.monotonic() + timeout_s
        if self._is_closed():
            return None
        self._check_way()
        if self._seen is None:
            if self._from_cycle is None:
                return self._first(timeout_s)
            if not self._begin_at(self._from_cycle, timeout_s):
                return None
        while self._feed.wait(lambda: self._is_closed() or self._fresh(), max(0.0, deadline - time.monotonic())):
            event = None if self._is_closed() else self._step()
            if event is not None or self._is_closed():
                return event
        return None

    def _check_way(self) -> None:
        """A query that cycles answer since it was changed is not evaluated here again."""
        with self._standing.locked() as store:
            if self._id in store.state.queries_by_id and not store.is_sparks(self._id):
                raise answered_otherwise(store.cycle)

    def _first(self, timeout_s: float) -> Event | None:
        """The current answer."""
        self._seen = self._queries.answer_within(self._id, self._name, timeout_s)
        if self._seen is None:
            return None
        rows = self._seen.table
        return Event(self._seen.cycle, self._seen.now_us, with_operation(rows, "+") if self._changes else rows)

    def _begin_at(self, cycle: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        if not self._feed.wait(lambda: self._is_closed() or self._is_reached(cycle), timeout_s) or self._is_closed():
            return False
        if self._queries.answer_within(self._id, self._name, max(0.0, deadline - time.monotonic())) is None:
            return False
        self._seen = self._before(cycle)
        return True

    def _fresh(self) -> bool:
        found = self._queries.answer_within(self._id, self._name, 0.0)
        return found is not None and found is not self._seen

    def _step(self) -> Event | None:
        before = self._seen
        assert before is not None
        # One by one, so that each new value of an aggregate is told.
        later = [e for e in self._queries.kept(self._id) if e.cycle > before.cycle]
        found = later[0] if later else self._queries.answer(self._id, self._name)
        self._seen = found
        if found.table is before.table:  # the same answer, for a later cycle
            return None
        entered, left = _difference(before.table, found.table)
        if self._changes:
            entered = pa.concat_tables([with_operation(left, "-"), with_operation(entered, "+")])
        return Event(found.cycle, found.now_us, entered) if entered.num_rows else None


def _difference(old: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(rows only in new, rows only in old), as multisets."""
    olds, news = [_key(r) for r in old.to_pylist()], [_key(r) for r in new.to_pylist()]
    extra_new, extra_old = Counter(news) - Counter(olds), Counter(olds) - Counter(news)
    return _pick(new, news, extra_new), _pick(old, olds, extra_old)


def _key(row: dict[str, object]) -> str:
    return repr(sorted(row.items()))


def _pick(table: pa.Table, keys: list[str], wanted: Counter[str]) -> pa.Table:
    left = Counter(wanted)
    chosen = []
    for index, key in enumerate(keys):
        if left[key] > 0:
            left[key] -= 1
            chosen.append(index)
    return table.take(pa.array(chosen, pa.int64()))
