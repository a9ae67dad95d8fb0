"""A rig whose every query has subscribers, with snapshots, restarts, pauses, retention and compaction in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.pipeline.commits import CommitRecord
from penstock.pipeline.offset import Offset
from penstock.queries.database import Database
from penstock.queries.results import Event
from penstock.queries.subscription import SelectSubscription
from penstock.settings import Settings
from tests.oracle import compare
from tests.oracle.compare import Answer
from tests.oracle.generate import Command, Cycle, DropQuery
from tests.oracle.model import project
from tests.oracle.questions import LastRows, Query, TimeSpan, WindowSpec
from tests.oracle.rig import Rig

KEEP = 12


@dataclass
class Follower:
    """One subscriber that reads now and then, and comes back after a restart where it left off."""

    name: str
    changes: bool
    subscription: SelectSubscription
    seen: int = 0  # the last cycle it has been told about; 0 before the first answer
    held: Answer = field(default_factory=Counter)  # what replaying the changes gives


class WatchingRig(Rig):
    """Compares not only the newest answers but every kept cycle, and all that subscribers get."""

    def __init__(self, folder: Any, seed: int) -> None:
        self.offsets: dict[int, Offset] = {}
        self.windows: dict[int, dict[str, WindowSpec]] = {}  # by cycle: what an invocation sees
        self.waiting: set[str] = set()  # queries that answer nothing: paused, or never filled yet
        self.paused: set[str] = set()
        self.filling: set[str] = set()
        self.followers: list[Follower] = []
        self.events = 0
        super().__init__(folder, seed)

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0, cycles_keep=KEEP, compact_after_segments=2)
        self.db = Database(settings, self.clock, engine=self._engine)
        self.db.start()
        self._note(self.db.engine.commits.last)
        # Its thread would merge at moments that no seed repeats; this rig calls it by hand.
        self.db.housekeeper.close()
        self.db.housekeeper.compactor._grace_s = 0.0

    def restart(self) -> None:
        super().restart()
        for follower in self.followers:
            start = follower.seen + 1 if follower.seen else None
            follower.subscription = self._subscribe(follower.name, start, follower.changes)

    # -- the story, with what the script does not know about

    def step(self, command: Command) -> None:
        if isinstance(command, DropQuery) and command.name not in self.left_out:
            self._end_followers(command.name)
        super().step(command)
        if isinstance(command, Cycle):
            self._disturb()

    def _disturb(self) -> None:
        match self.random.randrange(12):
            case 0:
                self._pause_or_resume()
            case 1:
                self._retain()
            case 2 | 3:
                for table in self.db.catalog.state.tables_by_id:
                    self.db.housekeeper.tend(table)

    def _pause_or_resume(self) -> None:
        names = sorted(self.db.catalog.state.queries)
        if names:
            name = self.random.choice(names)
            word = "RESUME" if self.db.catalog.state.queries[name].paused else "PAUSE"
            self.db.execute(f"ALTER QUERY {name} {word}")

    def _retain(self) -> None:
        """As the housekeeper would: never what a cycle still needs, and files go after the mark is committed."""
        self.follow(everybody=True)
        for table in self.db.catalog.state.tables_by_id.values():
            position = self.random.randint(0, self.db.standing.protected(table.id))
            if position > self.db.standing.retained(table.id):
                self.db.catalog.retain(table.id, position)
                self.world.retain(table.name, position, self.db.catalog.state.position)

    def run(self, commands: list[Command]) -> None:
        try:
            super().run(commands)
            for name in sorted(self.paused):
                self.db.execute(f"ALTER QUERY {name} RESUME")
            while self.cycle() is not None:
                pass
            self.follow(everybody=True)
            self.compare(everything=True)
        finally:
            for follower in self.followers:
                follower.subscription.close()

    # -- cycles

    def cycle(self) -> object:
        record = super().cycle()
        if isinstance(record, CommitRecord):
            self._note(record)
            self._greet()
            self.follow()
        return record

    def _note(self, record: CommitRecord | None) -> None:
        """Which windows hold at a committed cycle: a changed one as soon as its history is read."""
        assert record is not None
        if record.cycle in self.offsets:
            return
        self.offsets[record.cycle] = record.end
        state, before = self.db.standing.store.state, self.windows.get(record.cycle - 1, {})
        now: dict[str, WindowSpec] = {}
        self.paused = {name for name, definition in state.queries.items() if definition.paused}
        self.filling = {name for name, definition in state.queries.items() if definition.id in record.end.fill}
        for name in self.world.live_queries(record.end.journal):
            window = self.world.definition(name, record.end.journal)[0].window
            assert window is not None
            settled = name not in self.paused | self.filling
            now[name] = window if settled or name not in before else before[name]
            if settled:
                self.waiting.discard(name)
            elif name not in before or name in self.paused:
                self.waiting.add(name)
        self.windows[record.cycle] = now

    # -- the oracle, at any kept cycle

    def question(self, name: str, cycle: int) -> tuple[Query, int | None]:
        query, start = self.world.definition(name, self.offsets[cycle].journal)
        return query.with_window(self.windows[cycle][name]), start

    def inside(self, name: str, cycle: int) -> list[dict[str, Any]]:
        """Rows of an answer; what retention has taken since is gone from older answers too."""
        query, start = self.question(name, cycle)
        offset = self.offsets[cycle]
        return self.world.inside(query, offset.data, offset.now_us, start, self._journal())

    def expected(self, name: str, cycle: int) -> Answer:
        return project(self.question(name, cycle)[0], self.inside(name, cycle))

    def entered(self, name: str, cycle: int) -> Answer:
        """What a plain subscriber is owed for a cycle: what is inside now and was not, and what has come and gone."""
        query, _ = self.question(name, cycle)
        was = {row["_pos"] for row in self.inside(name, cycle - 1)}
        rows = {row["_pos"]: row for row in [*self.inside(name, cycle), *self._came_and_went(name, cycle)]}
        return project(query, [row for position, row in rows.items() if position not in was])

    def _came_and_went(self, name: str, cycle: int) -> list[dict[str, Any]]:
        """Rows that the window has swept over since the cycle before, as it stood then."""
        before, after = self.offsets[cycle - 1], self.offsets[cycle]
        query, start = self.question(name, cycle - 1)
        every = self.world.inside(query.with_window(LastRows(10**9)), after.data, after.now_us, start, self._journal())
        if isinstance(query.window, LastRows):
            counted = self.world.passing_static(query, after.data, self._journal())
            first = before.data.get(self.db.catalog.state.tables[query.table.name].id, 0)
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

    def _journal(self) -> int:
        offset = self.db.standing.store.offset
        assert offset is not None
        return offset.journal

    # -- comparing

    def compare(self, everything: bool = False) -> None:
        standing = self.db.standing
        last = standing.store.cycle
        live = self.world.live_queries(self._journal())
        assert sorted(live) == sorted(standing.store.state.queries)
        oldest = max(standing.feed.oldest(), min(self.windows))
        for name in live:
            if name in self.waiting:
                if name in self.paused:
                    with pytest.raises(PenstockError, match="PAUSED"):
                        standing.invoke(name)
                continue
            assert not (everything and name in self.filling), f"{name} never finished filling"
            self._compare_at(name, last, None)
            kept = [c for c in range(oldest, last + 1) if name in self.windows[c]]
            for cycle in kept if everything else self.random.sample(kept, min(2, len(kept))):
                self._compare_at(name, cycle, cycle)
            gone = name not in self.db.catalog.state.queries
            if len(kept) > 1 and not gone and (everything or self.random.random() < 0.2):
                self._resume_from(name, self.random.choice(kept[1:]), last)

    def _compare_at(self, name: str, cycle: int, as_of: int | None) -> None:
        found = self.db.standing.invoke(name, as_of)
        assert found.cycle == cycle
        self._same(self.expected(name, cycle), compare.rows_of(found.table), f"{name} as of {as_of}, cycle {cycle}")
        self.compared += 1

    def _same(self, expected: Answer, found: Answer, what: str) -> None:
        wrong = compare.difference(expected, found)
        assert wrong is None, f"{what}: {wrong}"

    def _resume_from(self, name: str, cycle: int, last: int) -> None:
        for changes in (False, True):
            subscription = self._subscribe(name, cycle, changes)
            follower = Follower(name, changes, subscription, cycle - 1)
            follower.held.update(self.expected(name, cycle - 1) if changes else {})
            self._read(follower)
            assert follower.seen == last
            subscription.close()

    # -- subscribers

    def _subscribe(self, name: str, from_cycle: int | None, changes: bool) -> SelectSubscription:
        # Not by the database's own method, which waits for definitions that this story has not come to.
        return SelectSubscription(self.db.standing, name, from_cycle, changes)

    def _greet(self) -> None:
        followed = {follower.name for follower in self.followers}
        for name in self.windows[self.db.standing.store.cycle]:
            if name not in followed and name not in self.paused and name in self.db.catalog.state.queries:
                for changes in (False, True):
                    self.followers.append(Follower(name, changes, self._subscribe(name, None, changes)))

    def _end_followers(self, name: str) -> None:
        for follower in [f for f in self.followers if f.name == name]:
            self.followers.remove(follower)
            follower.subscription.close()
            assert follower.subscription.next(0) is None

    def follow(self, everybody: bool = False) -> None:
        """Some read at once, some fall behind; none so far that its cycle is gone."""
        for follower in self.followers:
            behind = self.db.standing.store.cycle - follower.seen
            if everybody or behind > KEEP // 2 or self.random.random() < 0.5:
                self._read(follower)

    def _read(self, follower: Follower) -> None:
        name = follower.name
        if name not in self.windows[self.db.standing.store.cycle]:
            return
        while True:
            event = self._next(follower)
            seen = follower.subscription.cycle
            owed: Answer = Counter()
            if not follower.seen and seen:
                owed.update(self.expected(name, seen))
            elif not follower.changes:
                for cycle in range(follower.seen + 1, seen + 1):
                    owed.update(self.entered(name, cycle))
            told = compare.rows_of(event.table) if event is not None else Counter()
            what = f"{name} from cycle {follower.seen} to {seen}"
            follower.seen = seen
            if not follower.changes:
                self._same(owed, told, f"subscriber to {what}")
            else:
                _replay(follower.held, told)
                if seen:
                    self._same(self.expected(name, seen), follower.held, f"changes of {what}")
            if event is None:
                if name not in self.waiting:
                    assert seen == self.db.standing.store.cycle
                return
            assert event.cycle == seen
            self.events += 1

    def _next(self, follower: Follower) -> Event | None:
        try:
            return follower.subscription.next(0)
        except PenstockError as refused:
            assert follower.name in self.paused and "PAUSED" in refused.message, refused
            return None


def _rank(row: dict[str, Any], counted: list[dict[str, Any]], window: LastRows) -> int:
    """How many rows were newer when this one came."""
    return sum(
        other["_pos"] < row["_pos"]
        and other["ts"] > row["ts"]
        and (not window.per_sensor or other["_sid"] == row["_sid"])
        for other in counted
    )


def _replay(held: Answer, changes: Answer) -> None:
    for (operation, *row), count in changes.items():
        held[tuple(row)] += count if operation == "+" else -count
    for row in [row for row, count in held.items() if count == 0]:
        del held[row]
    assert all(count > 0 for count in held.values()), "a row left that was never there"
