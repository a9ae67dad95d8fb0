"""Random stories of joins: tables, readings with lag, ties and bursts, questions, cycles of any size."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.answers.subscription import Subscription
from penstock.cycle.cut import Limits
from penstock.database.database import Database
from penstock.operators.sparksql.evaluator import LiveRunner
from penstock.pipeline.tasks import Chooser
from penstock.settings import Settings
from penstock.sql.plan import JoinPlan, plan_from_json
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.views.query_state import QueryState
from penstock.views.standing_queries import Intervals
from tests.oracle.joins.making import SECOND, make_question
from tests.oracle.joins.tables import COLUMNS, OrdinaryTable
from tests.oracle.joins.world import Question, Stream
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock

EPOCH = 1_700_000_000_000_000


class Story:
    """One seed: the same readings go to the product and into the model; answers are compared at committed cycles."""

    most_questions = 6
    own_writes_s = Intervals().own_writes_s
    runner: Callable[..., Callable[[], Any]] = LiveRunner
    choices: Chooser | None = None  # the algorithm of each step; as the server learned where it is None
    asks = 2  # how often, beside ten pushes and eight cycles

    def __init__(self, folder: Path, seed: int, with_tables: float = 0.4) -> None:
        self.with_tables = with_tables  # how many of the inner joins name ordinary tables
        self.random = random.Random(seed)
        self.folder = folder
        self.clock = ManualClock(EPOCH)
        self.streams: list[Stream] = []
        self.tables: list[OrdinaryTable] = []
        self.moment = 0  # counts pushes and changes of ordinary tables, in the order in which they happen
        self.questions: dict[str, Question] = {}
        self.compared = 0
        self.rows_compared = 0
        self.rows_with_tables = 0
        self.made = 0
        self.algorithms: set[str] = set()  # those that ran
        self.followers: dict[str, tuple[Subscription, Counter[tuple[object, ...]]]] = {}
        self.open()

    def open(self) -> None:
        memory_mb = self.random.choice([0, 1, 64])
        settings = Settings(
            data=str(self.folder), group_commit_ms=0, join_memory_mb=memory_mb, result_max_rows=100_000_000
        )
        intervals = Intervals(own_writes_s=self.own_writes_s)
        self.db = Database(settings, self.clock, self._engine, intervals, self.runner)
        self.db.start()

    def _engine(self, *arguments: Any) -> LocalEngine:
        self.engine = LocalEngine(
            *arguments, clock=self.clock, parallelism=self.random.randint(1, 3), choices=self.choices
        )
        return self.engine

    def restart(self) -> None:
        self.db.stop()
        self.open()
        followed, self.followers = list(self.followers), {}
        for name in followed:
            if name in self.db.standing.store.state.queries:
                self.follow(name)

    # -- events

    def tell(self, steps: int, most_streams: int) -> int:
        """The whole story; how many answers were compared."""
        try:
            self.run(steps, most_streams)
        finally:
            self.db.stop()
        return self.compared

    def run(self, steps: int, most_streams: int) -> None:
        for number in range(self.random.randint(1, 3)):
            self.create_table(f"t{number}")
        for number in range(2):
            self.db.execute(f"CREATE TABLE o{number} {COLUMNS}")
            self.tables.append(OrdinaryTable(f"o{number}"))
            self.change_table()
        for _ in range(steps):
            event = self.random.choices(
                [
                    *(self.push, self.ask, self.cycle, self.alter, self.drop, self.pause, self.reopen, self.wait),
                    self.change_table,
                ],
                [10, self.asks, 8, 1, 0.5, 0.5, 0.5, 2, 3],
            )[0]
            if event == self.ask:
                self.ask(most_streams)
            else:
                event()
        if not self.questions:
            self.ask(most_streams)
        self.settle()

    def create_table(self, name: str) -> None:
        valid = self.random.random() < 0.7
        options = "time = 'valid', out_of_order = 'accept', idle = '1000 DAYS'" if valid else "time = 'transaction'"
        self.db.execute(
            f"CREATE TABLE {name} (sensor INT PRIMARY KEY, r STREAM (k INT, v DOUBLE, tag TEXT)) WITH ({options})"
        )
        rows = ", ".join(f"({i}, NULL)" for i in range(1, 5))
        self.db.execute(f"INSERT INTO {name} VALUES {rows}")
        self.streams.append(Stream(name, valid))

    def push(self) -> None:
        stream = self.random.choice(self.streams)
        self.clock.advance(self.random.choice([0, 1, SECOND // 2, 3 * SECOND]))
        lag = self.random.choice([0, 0, SECOND, 20 * SECOND])
        rows = []
        for _ in range(self.random.choice([1, 2, 5, 12])):
            ts = self.clock.now_us() - self.random.choice([0, 0, 1, SECOND, lag])
            k = self.random.choice([1, 1, 1, 2, 3, None])
            v = self.random.choice([0.0, 1.5, 2.0, -3.25, None])
            rows.append({"sensor": self.random.randint(1, 4), "k": k, "v": v, "tag": f"x{k}", "ts": ts})
        sent = [r if stream.valid else {n: x for n, x in r.items() if n != "ts"} for r in rows]
        receipt = self.db.push(stream.name, sent)
        assert receipt.accepted == len(rows), receipt
        self.moment += 1
        for row in rows:
            stream.rows.append({**row, "ts": row["ts"] if stream.valid else None, "moment": self.moment})
        if not stream.valid:
            self._learn_times(stream)

    def _learn_times(self, stream: Stream) -> None:
        """Transaction time is given by the log: read it back from there, in log order, before retention takes it."""
        known = next((i for i, row in enumerate(stream.rows) if row["ts"] is None), len(stream.rows))
        segments = list_segments(self.db.folder.log, self.db.catalog.state.tables[stream.name].id)
        times = [
            t
            for s in slices(segments, known, len(stream.rows))
            for t in read_slice(s, ["ts"])["ts"].cast("int64").to_pylist()
        ]
        for row, ts in zip(stream.rows[known:], times, strict=True):
            row["ts"] = ts

    def change_table(self) -> None:
        self.moment += 1
        self.db.execute(self.random.choice(self.tables).change(self.random, self.moment))

    def wait(self) -> None:
        self.clock.advance(self.random.choice([SECOND, 10 * SECOND, 60 * SECOND]))

    def ask(self, most_streams: int = 4) -> None:
        if len(self.questions) >= self.most_questions:
            return
        self.made += 1
        question = self.make_question(f"q{self.made}", most_streams)
        question.start = self._start(question)
        self.db.execute(f"CREATE QUERY {question.name} AS {question.sql}")
        self.check_plan(question)
        question.start = self.db.definition(question.name).start_us
        self.questions[question.name] = question
        # A subscriber can begin once a cycle knows the query; what changes from then on must add up to the answer.
        self.engine.cycle(self._limits())
        if question.name in self.db.standing.store.state.queries:
            self.follow(question.name)

    def make_question(self, name: str, most_streams: int) -> Question:
        return make_question(self.random, name, self.streams, self.tables, most_streams, self.with_tables)

    def check_plan(self, question: Question) -> None:
        plan = plan_from_json(self.db.definition(question.name).plan)
        assert isinstance(plan, JoinPlan), question.sql

    def follow(self, name: str) -> None:
        self.followers[name] = (Subscription(self.db.standing, name, None, True), Counter())

    def _check_follower(self, name: str, expected: Counter[tuple[object, ...]]) -> None:
        """What a subscriber WITH CHANGES has heard so far, added up, is the answer."""
        if sum(expected.values()) > 1_000:
            self.followers.pop(name, None)  # adding up so much in every cycle takes longer than it teaches
        if name not in self.followers:
            return
        subscription, held = self.followers[name]
        while (event := subscription.next(0)) is not None:
            for op, *row in zip(*(c.to_pylist() for c in plain(event.table)), strict=True):
                held[tuple(row)] += 1 if op == "+" else -1
        assert +held == expected and not -held, f"{name}: the changes add up to something else"

    def _start(self, question: Question) -> int | None:
        return None

    def alter(self) -> None:
        if self.questions:
            question = self.random.choice(list(self.questions.values()))
            seconds = self.random.choice([1, 5, 30, 300])
            self.db.execute(f"ALTER QUERY {question.name} SET BEGIN (NOW - {seconds} SECONDS) END (NOW)")
            self._pending = (question.name, seconds)
            question.begin = seconds * SECOND

    def drop(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"DROP QUERY {name}")
            del self.questions[name]
            self.followers.pop(name, None)

    def pause(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"ALTER QUERY {name} PAUSE")
            for _ in range(self.random.randint(0, 3)):
                self.push()
                self.engine.cycle(self._limits())
            self.db.execute(f"ALTER QUERY {name} RESUME")

    def reopen(self) -> None:
        self.restart()

    def _limits(self) -> Limits:
        return Limits(self.random.choice([1, 3, 10, 1000]), self.random.choice([1, 3, 20, 1000]))

    def cycle(self) -> object:
        record = self.engine.cycle(self._limits())
        self.compare()
        return record

    def settle(self) -> None:
        for _ in range(3000):
            if self.engine.cycle(self._limits()) is None:
                break
        self.compare(everything=True)

    # -- comparison

    def rows_of(self, name: str) -> pa.Table:
        return self.db.standing.invoke(name).table

    def compare(self, everything: bool = False) -> None:
        with self.engine.still():
            self._compare(everything)

    def _compare(self, everything: bool) -> None:
        _, now_us, heads = self.committed()
        reports = [known.report for known in self.db.standing.store.joins.queries.values() if known.report is not None]
        self.algorithms |= {part["algorithm"] for _, parts in reports for part in parts.values()}
        for question, _ in self.answering(everything):
            name = question.name
            expected = question.answer(heads, question.now_of(heads, now_us))
            table = self.rows_of(name)
            columns = plain(table)
            found: dict[tuple[object, ...], int] = {}
            for row in zip(*(c.to_pylist() for c in columns), strict=True):
                found[row] = found.get(row, 0) + 1
            assert found == dict(expected), self._difference(question, found, dict(expected))
            self._check_follower(name, expected)
            self.compared += 1
            self.rows_compared += sum(expected.values())
            self.rows_with_tables += sum(expected.values()) if question.extended else 0

    def committed(self) -> tuple[int, int, dict[str, int]]:
        """The last cycle, the time it was planned at, and how far it has read each table."""
        store = self.db.standing.store
        assert store.offset is not None
        heads = {table.name: store.offset.data.get(table.id, 0) for table in store.state.tables.values()}
        return store.cycle, store.offset.now_us, heads

    def answering(self, everything: bool) -> Iterator[tuple[Question, QueryState]]:
        """The questions whose answers can be compared: taken in as they are now, not paused, and with a history read."""
        store, current = self.db.standing.store, self.db.catalog.state
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if definition is None:
                assert not everything
                continue
            answer = store.answers[definition.id]
            behind = store.state.query_positions[definition.id] != current.query_positions[definition.id]
            if answer.filling is not None or answer.paused or behind:
                assert not everything, f"{name} never finished filling"
                continue
            yield question, answer

    def _difference(self, question: Question, found: dict[Any, int], expected: dict[Any, int]) -> str:
        extra = {k: v for k, v in found.items() if expected.get(k) != v}
        lost = {k: v for k, v in expected.items() if found.get(k) != v}
        return f"{question.name}: {question.sql}\nfound but not expected: {extra}\nexpected but not found: {lost}"


def plain(table: pa.Table) -> list[pa.ChunkedArray]:
    """Times as numbers, as the model has them."""
    return [c.cast("int64") if pa.types.is_timestamp(c.type) else c for c in table.columns]
