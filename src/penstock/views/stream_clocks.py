"""NOW of streams and queries as of a committed cycle, from the newest reading of each static version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.cycle.offset import Offset
from penstock.expr.evaluate import evaluate_static
from penstock.expr.expression import Expr
from penstock.sql.plan import stream_uses
from penstock.views.query_state import NEVER, QueryState

MASKS_KEPT = 256


class StreamClocks:
    """NOW of streams and queries as of the last committed cycle."""

    def __init__(self, beside: Callable[[], CatalogState] | None = None) -> None:
        self.state = CatalogState(beside)
        self.answers: dict[int, QueryState] = {}
        self.offset: Offset | None = None
        self.newest: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}
        self.heard: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}  # NOW of the cycle that brought the newest
        self.rows: dict[int, int] = {}
        self._masks: dict[tuple[int, Expr], np.ndarray[Any, np.dtype[np.bool_]]] = {}

    def _take_newest(
        self, table_id: int, rows: int, payload: bytes, now_us: int
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The versions that have a newer reading now."""
        vids, times = np.split(np.frombuffer(payload, np.int64), 2)
        size = int(vids.max()) + 1 if len(vids) else 0
        newest = _grown(self.newest.get(table_id), size)
        newest[vids] = np.maximum(newest[vids], times)
        heard = _grown(self.heard.get(table_id), size)
        heard[vids] = np.maximum(heard[vids], now_us)
        self.newest[table_id], self.heard[table_id] = newest, heard
        self.rows[table_id] = self.rows.get(table_id, 0) + rows
        return vids

    def now_of(self, table: Table, static_predicate: Expr | None) -> int | None:
        """NOW of a stream: the cycle's for transaction time, the newest passing reading's for valid time."""
        if self.offset is None:
            return None
        if table.options.time == "transaction":
            return self.offset.now_us
        newest = self.newest.get(table.id)
        if newest is None:
            return None
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            newest = newest[: len(mask)][mask[: len(newest)]]
        latest = int(newest.max(initial=NEVER))
        return latest if latest > NEVER else None

    def passing(self, table_id: int, predicate: Expr) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which static versions a predicate lets through, by vid."""
        known = self._masks.get((table_id, predicate))
        versions = self.state.rows(table_id)
        if known is None or len(known) < versions.count:
            known = evaluate_static(predicate, versions.versions())
            if len(self._masks) >= max(MASKS_KEPT, 2 * len(self.answers)):
                self._masks.clear()  # every one-shot question leaves one; those of standing queries are made again
            self._masks[(table_id, predicate)] = known
        return known

    def heard_sids(self, table_id: int, predicate: Expr | None) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Sensors with at least one reading of a static version that passes."""
        vids = np.flatnonzero(self.newest.get(table_id, np.empty(0, np.int64)) > NEVER)
        if predicate is not None:
            vids = vids[self.passing(table_id, predicate)[vids]]
        return np.unique(self.state.rows(table_id).sids[vids])

    def is_idle(self, table: Table, static_predicate: Expr | None) -> bool:
        """Whether every sensor of a stream has ended, or has sent nothing for the idle time before the cycle's NOW."""
        heard = self.heard.get(table.id)
        if heard is None or self.offset is None:
            return False
        ended = self.state.ended(table.id)
        if ended:
            sids = self.state.rows(table.id).sids[: len(heard)]
            heard = np.where(np.isin(sids, list(ended)), NEVER, heard[: len(sids)])
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            heard = heard[: len(mask)][mask[: len(heard)]]
        return self.offset.now_us - int(heard.max(initial=NEVER)) > table.options.idle_us

    def query_now(self, answer: QueryState) -> int | None:
        return self.now_of_streams([(u.table_id, u.static_predicate) for u in stream_uses(answer.plan)])

    def now_of_streams(self, streams: Sequence[tuple[int, Expr | None]]) -> int | None:
        """NOW of a query: the smallest over its streams; those that are idle do not hold it back."""
        uses = [(self.state.tables_by_id[table_id], predicate) for table_id, predicate in streams]
        nows = [self.now_of(*u) for u in uses]
        known = [n for n in nows if n is not None]
        if len(known) < len(nows):
            return None
        if len(known) == 1:
            return known[0]
        awake = [n for n, u in zip(known, uses, strict=True) if not self.is_idle(*u)]
        return min(awake) if awake else max(known)


def _grown(known: np.ndarray[Any, np.dtype[np.int64]] | None, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A copy for `size` versions: readers keep the array they have."""
    if known is None:
        return np.full(size + 64, NEVER)
    return np.concatenate([known, np.full(max(0, size - len(known)), NEVER)])
