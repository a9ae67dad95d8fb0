"""Push: the events of one subscriber, cycle by cycle. They are computed on request, so slow readers use no memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.errors import error
from penstock.operators.base.answer import AnswerAt, Ids, answered_otherwise
from penstock.operators.base.finality import check_has_final_rows, final_to
from penstock.operators.base.view import Budget
from penstock.operators.select.delivered_windows import DeliveredWindows
from penstock.views.results import Event
from penstock.views.standing_queries import StandingQueries


class Subscription:
    """One subscriber to a query.

    Plain: the current answer, then every row that enters, once. With changes: net changes per cycle with `op`. `final`: the rows that
    are final, then every row in the cycle in which it becomes final. `from_cycle` n skips the current answer and begins with what cycle n brought.
    """

    def __init__(
        self, standing: StandingQueries, name: str, from_cycle: int | None, changes: bool, final: bool = False
    ) -> None:
        self._feed = standing.feed
        self.closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._standing = standing
        self.name = name
        self._changes = changes
        self._final = final
        self._finality = standing.final_rows(name)
        self._before: AnswerAt | None = None
        self._told = DeliveredWindows()
        self._inside: Ids = np.empty(0, np.int64)  # kept for changes only
        self._from_cycle = from_cycle
        self._rested = False
        self._skips = False
        standing.follow(self)
        last = standing.feed.last()
        if from_cycle is not None and last is not None and from_cycle <= last.cycle + 1:
            self._begin_at(from_cycle)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back, from any thread, whenever `next(0)` may have an event: a thousand subscribers wait without a thread each."""
        self._callbacks.append(callback)
        self._feed.listen(callback)
        callback()

    @property
    def budget(self) -> Budget:
        """Which share of a processor its events come from, if they may wait."""
        return self._standing.budget(self.name)

    @property
    def may_skip_cycles(self) -> bool:
        """Whether `skip_cycles` has an effect."""
        before = self._before
        net = before is not None and before.stretch is not None and (before.net_changes or not self._changes)
        return net and not (self._final and before is not None and before.finishes_later)

    def skip_cycles(self) -> None:
        """Have the next event tell of all cycles up to the newest one: the net change, or each row that entered in any of them.

        No pane is missed: where one has left the window meanwhile, the event is of the last cycle that had it.
        """
        self._skips = self.may_skip_cycles

    def _is_closed(self) -> bool:
        return self.closed or self._feed.closed

    def close(self) -> None:
        self.closed = True
        for callback in self._callbacks:
            self._feed.unlisten(callback)
        self._feed.wake()

    def _begin_at(self, cycle: int) -> None:
        """The cycle before must be known, so that new rows can be distinguished from older ones."""
        if self._final and cycle > 2:
            self._feed.mark(cycle - 2)  # readers of queries have the watermarks of one cycle more before
        held = self._standing.held(self.name, cycle - 1)
        if self._changes:
            self._inside = held.inside()
        self._before = held
        held.begin(self._told)

    @property
    def cycle(self) -> int:
        """Everything up to this cycle was given, rows or none."""
        return self._before.cycle if self._before is not None else 0

    def next(self, timeout_s: float) -> Event | None:
        """Wait for the next event; None where none came in time. Raises query_not_found after the last one of a dropped query."""
        deadline = time.monotonic() + timeout_s
        if self._is_closed():
            return None
        if self._before is None and self._from_cycle is None:
            return self._first(timeout_s)
        if self._before is None and self._from_cycle is not None:
            if not self._feed.wait_past(self._from_cycle - 2, timeout_s):
                return None
            self._begin_at(self._from_cycle)
        try:
            while self._feed.wait(self._is_due, max(0.0, deadline - time.monotonic())):
                event = None if self._is_closed() else self._step()
                if event is not None or self._is_closed():
                    return event
            return None
        finally:
            self._skips = False

    def _is_due(self) -> bool:
        """Whether a cycle is there to tell about. A query that rests is waited for: then nothing it missed is lost."""
        newest = self._standing.newest_cycle(self.name)
        if self._is_closed() or newest is None or newest <= self.cycle:
            return self._is_closed()
        resting = self._standing.is_resting(self.name)
        self._rested = self._rested or resting
        return not resting

    def _first(self, timeout_s: float) -> Event | None:
        """The current answer; complete, so a query that fills its window is waited for, cycle by cycle."""
        if not self._standing.is_ready(self.name, timeout_s):
            return None
        held = self._standing.held(self.name, None)
        self._before = held
        if self._final and held.finishes_later:
            return self._made_of(held, held.final_rows())
        if not self._changes:
            return self._event(held, held.first(self._told), None)
        # The net of all that a query keeps is its answer.
        self._inside = held.inside()
        held.begin(self._told)
        return self._event(held, self._inside, None)

    def _step(self) -> Event | None:
        """What one more cycle brought; None where it brought nothing."""
        before = self._before
        assert before is not None
        held = self._after(before)
        if held is None:
            return None
        self._before = held
        if self._final and held.finishes_later:
            self._finality = self._standing.final_rows(self.name)
            check_has_final_rows(self.name, self._finality)  # its window or the lateness of a table may have changed
            event = self._made_final(held, before)
            return event if event.table.num_rows else None
        left: pa.Table | None = None
        if self._changes:
            self._inside, entered, left = held.changed(before, self._inside)
        else:
            entered = held.undelivered(before, self._told)
        return self._event(held, entered, left) if len(entered) or (left is not None and left.num_rows) else None

    def _after(self, before: AnswerAt) -> AnswerAt | None:
        """The answer one cycle on, or more where cycles are skipped; None where the query rests after all."""
        with self._standing.locked() as store:
            if not store.knows(before.query_id):
                raise error("query_not_found", query=self.name)
            self._standing.check_failed(self.name)
            if self._standing.is_resting(self.name):
                return None
            newest = self._standing.held(self.name) if self._skips else None
            if newest is None or newest.stretch != before.stretch:
                if not self._rested:
                    self._feed.mark(before.cycle + 1)  # a reader that is too slow gets an error
                # While it rested there were no answers; all that came meanwhile comes with the first one.
                cycle = self._standing.next_answer(before.query_id, before.cycle)
                held = self._standing.held(self.name, cycle)
                # Rows that a new window brings are those of its first cycle; a net change may begin anywhere.
                reaches = newest.cycle if newest is not None and before.net_changes else held.cycle
                newest = self._last_of_stretch(held, reaches)
            self._rested = False
            if newest.operator != before.operator:
                raise answered_otherwise(newest.cycle)
            return newest

    def _last_of_stretch(self, held: AnswerAt, newest: int) -> AnswerAt:
        """The last answer, up to the newest one, of the same stretch."""
        found, end = held, newest + 1
        while found.cycle + 1 < end:
            middle = (found.cycle + end) // 2
            cycle = self._standing.next_answer(held.query_id, middle - 1)
            later = self._standing.held(self.name, cycle) if cycle is not None and cycle < end else None
            if later is not None and later.stretch == held.stretch:
                found = later
            else:
                end = middle
        return found

    def _made_final(self, held: AnswerAt, before: AnswerAt) -> Event:
        """The rows that became final since the event before. Subscribers to them share it."""
        key = (held.query_id, held.cycle, held.floors, "final", before.cycle)
        return self._standing.events.get(key, lambda: self._made_of(held, held.rows_made_final(before)))

    def _event(self, held: AnswerAt, entered: Ids, left: pa.Table | None) -> Event:
        if left is not None and left.num_rows:
            return self._made(held, entered, left)
        # Rows of ids depend on the cycle as well: a join numbers its results again when it reads its history again.
        key = (held.query_id, held.cycle, held.floors, self._changes, entered.tobytes())
        return self._standing.events.get(key, lambda: self._made(held, entered, None))

    def _made(self, held: AnswerAt, entered: Ids, left: pa.Table | None) -> Event:
        rows = held.rows(entered)
        if self._changes:
            rows = with_operation(rows, "+")
            if left is not None and left.num_rows:
                rows = pa.concat_tables([with_operation(left, "-"), rows])
        return self._made_of(held, rows)

    def _made_of(self, held: AnswerAt, rows: pa.Table) -> Event:
        behind = self._standing.behind_of(self.name)
        return Event(held.cycle, held.now_us, rows, final_to(self._finality, held), behind)


def with_operation(rows: pa.Table, operation: str) -> pa.Table:
    return rows.add_column(0, "op", pa.repeat(pa.scalar(operation), rows.num_rows))
