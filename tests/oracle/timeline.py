"""The oracle at every cycle: what a query's answer is as of each of them, and what its subscribers are owed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from penstock.cycle.offset import Offset
from tests.oracle.compare import Answer
from tests.oracle.model import World, project
from tests.oracle.questions import LastRows, Query, TimeSpan, WindowSpec


class Timeline:
    """Committed cycles in order, each with its offset and the windows that an invocation sees.

    `journal` is the newest one: what retention has taken since is gone from older answers too.
    """

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.offsets: dict[int, Offset] = {}
        self.windows: dict[int, dict[str, WindowSpec]] = {}
        self.answering: dict[int, set[str]] = {}
        self.resting: set[str] = set()
        self.journal = 0

    def note(self, cycle: int, end: Offset, filling: AbstractSet[str], paused: AbstractSet[str] = frozenset()) -> None:
        """Take in a cycle. A changed window holds as soon as its history is read; before its first history is
        read, and while it is paused, a query answers nothing."""
        before = self.windows.get(cycle - 1, {})
        now: dict[str, WindowSpec] = {}
        for name in self.world.live_queries(end.journal):
            window = self.world.definition(name, end.journal)[0].window
            assert window is not None
            now[name] = before[name] if name in filling | paused and name in before else window
        self.resting = {n for n in now if n in paused or (n in filling and (n not in before or n in self.resting))}
        self.offsets[cycle], self.windows[cycle], self.journal = end, now, max(self.journal, end.journal)
        self.answering[cycle] = now.keys() - self.resting

    def question(self, name: str, cycle: int) -> tuple[Query, int | None]:
        """The query as it stood, with its START."""
        query, start = self.world.definition(name, self.offsets[cycle].journal)
        return query.with_window(self.windows[cycle][name]), start

    def inside(self, name: str, cycle: int) -> list[dict[str, Any]]:
        query, start = self.question(name, cycle)
        offset = self.offsets[cycle]
        return self.world.inside(query, offset.data, offset.now_us, start, self.journal)

    def expected(self, name: str, cycle: int) -> Answer:
        return project(self.question(name, cycle)[0], self.inside(name, cycle))

    def entered(
        self, name: str, cycle: int, since: int, passed: bool = True, known: AbstractSet[int] = frozenset()
    ) -> Answer:
        """What a plain subscriber is owed for a cycle; not again what it knows, by position."""
        rows = self.came_in(name, cycle, since, passed)
        return project(self.question(name, cycle)[0], [row for position, row in rows.items() if position not in known])

    def came_in(self, name: str, cycle: int, since: int, passed: bool = True) -> dict[int, dict[str, Any]]:
        """What is inside now and was not, and what has come and gone; by position."""
        was = {row["_pos"] for row in self.inside(name, since)}
        rows = {row["_pos"]: row for row in self.inside(name, cycle)}
        if passed:
            rows |= {row["_pos"]: row for row in self._came_and_went(name, since, cycle)}
        return {position: row for position, row in rows.items() if position not in was}

    def _came_and_went(self, name: str, since: int, cycle: int) -> list[dict[str, Any]]:
        """Rows that the window has swept over since an earlier cycle, as it stood then."""
        before, after = self.offsets[since], self.offsets[cycle]
        query, start = self.question(name, since)
        every = self.world.inside(query.with_window(LastRows(10**9)), after.data, after.now_us, start, self.journal)
        if isinstance(query.window, LastRows):
            counted = self.world.passing_static(query, after.data, self.journal)
            first = before.data.get(self.world.table_id(query.table.name), 0)
            fresh = [row for row in every if row["_pos"] >= first]
            return [row for row in fresh if _rank(row, counted, query.window) < query.window.count]
        low, high = self._span(query, start, after)
        low = min(low, self._span(query, start, before)[0])
        return [row for row in every if low <= row["ts"] <= high]

    def _span(self, query: Query, start: int | None, offset: Offset) -> tuple[float, float]:
        assert isinstance(query.window, TimeSpan)
        now = self.world.now_of(query, offset.data, offset.now_us)
        moment, began = (float("-inf") if at is None else at for at in (now, start))
        return query.window.begin.at(moment, began), query.window.end.at(moment, began)


def _rank(row: dict[str, Any], counted: list[dict[str, Any]], window: LastRows) -> int:
    """How many rows were newer when this one came."""
    return sum(
        other["_pos"] < row["_pos"]
        and other["ts"] > row["ts"]
        and (not window.per_sensor or other["_sid"] == row["_sid"])
        for other in counted
    )


class Knowledge:
    """What a plain subscriber knows, by position: a row is told once. Whatever a window of rows showed may come again."""

    def __init__(self, line: Timeline, name: str, cycle: int) -> None:
        self._line, self._name = line, name
        self.surely: set[int] = set()
        self.perhaps: set[int] = set()
        self._take(cycle, cycle, set())

    def step(self, cycle: int, since: int) -> None:
        """It was told of a cycle."""
        self._take(cycle, since, set(self._line.came_in(self._name, cycle, since)))

    def _take(self, cycle: int, since: int, came: set[int]) -> None:
        inside = {row["_pos"] for row in self._line.inside(self._name, cycle)}
        self.perhaps |= came | inside
        after, before = (isinstance(self._line.windows[c][self._name], LastRows) for c in (cycle, since))
        self.surely |= (set() if after else inside) | (set() if after or before else came)


def replay(held: Answer, changes: Answer) -> None:
    for (operation, *row), count in changes.items():
        held[tuple(row)] += count if operation == "+" else -count
    for row in [row for row, count in held.items() if count == 0]:
        del held[row]
    assert all(count > 0 for count in held.values()), "a row left that was never there"
