"""Stories on a real database, on real time; their answers judged by one Spark job per offset.

The wall clock and Spark decide when cycles are, and the log says which reading won: the oracle takes both over and
judges everything behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.sql.parse import parse_select
from penstock.sql.plan import SelectPlan, SparkPlan, plan_from_json
from penstock.sql.planning.planner import plan_query
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.views.results import Event, Result
from tests.oracle import compare
from tests.oracle.commands import Advance, AlterWindow, Command, CreateQuery, CreateTable, Cycle, DropQuery, Push
from tests.oracle.expressions import Const, Ex, Op
from tests.oracle.making import EPOCH_US
from tests.oracle.questions import Query, Table, TimeSpan, WindowSpec
from tests.oracle.spark_sql import answer_sql, query_sql, view_name
from tests.oracle.timeline import Knowledge, Timeline, replay

PATIENCE_S = 120.0


def on_wall_clock(commands: Sequence[Command], prefix: str, now_us: int) -> list[Command]:
    """The same story under other names, ending about now: times that the script gives move along."""
    moved = now_us - EPOCH_US - sum(c.us for c in commands if isinstance(c, Advance))
    return [_moved(command, prefix, moved) for command in commands]


def _moved(command: Any, prefix: str, us: int) -> Any:
    changes: dict[str, Any] = {}
    if isinstance(command, Push):
        changes["readings"] = [{**r, "ts": r["ts"] + us} if "ts" in r else r for r in command.readings]
    if isinstance(command, AlterWindow):
        changes["window"] = _window(command.window, us)
    if isinstance(command, CreateQuery):
        changes["query"] = _query(command.query, prefix, us)
    if isinstance(command, CreateQuery | AlterWindow | DropQuery):
        changes["name"] = prefix + command.name
    elif not isinstance(command, Advance | Cycle):
        changes["table"] = _table(command.table, prefix)
    return replace(command, **changes)


def _table(table: Table, prefix: str) -> Table:
    return replace(table, name=prefix + table.name)


def _query(query: Query, prefix: str, us: int) -> Query:
    return replace(
        query,
        table=_table(query.table, prefix),
        where=None if query.where is None else _expression(query.where, us),
        outputs=tuple(_expression(o, us) for o in query.outputs),
        window=None if query.window is None else _window(query.window, us),
    )


def _expression(ex: Ex, us: int) -> Ex:
    if isinstance(ex, Const) and ex.type == "TIMESTAMP":
        return replace(ex, value=ex.value + us)
    return replace(ex, arguments=tuple(_expression(a, us) for a in ex.arguments)) if isinstance(ex, Op) else ex


def _window(window: WindowSpec, us: int) -> WindowSpec:
    if not isinstance(window, TimeSpan):
        return window
    edges = [replace(e, us=e.us + us) if e.anchor == "constant" else e for e in (window.begin, window.end)]
    return TimeSpan(*edges)


@dataclass
class Heard:
    """What one subscriber got."""

    name: str
    changes: bool
    subscription: Subscription
    events: list[Event] = field(default_factory=list)


class Story:
    """Applies commands to the database, remembers what it answered and when, then judges."""

    def __init__(self, database: Database) -> None:
        self.db = database
        self.line = Timeline()
        self.world = self.line.world
        self.first_cycle = database.standing.store.cycle + 1
        self.stamped: list[tuple[str, Result]] = []
        self.heard: list[Heard] = []
        self.tables: list[str] = []
        self.left_out: set[str] = set()
        self.shared_since: dict[
            str, int
        ] = {}  # a window can bring a query on static columns alone into the shared pass

    # -- telling it

    def tell(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Push):
                self.db.push(command.table.name, command.readings)
            elif isinstance(command, Cycle):
                self.db.wait_for_own_writes()
                self.look()
            elif not isinstance(command, Advance) and getattr(command, "name", None) not in self.left_out:
                try:
                    self.db.execute(command.sql)
                    self._follow(command)
                except PenstockError as refused:
                    # Spark SQL has a budget, and how much of it a query takes depends on the machine.
                    assert refused.condition == "over_budget" and isinstance(command, CreateQuery), refused
                    self.left_out.add(command.name)

    def _follow(self, command: Any) -> None:
        position = self.db.catalog.state.position
        if isinstance(command, CreateTable):
            self.tables.append(command.table.name)
            self.world.create_table(command.table, position, self.db.catalog.state.tables[command.table.name].id)
        elif isinstance(command, CreateQuery):
            start = self.db.catalog.state.queries[command.name].start_us
            self.world.create_query(command.name, command.query, 0, position, start)
            self.world.set_start(command.name, start)
            if self.is_shared(command.name):
                for changes in (False, True):
                    subscription = self.db.subscribe(command.name, changes=changes)
                    self.heard.append(Heard(command.name, changes, subscription))
        else:
            command.apply(self.world, 0, position)
        if isinstance(command, CreateQuery | AlterWindow) and self.is_shared(command.name):
            self.shared_since.setdefault(command.name, position)

    def register(self, queries: Sequence[CreateQuery]) -> None:
        """Many queries in one go, without subscribers; those that would run as Spark SQL are left out."""
        made = self.db.register([(q.name, q.query.select_sql()) for q in queries if self._would_share(q)], "none")
        assert all(row["error"] is None for row in made), made
        for query in queries:
            if query.name in self.db.catalog.state.queries:
                definition = self.db.catalog.state.queries[query.name]
                position = self.db.catalog.state.query_positions[definition.id][0]
                self.world.create_query(query.name, query.query, 0, position)
                self.world.set_start(query.name, definition.start_us)
                self.shared_since[query.name] = position

    def _would_share(self, command: CreateQuery) -> bool:
        select = parse_select(command.query.select_sql())
        return isinstance(plan_query(select, self.db.catalog.state, standing=True), SelectPlan)

    def is_shared(self, name: str) -> bool:
        return isinstance(plan_from_json(self.db.catalog.state.queries[name].plan), SelectPlan)

    def reads_readings(self, name: str) -> bool:
        """Not so a query on static columns alone, which is about sensors as they are."""
        plan = plan_from_json(self.db.catalog.state.queries[name].plan)
        return not isinstance(plan, SparkPlan) or all(r.kind == "stream" for r in plan.relations)

    def look(self) -> None:
        """Whatever is there now: an answer that Spark SQL worked out, what subscribers are told."""
        for name in self.world.live_queries(2**62):
            if self.reads_readings(name) and not self.is_shared(name):
                try:
                    self.stamped.append((name, self.db.invoke(name)))
                except PenstockError as waiting:
                    assert waiting.condition == "not_ready", waiting
        for heard in self.heard:
            self._listen(heard)

    def _listen(self, heard: Heard) -> None:
        try:
            while event := heard.subscription.next(0):
                heard.events.append(event)
        except PenstockError as gone:
            assert gone.condition == "query_not_found", gone

    def close(self) -> None:
        for heard in self.heard:
            heard.subscription.close()

    # -- judging it

    def settle(self) -> None:
        """Until the story is committed and every history is read; then the oracle takes over log and cycles."""
        self.db.wait_for_own_writes()
        names = [n for n in self.world.live_queries(2**62) if self.is_shared(n)]
        assert self.db.standing.feed.wait(lambda: not self._filling(names), PATIENCE_S)
        self.look()
        for table in self.tables:
            if self.log_of(table).num_rows < 20_000:
                self.world.load_log(table, self.log_of(table))
        store = self.db.engine.commits
        for cycle in range(self.first_cycle, self.db.standing.store.cycle + 1):
            end = store.read(cycle).end
            ids = {self.db.catalog.state.queries[n].id: n for n in names}
            elsewhere = {n for n in names if self.shared_since[n] > end.journal}
            self.line.note(cycle, end, {ids[q] for q in end.fill if q in ids}, elsewhere)

    def _filling(self, names: Sequence[str]) -> bool:
        with self.db.standing.locked() as store:
            assert store.offset is not None
            return any(store.state.queries[n].id in store.offset.fill for n in names)

    def log_of(self, table: str) -> pa.Table:
        number = self.db.catalog.state.tables[table].id
        segments = list_segments(self.db.folder.log, number)
        pieces = [read_slice(s) for s in slices(segments, 0, segments[-1].end)] if segments else []
        return pa.concat_tables(pieces) if pieces else self.world.log_table(table).rename_columns({"_sid": "_vid"})

    def shared(self, cycle: int) -> list[str]:
        """Queries of the shared pass that a kept cycle knows and that are still there to be asked."""
        alive = self.world.live_queries(2**62)
        return [n for n in alive if n in self.line.answering[cycle] and self.is_shared(n)]

    def check_cycle(self, spark: SparkSession, cycle: int, folder: Path) -> int:
        """One Spark job: the answers of all queries as of a cycle beside the same questions over the log's prefix."""
        offset, names = self.line.offsets[cycle], self.shared(cycle)
        expected = []
        for name in names:
            query, start = self.line.question(name, cycle)
            head = offset.data.get(self.world.table_id(query.table.name), 0)
            expected.append(query_sql(name, query, head, offset.now_us, start))
        found = {name: self.db.standing.invoke(name, cycle).table for name in names}
        wrong = disagreement(spark, expected, found, {n: self.line.question(n, cycle)[0] for n in names}, folder)
        assert not wrong, f"cycle {cycle}: {wrong}"
        return sum(table.num_rows for table in found.values())

    def check_cycle_by_hand(self, cycle: int) -> None:
        for name in self.shared(cycle):
            found = compare.rows_of(self.db.standing.invoke(name, cycle).table)
            _same(self.line.expected(name, cycle), found, f"{name} as of cycle {cycle}")

    def check_stamped(self) -> None:
        """Answers of Spark SQL, each at the cycle it says."""
        for name, result in self.stamped:
            assert result.cycle is not None
            offset = self.line.offsets[result.cycle]
            expected = self.world.answer(name, offset.data, offset.journal, offset.now_us)
            _same(expected, compare.rows_of(result.table), f"{name} at cycle {result.cycle}")

    def check_heard(self) -> None:
        for heard in self.heard:
            if heard.events and heard.name in self.world.live_queries(2**62):
                self._check_changes(heard) if heard.changes else self._check_rows(heard)

    def _check_changes(self, heard: Heard) -> None:
        held: compare.Answer = Counter()
        for event in heard.events:
            replay(held, compare.rows_of(event.table))
            _same(self.line.expected(heard.name, event.cycle), held, f"changes of {heard.name} at {event.cycle}")

    def _check_rows(self, heard: Heard) -> None:
        first, *later = heard.events
        told = {event.cycle: compare.rows_of(event.table) for event in later}
        _same(self.line.expected(heard.name, first.cycle), compare.rows_of(first.table), f"first of {heard.name}")
        last = heard.subscription.cycle  # type: ignore[attr-defined]
        knows = Knowledge(self.line, heard.name, first.cycle)
        for cycle in range(first.cycle + 1, last + 1):
            least = self.line.entered(heard.name, cycle, cycle - 1, known=knows.perhaps)
            most = self.line.entered(heard.name, cycle, cycle - 1, known=knows.surely)
            found = told.get(cycle, Counter())
            _same(found | least, found, f"subscriber to {heard.name} at {cycle}, who missed something")
            _same(found & most, found, f"subscriber to {heard.name} at {cycle}, who got too much")
            knows.step(cycle, cycle - 1)


def _same(expected: compare.Answer, found: compare.Answer, what: str) -> None:
    wrong = compare.difference(expected, found)
    assert wrong is None, f"{what}: {wrong}"


# A job of the oracle runs once over few rows: to plan it, compile it and spread it took longer than to run it as it is.
RUN_ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def oracle_session(database: Database) -> SparkSession:
    """A session of the oracle's own on the database's Spark: nothing that the database runs sees its settings."""
    assert database.engine.spark is not None
    session = database.engine.spark.newSession()
    for name, value in RUN_ONCE.items():
        session.conf.set(name, value)
    return session


def show_log(spark: SparkSession, story: Story, table: str, folder: Path) -> None:
    """The log with static values beside it, as a view that `query_sql` reads."""
    show(spark, view_name(table), story.world.flat_table(table, story.log_of(table)), folder)


def show(spark: SparkSession, view: str, rows: pa.Table, folder: Path) -> None:
    """A table as a view. By way of a file, which Spark reads a column at a time, and with its schema told: it would
    run a job to find out."""
    path = folder / f"{view}.parquet"
    pq.write_table(rows, path)
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=False)
    spark.read.schema(schema).parquet(str(path)).createOrReplaceTempView(view)


def disagreement(
    spark: SparkSession,
    expected: Sequence[str],
    found: Mapping[str, pa.Table],
    queries: Mapping[str, Query],
    folder: Path,
) -> list[Any]:
    """Rows that only one side has, with how many more the answer has of each. One job for all queries."""
    # In one text: each union of data frames would analyse anew all that was united before.
    sides = [f"SELECT *, -1 AS n FROM ({sql})" for sql in expected]
    for name, table in found.items():
        if table.num_rows:
            view = f"found_{name}"
            show(spark, view, table.rename_columns([f"c{i}" for i in range(table.num_columns)]), folder)
            sides.append(f"SELECT *, 1 AS n FROM ({answer_sql(name, queries[name], view)})")
    whole = spark.sql("\nUNION ALL\n".join(sides))
    return whole.groupBy("query", "row").sum("n").where("`sum(n)` <> 0").limit(10).collect()
