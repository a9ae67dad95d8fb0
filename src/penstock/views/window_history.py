"""The window of each query at each kept cycle, stored as changes, since few queries change in a cycle."""

from __future__ import annotations

from bisect import bisect_right

from penstock.expr.windows import AnyWindow

_Change = tuple[int, AnyWindow | None]


class WindowHistory:
    """The windows of all queries by cycle. The follower changes it; a reader sees the windows of its own cycle."""

    def __init__(self) -> None:
        self._changes: dict[int, tuple[_Change, ...]] = {}
        self._several: set[int] = set()  # queries about which something can be forgotten
        self._first: tuple[_Change] = ((0, None),)  # the last one that was the first of a query

    def note(self, cycle: int, query_id: int, window: AnyWindow | None) -> None:
        """From a cycle on a query answers through a window; None: it does not answer."""
        known = self._changes.get(query_id, ())
        if (known[-1][1] if known else None) == window:
            return
        if not known:
            # A thousand queries that come together look back as far: they share what is noted.
            if self._first[0] != (cycle, window):
                self._first = ((cycle, window),)
            self._changes[query_id] = self._first
        else:
            self._changes[query_id] = (*known, (cycle, window))
        if known or window is None:
            self._several.add(query_id)

    def at(self, query_id: int, cycle: int) -> AnyWindow | None:
        """The window through which a query answers at a cycle; None: it does not answer."""
        known = self._changes.get(query_id, ())
        place = bisect_right(known, cycle, key=_cycle)
        return known[place - 1][1] if place else None

    def begin(self, query_id: int, cycle: int) -> int | None:
        """Since which cycle a query has answered through the window of a cycle."""
        known = self._changes.get(query_id, ())
        place = bisect_right(known, cycle, key=_cycle)
        return known[place - 1][0] if place else None

    def since(self, query_id: int, cycle: int) -> list[AnyWindow]:
        """All windows from a cycle on."""
        known = self._changes.get(query_id, ())
        first = max(0, bisect_right(known, cycle, key=_cycle) - 1) if len(known) > 1 else 0
        return [window for _, window in known[first:] if window is not None]

    def first_answer(self, query_id: int, after: int) -> int | None:
        """The first cycle after one at which a query answers."""
        if self.at(query_id, after + 1) is not None:
            return after + 1
        known = self._changes.get(query_id, ())
        later = (c for c, window in known if c > after and window is not None)
        return next(later, None)

    def forget(self, oldest: int) -> None:
        """Cycles before `oldest` will not be asked about again."""
        for query_id in list(self._several):
            known = self._changes[query_id]
            left = known[max(0, bisect_right(known, oldest, key=_cycle) - 1) :]
            self._changes[query_id] = left
            since, window = left[0]
            if len(left) == 1 and (window is not None or since <= oldest):
                self._several.discard(query_id)
                if window is None:
                    del self._changes[query_id]

    def clear(self) -> None:
        self._changes.clear()
        self._several.clear()


def _cycle(change: _Change) -> int:
    return change[0]
