"""The database: it creates and connects its parts, and has the methods that the server calls."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from prometheus_client.core import Metric

from penstock.answers.completeness import Completeness
from penstock.answers.costs import Costs, Usage
from penstock.answers.delays import Delays
from penstock.answers.load import Load
from penstock.answers.subscription import Subscription
from penstock.answers.units import reported_work
from penstock.catalog.catalog import Catalog
from penstock.catalog.model import Entry
from penstock.clock import SECOND, Clock
from penstock.clock_guard import GuardedClock, clock_status
from penstock.cycle.commits import CommitRecord, read_newest_end
from penstock.cycle.culprits import find_poison
from penstock.cycle.folder import DataFolder, FolderLock
from penstock.cycle.offset import Offset
from penstock.damage import damage_of, forget_report
from penstock.database.backup import BackupProgress, back_up
from penstock.database.lost_definitions import reserve_lost
from penstock.database.observer import Observer
from penstock.database.parts import Parts
from penstock.database.sampler import Sampler
from penstock.database.status import LINES, WAYS_IN, failures, status
from penstock.database.system_tables import SystemTables
from penstock.database.verification import Scrubber
from penstock.errors import PenstockError, error
from penstock.expr.code_workers import CODE_WORKERS
from penstock.logs import note_cycle
from penstock.operators.aggregate.history_fill import HistoryFiller
from penstock.operators.aggregate.rollups.keeper import RollupKeeper
from penstock.operators.aggregate.trees.on_demand import AggregatesOnDemand
from penstock.operators.sparksql.evaluator import Evaluator, LiveRunner
from penstock.pipeline.engine import Engine
from penstock.pipeline.spark_sql import SparkRunner
from penstock.security.audit import Audit
from penstock.security.users import Users
from penstock.sensors.address_rules import rules_of
from penstock.settings import Settings
from penstock.sinks.runner import SinkRunner
from penstock.sql.planning.shapes import PlanShapes
from penstock.sql.statements import AsOf, OnError
from penstock.statements.descriptions import as_told, describe_queries, describe_query, describe_table
from penstock.statements.execute import Executor
from penstock.statements.permissions import the_caller
from penstock.statements.running_statements import RunningStatements
from penstock.statements.select import invoke, subscribe
from penstock.statements.sinks import SinkQueries
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.line_points import LineReport, LineWriter
from penstock.streams.ingest.readings import Discovery, IngestReceipt
from penstock.streams.log.atomic_file import CrashPoint, no_crash
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.maintenance import LogMaintenance, RetentionControl
from penstock.streams.sources.table_sources import Sources
from penstock.views.follower import LAG_MAX, Follower
from penstock.views.idle_queries import IdleQueries
from penstock.views.results import Health, Result
from penstock.views.standing_queries import Intervals, StandingQueries

_log = logging.getLogger("penstock")
PUSH_TIMEOUT_S = 60.0


class Database(Parts):
    """One data folder, open. Thread-safe; every method may block, and raises PenstockError for a user's mistake.

    `execute` and `register` refuse what `security.caller.current_caller` may not do, and write changes to `audit`.
    `execute` and `invoke` end when `cancellation.current_cancellation` says so.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        engine: Callable[..., Engine] = Engine,
        intervals: Intervals = Intervals(),
        runner: Callable[[Engine, DataFolder, int], Callable[[], SparkRunner]] = LiveRunner,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._make_engine = engine
        self._make_runner = runner
        self._intervals = intervals
        self._crash_point = crash_point
        self.settings = settings
        self.clock = clock or GuardedClock(step_max_us=settings.clock_step_max_s * SECOND)
        self.folder = DataFolder(Path(settings.data).absolute())
        self.address_rules = rules_of(settings, self.folder.root)
        self.users = Users(self.folder.root, settings.token, self.clock)
        self.audit = Audit(self.folder.root, self.clock)
        self.statements = RunningStatements(settings, self.clock)
        self.backups = {}
        self._ready = False
        self._stopped = threading.Event()

    # -- life

    def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Open the folder and start the pipeline; ready when the first cycle is through."""
        self._began_s = time.monotonic()
        self.users.accounts()  # refuses the start where they cannot be read
        self.lock = FolderLock(self.folder)
        self.damage = damage_of(self.folder.root)
        CODE_WORKERS.configure(
            self.settings.code_workers, self.settings.function_timeout_ms / 1000, self.settings.worker_memory_mb
        )
        try:
            self.engine = self._make_engine(self.folder, self.settings, lambda record: self.follower.append(record))
            self.follower = Follower(self._committed, self.engine.commits.read)
            self.engine.prepare()
            if not self.settings.sensor_files:
                self.folder.inbox.mkdir(exist_ok=True)
            progress("opening the log")
            self.log = StreamLog(self.folder.root, self.settings, self.clock, self._crash_point)
            self.log.on_change = self.engine.wake
            self.catalog = Catalog(self.folder.root, self.log.still, self.clock)
            known_tables = self.catalog.state.next_table_id
            committed = read_newest_end(self.folder)
            self._open_clock(committed)
            named = self.engine.commits.journal_named
            committed_heads = committed.data if committed is not None else {}
            reserve_lost(self.folder.root, self.catalog, named, committed_heads)
            self.log.reserve(self.catalog.state.heads())
            known = self.catalog.state.tables_by_id
            self.log.reserve({t: head for t, head in committed_heads.items() if t in known})
            for dropped in set(self.log.table_ids()) - self.catalog.state.tables_by_id.keys():
                # In a former life that ended before its files went. Files of lost definitions were moved aside.
                if dropped < known_tables:
                    self.log.drop(dropped)
            self.quarantine = Quarantine(self.catalog, self.folder, self.settings)
            self.engine.is_waiting, self.engine.trace = self._is_waiting, self.quarantine.trace
            self.engine.lag = lambda: self.follower.lag
            discovery = Discovery(self.catalog.insert_rows, self.settings.discover_max_sensors)
            self.ingest = Ingest(self.log, lambda: self.catalog.state, self.clock, self.settings, discovery)
            self.ingest.restore(list(self.catalog.state.tables.values()))
            self.sources = Sources(
                self.ingest.push, lambda: self.catalog.state, self.folder.read_id(), self.address_rules
            )
            self.lines = LineWriter(self.ingest.push, lambda: self.catalog.state.tables, PUSH_TIMEOUT_S)
            self.ways_in = {way: InputCounts() for way in WAYS_IN} | {LINES: self.lines.counts}
            commits, run_tasks = self.engine.commits, self.engine.run_tasks
            self.standing = StandingQueries(
                self.folder, commits, self.settings, lambda: self.catalog.state, self._intervals, run_tasks
            )
            progress("reading the committed cycles")
            self.standing.load(self.catalog.state)
            self.rollups = RollupKeeper(
                self.folder.root, self.catalog, self.log, self.clock, self.standing, self._crash_point
            )
            if "journal" not in self.damage.open_kinds():
                self.rollups.sweep(grace_s=0)
            self.system = SystemTables(self)
            self.system_table = self.system.table
            self.costs = Costs()
            self.load = Load(self.settings)
            self.delays = Delays()
            self.shapes = PlanShapes()
            self.usage = Usage(self.folder.root / "usage.json")
            self.completeness = Completeness(self.standing)
            self.sampler = Sampler(self.log, self.ingest, self.sensor_tables)
            runner = self._make_runner(self.engine, self.folder, self.settings.result_max_rows)
            self.evaluator = Evaluator(runner, self.standing, self.settings, self.system.for_plan, self._evaluated)
            self.history_filler = HistoryFiller(self.standing)
            self.idle_queries = IdleQueries(
                self.standing,
                self.catalog,
                self.settings.sleep_after_s,
                lambda table_id: self.load.row_cost(table_id, self.costs.users),
            )
            self.on_demand = AggregatesOnDemand(self.standing, self.settings)
            self.observer = Observer(
                self.catalog, self.ingest, self.clock, self.settings, self.standing, self.address_rules
            )
            self.sinks = SinkRunner(SinkQueries(self), self.folder, self.settings, self.clock, self.address_rules)
            self.executor = Executor(self)
            progress("starting Spark")
            before = self.standing.store.cycle
            self.follower.start()
            self.engine.start()
            progress("waiting for the first cycle")
            self._wait_for_first_cycle(before)
        except BaseException:
            self.stop()
            raise
        self._known_tables = set(self.catalog.state.tables_by_id)
        self.catalog.listeners.append(self._definition_changed)
        self.observer.follow()
        self.evaluator.start()
        self.history_filler.start()
        self.idle_queries.start()
        self.sources.follow()
        self.sampler.start()
        self.sinks.start(self.catalog.state.sinks)
        control = RetentionControl(self.rollups.retain, self.standing.retained, self.standing.protected, self._tidy)
        self.housekeeper = LogMaintenance(
            self.log, self.ingest, lambda: self.catalog.state, self.clock, control, self._intervals.replaced_s
        )
        self.scrubber = Scrubber(self.folder.root, self.damage, self.clock, self.settings.scrub_days, self._cover)
        self.scrubber.start()
        self._ready = True

    def _open_clock(self, committed: Offset | None) -> None:
        """Open the clock so that NOW continues from the newest time in the folder."""
        if isinstance(self.clock, GuardedClock):
            tables = self.catalog.state.tables_by_id.values()
            stamped = self.log.newest_us([t.id for t in tables if t.options.time == "transaction"])
            known = [at for at in (stamped, committed.now_us if committed is not None else None) if at is not None]
            self.clock.open(self.folder.root, max(known, default=None))

    def _wait_for_first_cycle(self, began_at: int) -> None:
        deadline = time.monotonic() + 120
        while self.standing.store.cycle <= began_at and time.monotonic() < deadline:
            self.standing.feed.wait_past(began_at, 0.2)
            if self.engine.looking:
                deadline = time.monotonic() + 120  # one query must not keep the server from starting
        if self.standing.store.cycle <= began_at:
            raise error("engine_failed", detail=self.engine.failure or "Spark ran no cycle within two minutes")

    def stop(self) -> None:
        """Let sensors go, finish the cycle in progress, end Spark. Harmless when repeated."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._ready = False
        self.close_parts()
        if hasattr(self, "standing"):
            self.standing.feed.close()
        CODE_WORKERS.close()
        if hasattr(self, "usage"):
            self.usage.save(self.catalog.state.queries_by_id)
        if hasattr(self, "lock"):
            forget_report(self.folder.root)
            self.lock.release()

    def _cover(self, kind: str) -> bool:
        """Write snapshots that take the place of damaged commit records or journal lines; whether that helps."""
        if kind not in ("commit_record", "journal"):
            return False
        if kind == "journal":
            self.catalog.write_snapshot()
        self.standing.write_snapshot()
        return True

    def _tidy(self) -> None:
        """Remove files that nothing names or needs any more."""
        # A lost entry may have named a rollup's file.
        if "journal" not in self.damage.open_kinds():
            self.rollups.sweep()
        if not self.backups:  # they copy commit records first, and then the journal that these name
            self.catalog.forget_before(self.engine.commits.journal_needed())

    def _committed(self, record: CommitRecord) -> None:
        """Fold a committed cycle. Called by the follower."""
        finished = self.standing.finished
        note_cycle(record.cycle)
        began = time.monotonic()
        self.standing.take(record)
        fold_ms = (time.monotonic() - began) * 1000
        with self.standing.locked() as store:
            known = store.state.queries_by_id
            self.costs.follow(store)
        work = reported_work(record.results)
        self.costs.note_cycle(record, work, fold_ms)
        self.load.note_cycle(record, work, fold_ms)
        self._note_delays(record)
        self._take_poisoned()
        self.usage.save_sometimes(known)
        self.on_demand.trees.tidy(known)
        if self.standing.finished != finished:
            self.observer.follow()

    def _note_delays(self, record: CommitRecord) -> None:
        firsts = {t: record.start.data.get(t, 0) for t, end in record.end.data.items()}
        new = {t: first for t, first in firsts.items() if first < record.end.data[t]}
        arrived = {t: at for t, first in new.items() if (at := self.log.arrived_us(t, first)) is not None}
        self.delays.note_cycle(record, arrived, self.clock.now_us())

    def _evaluated(self, query_id: int, seconds: float, answer: pa.Table) -> None:
        """Spark SQL has evaluated a query."""
        self.costs.note_evaluation(query_id, seconds, answer)
        self.load.note_evaluation(query_id, seconds)

    def _take_poisoned(self) -> None:
        with self.standing.locked() as store:
            poisoned, position = dict(store.poisoned), store.state.position
        # A query that was changed or resumed after the cycle is another one: the cycle's error does not apply to it.
        changed = self.catalog.state.query_positions
        poisoned = {q: why for q, why in poisoned.items() if q in changed and changed[q][1] <= position}
        if poisoned:
            try:
                self.quarantine.take(poisoned)
            except (OSError, PenstockError) as failure:  # they fail in the next cycle again
                _log.warning("queries could not be taken out of the cycles: %s", failure)

    def _is_waiting(self) -> bool:
        """Whether rows, definitions or histories wait for a cycle."""
        last = self.engine.commits.last
        if self.follower.lag >= LAG_MAX:  # the pipeline waits for the answers, and is not at fault
            return False
        if last is None or last.end.filling or self.catalog.state.position > last.end.journal:
            return True
        heads, tables = self.log.heads(), self.catalog.state.tables_by_id  # rows of a lost table wait for nothing
        return any(head > last.end.data.get(table_id, 0) for table_id, head in heads.items() if table_id in tables)

    def _definition_changed(self, entry: Entry) -> None:
        if entry.kind == "run_plan":
            return  # of no table, sink or sensor
        for table_id in self._known_tables - self.catalog.state.tables_by_id.keys():
            self.log.drop(table_id)
            self.ingest.tables.forget(table_id)
            self.completeness.forget(table_id)
        self._known_tables = set(self.catalog.state.tables_by_id)
        self.sources.follow()
        self.sinks.follow(self.catalog.state.sinks)
        self.observer.follow()

    # -- statements and readings

    def execute(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None, owner: str | None = None
    ) -> Result:
        """Run one or more statements; the last one's result. Queries without another owner are `owner`'s."""
        return self.executor.execute(sql, params, owner)

    def push(
        self, table: str, data: pa.Table | list[dict[str, Any]], idempotency_key: str | None = None
    ) -> IngestReceipt:
        """Store readings; returns when the accepted ones are on disk."""
        try:
            return self.ingest.push(table, data, idempotency_key).result(timeout=PUSH_TIMEOUT_S)
        except TimeoutError:
            detail = f"the readings were not on disk after {PUSH_TIMEOUT_S:.0f} s; they may still get there"
            hint = "send them again with the same Idempotency-Key"
            raise error("too_busy", detail=detail, hint=hint) from None

    def write_lines(self, body: bytes, precision: str = "ns") -> LineReport:
        """Store points of the line protocol; returns when the good ones are on disk."""
        return self.lines.write(body, precision)

    def register(
        self,
        queries: Sequence[tuple[str, str] | Mapping[str, Any]],
        on_error: OnError = "none",
        owner: str | None = None,
    ) -> list[dict[str, Any]]:
        """Create many queries with one sync, from (name, SELECT) or records; `none`: one mistake refuses them all."""
        records = [q if isinstance(q, Mapping) else {"name": q[0], "sql": q[1]} for q in queries]
        return self.executor.register(records, on_error, owner)

    # -- answers

    def invoke(
        self,
        name: str,
        as_of: int | str | AsOf | None = None,
        limit: int | None = None,
        offset: int = 0,
        final: bool = False,
    ) -> Result:
        """The answer of a standing query for its window as of the last cycle, an older one, or a past time; or its final rows."""
        return invoke(self, name, as_of, limit, offset, final)

    def subscribe(
        self, name: str, from_cycle: int | None = None, changes: bool = False, final: bool = False
    ) -> Subscription:
        """Push of a query's results, from the current answer on or from a kept cycle on; or of its rows once they are final."""
        return subscribe(self, name, from_cycle, changes, final)

    # -- about itself

    def queries(self) -> list[dict[str, Any]]:
        return [as_told(facts) for facts in describe_queries(self)]

    def query(self, name: str) -> dict[str, Any]:
        return as_told(describe_query(self, self.definition(name)))

    def costliest(self, count: int) -> list[dict[str, Any]]:
        """The queries that cost most, described as `query` does."""
        known = self.catalog.state.queries_by_id
        return [as_told(describe_query(self, known[q])) for q in self.costs.costliest(count) if q in known]

    def answer_reads(self) -> Iterable[Metric]:
        """What answers have read of the log in this process."""
        return self.standing.reads.registry.collect()

    def tables(self) -> list[dict[str, Any]]:
        """Each table's `name`, `columns`, `key`, `stream` and `options`, by name. Columns are flat: `stream` has its own fields."""
        return [describe_table(t) for t in sorted(self.catalog.state.tables.values(), key=lambda t: t.name)]

    def table(self, name: str) -> dict[str, Any]:
        return describe_table(self.catalog_table(name))

    def sensors(self, table: str) -> list[dict[str, Any]]:
        return self.system.sensors(self.catalog_table(table))

    def health(self) -> Health:
        if not self._ready:
            return Health(False, "the server is starting" if not self._stopped.is_set() else "the server is stopping")
        if not self.engine.running:
            return Health(False, f"the pipeline is being restarted: {self.engine.failure}")
        failing = [service for service in self.services() if service.failure is not None]
        causes = {service.name: service.failure for service in failing}
        for service in failing:
            if service.critical:
                reason = f'the service "{service.name}" failed and is started again: {causes[service.name]}'
                return Health(False, reason, {"services": causes})
        clock = clock_status(self.clock)
        if clock.state == "untrusted":
            return Health(False, clock.sentence or "")
        facts = {"cycle": self.standing.store.cycle, "restarts": self.engine.restarts, **failures(self)}
        if causes:
            facts["services"] = causes
        if clock.sentence is not None:
            facts["clock"] = clock.sentence
        return Health(True, "ready", facts)

    def running_statements(self) -> list[dict[str, Any]]:
        """The running statements that the caller may see."""
        return self.statements.visible(the_caller(self.users))

    def cancel_statement(self, statement_id: str) -> None:
        """End a running statement that the caller may see."""
        self.statements.cancel(statement_id, the_caller(self.users))

    def status(self) -> dict[str, Any]:
        return {"ready": self.health().ready, "uptime_s": round(time.monotonic() - self._began_s, 1), **status(self)}

    def backup(self, target: Path, link: bool = False) -> list[str]:
        """Copy the data folder while the server runs; another server can open the copy. Returns what was damaged before."""
        progress = self.backups[str(target)] = BackupProgress()
        try:
            return back_up(self.folder, self.log, target, link, progress)
        finally:
            self.backups.pop(str(target), None)


class Quarantine:
    """Takes queries that stop cycles out of them, by an entry in the journal, until they are resumed.

    These are the queries that a cycle failed with, and those that a trial finds.
    """

    def __init__(self, catalog: Catalog, folder: DataFolder, settings: Settings) -> None:
        self._catalog = catalog
        self._folder = folder
        self._settings = settings

    def trace(self, start: Offset, stopping: threading.Event) -> bool:
        """Find what stops the cycle from an offset on and take it out; False where nothing was found."""
        found = find_poison(self._folder, self._settings, start, stopping)
        _log.warning(
            "looked into the cycle by %d tries: %d queries stop it; %s",
            found["tries"],
            len(found["queries"]),
            found["unexplained"] or "nothing else does",
        )
        return self.take(found["queries"], found["table"])

    def take(self, reasons: Mapping[int, str], table_id: int | None = None) -> bool:
        """Take queries, and a table's readings up to now, out of the cycles; False where nothing is left to take out."""
        taken = self._catalog.quarantine_queries(reasons, table_id)
        for query in taken:
            _log.warning('query "%s" was taken out of the cycles: %s', query.name, query.quarantined)
        return bool(taken) or table_id is not None
