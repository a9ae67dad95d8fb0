"""complete_from: the time from which an answer has all rows, where that is later than the beginning of its window.

An answer is incomplete where retention deleted readings, or where a sensor was not open yet. On a transaction-time
table a sensor is complete from its opening on. On a valid-time table the time of the opening is unrelated to the
times of the data: there a sensor is complete from its first reading after the opening on, and a sensor without
readings since then is not considered.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.answers.first_readings import FirstReadings
from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.join.readers import told_from
from penstock.operators.sparksql.moments import streams_of
from penstock.sql.plan import Plan, all_windows
from penstock.streams.sources.manager import surviving
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries


class Completeness:
    """Computes complete_from of answers."""

    def __init__(self, standing: StandingQueries) -> None:
        self._standing = standing
        self._first_readings = FirstReadings(standing.folder.log)

    def say(self, result: Result, plan: Plan, start_us: int | None, state: CatalogState) -> Result:
        """The result with complete_from, where that lies inside the window."""
        spans = [w for w in all_windows(plan) if isinstance(w, TimeWindow)]
        if not spans or result.now_us is None:
            return result
        if start_us is None and any(w.begin.anchor == "start" for w in spans):
            # It came before the first reading, so all there ever was is asked for: only retention can have cut that.
            kept_us = self._kept_from(plan) if result.rolled_up is None else result.rolled_up.kept_from_us
            return replace(result, complete_from_us=kept_us) if (kept_us or -FOREVER) > -FOREVER else result
        start = start_us if start_us is not None else result.now_us
        begin = min(w.resolve(result.now_us, start)[0] for w in spans)
        if begin <= -FOREVER:
            return result  # all that is kept was asked for, and that is what there is
        rolled_up = result.rolled_up
        kept_us = self._kept_from(plan) if rolled_up is None else rolled_up.kept_from_us
        rolled = rolled_up is not None and bool(rolled_up.notices)
        known = [kept_us, *(self._observed_from(t, p, state, rolled) for t, p in _streams(plan, state))]
        known.append(told_from(plan, start_us, state))
        latest = max((t for t in known if t is not None), default=begin)
        return replace(result, complete_from_us=latest) if latest > begin else result

    def forget(self, table_id: int) -> None:
        """The table was dropped."""
        self._first_readings.forget(table_id)

    def _kept_from(self, plan: Plan) -> int | None:
        """Since when nothing that the plan reads has been thrown away; None where nothing ever was."""
        kept: list[int] = []
        with self._standing.locked() as store:
            latch = plan.aggregation if plan.latch is not None else None
            if latch is not None:  # or it was dropped
                return store.slices.latch_of(latch).kept_from_us if store.slices.keeps(latch) else None
            for table, _ in _streams(plan, store.state):
                if table.options.retention_us is None or not store.state.retention(table.id):
                    continue
                # A row goes when it is older than this at the table's own NOW, whatever the query's NOW is.
                now_us = store.now_of(table, None)
                if now_us is not None:
                    kept.append(now_us - table.options.retention_us)
        return max(kept, default=None)

    def _observed_from(self, table: Table, predicate: Expr | None, state: CatalogState, rolled: bool) -> int | None:
        """Since when every sensor that passes has been observed without a break, in the table's own time.

        Where a rollup has what the log has no more (`rolled`), it has the first readings of sensors that are as old, too.
        """
        seen = state.observations(table.id)
        opened: dict[int, int] = {}
        for sid in surviving(predicate, state.rows(table.id)).tolist():
            spans = seen.get(sid)
            if spans and spans[-1][1] is None:
                opened[sid] = spans[-1][0]
        if table.options.time == "transaction":
            return max(opened.values(), default=None)
        begins_us = self._first_readings.begins(table.id) if rolled else None
        if begins_us is not None:
            opened = {sid: us for sid, us in opened.items() if us > begins_us}
        return self._first_readings.latest(table.id, opened, state.rows(table.id).sids)


def _streams(plan: Plan, state: CatalogState) -> list[tuple[Table, Expr | None]]:
    found = streams_of(plan, state)
    return [(state.tables_by_id[table_id], p) for table_id, p in found if table_id in state.tables_by_id]
