"""Random stories: UNION ALL over valid and transaction time, with late rows and ties, against a loop over the rows."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.cycle.cut import Limits
from penstock.sql.plan import plan_from_json
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from tests.operators.union.world import SECOND, Aggregated, Stream, Union, counted, make_union, make_window, window_sql
from tests.support.examples import FAST, SOAK
from tests.support.pipe import Pipe

# Of the first eight, those of `make test` run nearly every line of our code that any of them runs; other tests run the rest.
SEEDS = range(200) if SOAK else range(1) if FAST else (0, 1, 3, 4, 5, 6)


def micros(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)


class Story(Pipe):
    """One seed. The same readings go to the product and into the model."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        super().__init__(folder, answer_read_max_rows=self.chance.choice([1, 200_000]))
        self.set_intervals(trim_cycles=2, snapshot_cycles=7, own_writes_s=0.0)
        self.streams = [Stream("a", True), Stream("b", True), Stream("c", False)]
        for stream in self.streams:
            time = "'valid', out_of_order = 'accept', idle = '1000 DAYS'" if stream.valid else "'transaction'"
            reading = "id INT PRIMARY KEY, reading STREAM (n INT, v DOUBLE)"
            self.db.execute(f"CREATE TABLE {stream.name} ({reading}) WITH (time = {time})")
            self.db.execute(f"INSERT INTO {stream.name} VALUES (1, NULL), (2, NULL), (3, NULL), (4, NULL)")
        self.unions: dict[str, Union] = {}
        self.followers: dict[str, tuple[Subscription, Counter[tuple[Any, ...]]]] = {}
        self.made = self.compared = 0

    def send(self) -> None:
        stream = self.chance.choice(self.streams)
        self.clock.advance(self.chance.choice([0, 1, SECOND // 2, 3 * SECOND, 30 * SECOND]))
        rows = []
        for _ in range(self.chance.choice([1, 2, 5])):
            ts = self.clock.now_us() - self.chance.choice([0, 0, 1, SECOND, 15 * SECOND])
            values = {"n": self.chance.choice([1, 2, None]), "v": self.chance.choice([0.0, 2.5, -1.0, None])}
            rows.append({"id": self.chance.randint(1, 4), **values, **({"ts": ts} if stream.valid else {})})
        assert self.db.push(stream.name, rows).accepted == len(rows)
        first = len(stream.rows)
        stream.rows += rows
        if not stream.valid:
            segments = list_segments(self.db.folder.log, self.db.catalog.state.tables[stream.name].id)
            parts = (read_slice(s, ["ts"])["ts"].cast("int64") for s in slices(segments, first, len(stream.rows)))
            for row, ts in zip(rows, (t for part in parts for t in part.to_pylist()), strict=True):
                row["ts"] = ts

    def ask(self) -> None:
        if len(self.unions) >= 4:
            return
        self.made += 1
        name, union = f"q{self.made}", make_union(self.chance, self.streams)
        self.db.execute(f"CREATE QUERY {name} AS {union.sql}")
        definition = self.db.definition(name)
        kind = "union_aggregate" if isinstance(union, Aggregated) else "union"
        assert plan_from_json(definition.plan).operator == kind, union.sql
        union.start, self.unions[name] = definition.start_us, union
        self.cycle()

    def change(self) -> None:
        if not self.unions:
            return
        name = self.chance.choice(sorted(self.unions))
        what = self.chance.choice(["alter", "drop", "pause", "strategy"])
        if what == "drop":
            self.db.execute(f"DROP QUERY {name}")
            del self.unions[name]
            self.followers.pop(name, None)
        elif what == "alter":
            window = make_window(self.chance, not isinstance(self.unions[name], Aggregated))
            self.db.execute(f"ALTER QUERY {name} SET{window_sql(window)}")
            self.unions[name].window = window
        elif what == "strategy":
            self.db.execute(f"ALTER QUERY {name} SET STRATEGY {self.chance.choice(['complete', 'partial', 'none'])}")
        else:
            self.db.execute(f"ALTER QUERY {name} PAUSE")
            self.send()
            self.cycle()
            self.db.execute(f"ALTER QUERY {name} RESUME")

    def reopen(self) -> None:
        self.restart()
        self.followers.clear()

    def cycle(self) -> object:
        limits = Limits(self.chance.choice([1, 3, 10, 1000]), self.chance.choice([1, 3, 1000]))
        record = self.engine.cycle(limits)
        self.compare()
        return record

    def compare(self) -> None:
        store, current = self.db.standing.store, self.db.catalog.state
        assert store.offset is not None
        heads = {table.name: store.offset.data.get(table.id, 0) for table in store.state.tables.values()}
        for name, union in self.unions.items():
            known = store.state.queries.get(name)
            if known is None or store.state.query_positions[known.id] != current.query_positions[known.id]:
                continue
            states = [store.answers[number] for number in known.branches]
            if any(state.filling is not None or state.paused for state in states):
                continue
            if known.id in store.slices.fills or any(number in store.slices.fills for number in known.branches):
                continue
            found = counted(self.db.standing.invoke(name).table, micros)
            expected = union.answer(heads, store.offset.now_us)
            assert found == expected, (name, union.sql, found - expected, expected - found)
            self.compared += 1
            self.check_follower(name, expected)

    def check_follower(self, name: str, expected: Counter[tuple[Any, ...]]) -> None:
        """What a subscriber WITH CHANGES was told so far, added up, is the answer."""
        if name not in self.followers:
            self.followers[name] = (Subscription(self.db.standing, name, None, True), Counter())
        subscription, told = self.followers[name]
        while (event := subscription.next(0)) is not None:
            for row in event.table.to_pylist():
                sign = 1 if row.pop("op") == "+" else -1
                told[tuple(repr(micros(v) if hasattr(v, "tzinfo") else v) for v in row.values())] += sign
        assert +told == expected and not -told, (name, self.unions[name].sql)

    def tell(self, steps: int) -> None:
        for _ in range(steps):
            event = self.chance.choices(
                [self.send, self.ask, self.cycle, self.change, self.reopen], [10, 3, 8, 1.5, 0.4]
            )[0]
            event()
        for _ in range(2000):
            if self.cycle() is None:
                break
        self.db.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_union_has_the_rows_of_its_branches_at_their_smallest_now(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path / "data", seed)
    story.tell(60)
    assert story.compared
