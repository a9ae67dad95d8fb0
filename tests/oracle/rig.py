"""A world and a database side by side: the same commands for both, compared at committed cycles."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.cycle.cut import Limits
from penstock.database.database import Database
from penstock.settings import Settings
from penstock.sql.parse import parse_select
from penstock.sql.plan import SelectPlan
from penstock.sql.planning.planner import plan_query
from tests.oracle import compare
from tests.oracle.commands import Advance, AlterWindow, Command, CreateQuery, Cycle, DropQuery, Push
from tests.oracle.generate import seeded_script
from tests.oracle.making import EPOCH_US
from tests.oracle.model import World
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock


class Rig:
    """Runs one script. Cycles come in random sizes, so that every split of the same story must agree."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.after_cycle: Callable[[Database], None] = lambda db: None
        self.clock = ManualClock(EPOCH_US)
        self.random = random.Random(seed)
        self.world = World()
        self.folder = folder
        self.compared = 0
        self.left_out: set[str] = set()
        self.open()

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0)
        self.db = Database(settings, self.clock, engine=self._engine)
        self.db.start()

    def _engine(self, *arguments: Any) -> LocalEngine:
        self.engine = LocalEngine(*arguments, clock=self.clock, parallelism=self.random.randint(1, 3))
        return self.engine

    def restart(self) -> None:
        self.db.stop()
        self.open()

    def tell(self, seed: int, steps: int) -> None:
        """A random story from its beginning to its end."""
        try:
            self.run(seeded_script(seed, steps))
        except BaseException:
            print(f"failing seed: {seed}")
            raise
        finally:
            self.close()

    def run(self, commands: list[Command]) -> None:
        for command in commands:
            self.step(command)
        # The story's end: whatever still fills its window fills it now.
        for _ in range(1000):
            if self.cycle() is None:
                break
        self.compare(everything=True)

    def step(self, command: Command) -> None:
        match command:
            case Advance(us):
                self.clock.advance(us)
            case Cycle():
                self.cycle()
                if self.random.random() < 0.1:
                    self.restart()
                self.compare()
            case Push():
                expected = command.apply(self.world, self.clock.now_us())
                receipt = self.db.push(command.table.name, command.readings)
                assert receipt.accepted == expected.accepted, (receipt, expected)
                assert {r.index: r.condition for r in receipt.refused} == expected.refused
            case CreateQuery(name) | AlterWindow(name) | DropQuery(name) if self._not_shared(command):
                self.left_out.add(name)
            case CreateQuery(name, query):
                start = self._start(query)
                self.db.execute(command.sql)
                definition = self.db.catalog.state.queries[name]
                if query.table.time == "valid":
                    assert definition.start_us == start, (name, definition.start_us, start)
                self.world.create_query(name, query, self.clock.now_us(), self.db.catalog.state.position)
                self.world.set_start(name, definition.start_us)
            case AlterWindow(name, _):
                self.db.execute(command.sql)
                command.apply(self.world, self.clock.now_us(), self.db.catalog.state.position)
            case _:
                self.db.execute(command.sql)
                command.apply(self.world, self.clock.now_us(), self.db.catalog.state.position)

    def _not_shared(self, command: CreateQuery | AlterWindow | DropQuery) -> bool:
        """Queries that ask for static columns only run as Spark SQL, which this rig has not."""
        if not isinstance(command, CreateQuery):
            return command.name in self.left_out
        select = parse_select(command.query.select_sql())
        return not isinstance(plan_query(select, self.db.catalog.state, standing=True), SelectPlan)

    def _start(self, query: Any) -> int | None:
        """START as the language says: NOW as it stood at the last committed cycle."""
        offset = self.db.standing.store.offset
        known = query.table.name in self.db.standing.store.state.tables
        if offset is None or not known:
            return None
        return self.world.now_of(query, offset.data, offset.now_us)

    def cycle(self) -> object:
        limits = Limits(self.random.choice([1, 3, 10, 1000]), self.random.choice([1, 2, 7, 1000]))
        record = self.engine.cycle(limits)
        self.after_cycle(self.db)
        return record

    def compare(self, everything: bool = False) -> None:
        """Every query that is not filling equals the oracle, at the last committed cycle."""
        store = self.db.standing.store
        assert store.offset is not None
        live = self.world.live_queries(store.offset.journal)
        assert sorted(live) == sorted(store.state.queries)
        for name in live:
            answer = store.answers[store.state.queries[name].id]
            if answer.filling is not None:
                assert not everything, f"{name} never finished filling"
                continue
            found = self.db.standing.invoke(name)
            assert found.cycle == store.cycle
            expected = self.world.answer(name, store.offset.data, store.offset.journal, store.offset.now_us)
            wrong = compare.difference(expected, compare.rows_of(found.table))
            assert wrong is None, f"{name} at cycle {store.cycle}: {wrong}\n{store.state.queries[name].sql}"
            self.compared += 1

    def close(self) -> None:
        self.db.stop()
