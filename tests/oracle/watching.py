"""A rig whose every query has subscribers, with snapshots, restarts, pauses, retention and compaction in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.cycle.commits import CommitRecord
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.views.results import Event
from penstock.views.standing_queries import Intervals
from tests.oracle import compare
from tests.oracle.commands import Command, Cycle, DropQuery
from tests.oracle.compare import Answer
from tests.oracle.rig import Rig
from tests.oracle.timeline import Knowledge, Timeline, replay

KEEP = 12
# Snapshots and forgetting belong to the story, which is too short for the usual numbers.
INTERVALS = Intervals(snapshot_cycles=7, trim_cycles=3, replaced_s=0.0)


@dataclass
class Follower:
    """One subscriber that reads now and then, and comes back after a restart where it left off."""

    name: str
    changes: bool
    subscription: Subscription
    seen: int = 0  # the last cycle it has been told about; 0 before the first answer
    held: Answer = field(default_factory=Counter)  # what replaying the changes gives
    knowledge: Knowledge | None = None  # of a plain one, since it subscribed


class WatchingRig(Rig):
    """Compares not only the newest answers but every kept cycle, and all that subscribers get."""

    def __init__(self, folder: Any, seed: int) -> None:
        self.paused: set[str] = set()
        self.filling: set[str] = set()
        self.followers: list[Follower] = []
        self.events = 0
        self.line = Timeline()
        super().__init__(folder, seed)

    def open(self) -> None:
        self.line.world = self.world
        settings = Settings(data=str(self.folder), group_commit_ms=0, cycles_keep=KEEP, compact_after_segments=2)
        self.db = Database(settings, self.clock, self._engine, INTERVALS)
        self.db.start()
        self._note(self.db.engine.commits.last)
        # Its thread would merge at moments that no seed repeats; this rig calls it by hand.
        self.db.housekeeper.close()
        self.db.idle_queries.close()

    def restart(self) -> None:
        super().restart()
        for follower in self.followers:
            if follower.seen < self.db.standing.feed.oldest() and follower.seen:
                # Its query rested for long, and the server has forgotten what this subscriber was told.
                with pytest.raises(PenstockError, match="no longer kept"):
                    self._subscribe(follower.name, follower.seen + 1, follower.changes)
                follower.seen, follower.held = 0, Counter()
            start = follower.seen + 1 if follower.seen else None
            if follower.seen and follower.changes:
                # Retention may have taken rows while it was away; of that it is not told.
                follower.held = self.line.expected(follower.name, follower.seen)
            follower.subscription = self._subscribe(follower.name, start, follower.changes)
            follower.knowledge = None

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
        assert record is not None
        if record.cycle in self.line.offsets:
            return
        state = self.db.standing.store.state
        self.paused = {name for name, definition in state.queries.items() if definition.paused}
        self.filling = {name for name, definition in state.queries.items() if definition.id in record.end.fill}
        self.line.note(record.cycle, record.end, self.filling, self.paused)

    # -- comparing

    def compare(self, everything: bool = False) -> None:
        standing = self.db.standing
        last = standing.store.cycle
        live = self.world.live_queries(self.line.journal)
        assert sorted(live) == sorted(standing.store.state.queries)
        oldest = max(standing.feed.oldest(), min(self.line.windows))
        for name in live:
            if name in self.line.resting:
                if name in self.paused:
                    with pytest.raises(PenstockError, match="PAUSED"):
                        standing.invoke(name)
                continue
            assert not (everything and name in self.filling), f"{name} never finished filling"
            self._compare_at(name, last, None)
            kept = [c for c in range(oldest, last + 1) if name in self.line.answering[c]]
            for cycle in kept if everything else self.random.sample(kept, min(2, len(kept))):
                self._compare_at(name, cycle, cycle)
            gone = name not in self.db.catalog.state.queries
            if len(kept) > 1 and not gone and (everything or self.random.random() < 0.2):
                self._resume_from(name, self.random.choice(kept[:-1]), last)

    def _compare_at(self, name: str, cycle: int, as_of: int | None) -> None:
        found = self.db.standing.invoke(name, as_of)
        assert found.cycle == cycle
        self._same(
            self.line.expected(name, cycle), compare.rows_of(found.table), f"{name} as of {as_of}, cycle {cycle}"
        )
        self.compared += 1

    def _same(self, expected: Answer, found: Answer, what: str) -> None:
        wrong = compare.difference(expected, found)
        assert wrong is None, f"{what}: {wrong}"

    def _resume_from(self, name: str, seen: int, last: int) -> None:
        for changes in (False, True):
            subscription = self._subscribe(name, seen + 1, changes)
            follower = Follower(name, changes, subscription, seen)
            follower.held.update(self.line.expected(name, seen) if changes else {})
            self._read(follower)
            assert follower.seen == last
            subscription.close()

    # -- subscribers

    def _subscribe(self, name: str, from_cycle: int | None, changes: bool) -> Subscription:
        # Not by the database's own method, which waits for definitions that this story has not come to.
        return Subscription(self.db.standing, name, from_cycle, changes)

    def _greet(self) -> None:
        followed = {follower.name for follower in self.followers}
        for name in self.line.windows[self.db.standing.store.cycle]:
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
        if name not in self.line.windows[self.db.standing.store.cycle]:
            return
        while True:
            before, oldest = follower.seen, self.db.standing.feed.oldest()
            event = self._next(follower)
            seen = follower.subscription.cycle
            least: Answer = Counter()
            most: Answer = Counter()
            if not follower.seen and seen:
                least = most = self.line.expected(name, seen)
                follower.knowledge = Knowledge(self.line, name, seen)
            elif not follower.changes and before:
                knows = follower.knowledge = follower.knowledge or Knowledge(self.line, name, before)
                # What it missed while its query rested comes with the first cycle that has an answer.
                for cycle in range(max(before + 1, oldest), seen + 1):
                    if name in self.line.answering[cycle]:
                        # Of a rest longer than cycles are kept, what came and went in it may be forgotten.
                        passed = before >= oldest
                        least.update(self.line.entered(name, cycle, before, passed, knows.perhaps))
                        most.update(self.line.entered(name, cycle, before, known=knows.surely))
                        knows.step(cycle, before)
                        before = cycle
            told = compare.rows_of(event.table) if event is not None else Counter()
            what = f"{name} from cycle {follower.seen} to {seen}"
            moved, follower.seen = seen > follower.seen, seen
            if not follower.changes:
                self._same(told | least, told, f"subscriber to {what}, who missed something")
                self._same(told & most, told, f"subscriber to {what}, who got too much")
            else:
                replay(follower.held, told)
                if moved:
                    self._same(self.line.expected(name, seen), follower.held, f"changes of {what}")
            if event is None:
                if name not in self.line.resting:
                    assert seen == self.db.standing.store.cycle
                return
            assert event.cycle == seen
            self.events += 1

    def _next(self, follower: Follower) -> Event | None:
        try:
            return follower.subscription.next(0)
        except PenstockError as refused:
            if "retention has taken" in refused.message:
                follower.subscription = self._subscribe(follower.name, None, follower.changes)
                follower.seen, follower.held, follower.knowledge = 0, Counter(), None
                return self._next(follower)
            assert follower.name in self.paused and "PAUSED" in refused.message, refused
            return None
