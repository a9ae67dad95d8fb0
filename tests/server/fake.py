"""An honest in-memory database for tests of the API: it stores what is pushed and sends what is committed."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from prometheus_client.core import Metric

from penstock.cancellation import check
from penstock.database.status import LINES, WAYS_IN
from penstock.errors import PenstockError, error
from penstock.security.audit import Audit
from penstock.security.users import Cost, Users
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.line_points import LineReport
from penstock.streams.ingest.readings import IngestReceipt, ReadingRefusal
from penstock.views.results import Event, Health, Result

ANSWER = pa.table({"location": ["north gate", "pier"], "ppm": [37.5, 41.0]})


class FakeSubscription:
    cycle = 0  # everything up to it was given; pings carry it
    may_skip_cycles = False
    budget = "aggregates"

    def __init__(self, database: FakeDatabase, name: str, cycle: int) -> None:
        self.name = name
        self.closed = False
        self._database = database
        self._cycle = cycle
        self._callbacks: list[Callable[[], None]] = []

    def next(self, timeout_s: float) -> Event | None:
        with self._database.changed:
            self._database.changed.wait_for(self._ready, timeout_s)
            event = self._database.events.get(self.name, {}).get(self._cycle)
            if event is not None:
                self._cycle += 1
                return event
            if self.name not in self._database.definitions:
                raise error("query_not_found", query=self.name)
            return None

    def _ready(self) -> bool:
        return self._cycle in self._database.events.get(self.name, {})

    def on_ready(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def skip_cycles(self) -> None:
        raise AssertionError("its subscriber receives every cycle")

    def call_back(self) -> None:
        for callback in self._callbacks:
            callback()

    def close(self) -> None:
        self.closed = True


def clean_up(audit: Audit, folder: Path) -> None:
    audit.close()
    shutil.rmtree(folder, ignore_errors=True)


class FakeDatabase:
    """Tables "sensors" (sensor_id, ppm); a query answers ANSWER; `commit` pushes an event."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="penstock-fake-"))
        self.users = Users(folder, cost=Cost(1, 1, 1))
        self.audit = Audit(folder)
        weakref.finalize(self, clean_up, self.audit, folder)
        self.ways_in = {way: InputCounts() for way in (*WAYS_IN, LINES)}
        self.changed = threading.Condition()
        self.started = False
        self.stopped = False
        self.statements: list[tuple[str, Any]] = []
        self.owners: list[str | None] = []
        self.asked_as_of: list[int | str | None] = []
        self.asked_final: list[bool] = []
        self.readings: list[dict[str, Any]] = []
        self.receipts: dict[str, IngestReceipt] = {}
        self.asked_tables: list[str] = []  # of each push, refused or not
        self.pushes: list[tuple[str, str | None, int]] = []
        self.events: dict[str, dict[int, Event]] = {}
        self.definitions = {"gas_alarm": "SELECT location, ppm FROM sensors WHERE ppm > 35"}
        self.subscriptions: list[FakeSubscription] = []
        self.result = Result(ANSWER, cycle=7, now_us=1_700_000_000_000_000)
        self.health_now = Health(True, "ready", {"cycle": 7})
        self.fail: BaseException | None = None
        self.fail_pushes = 0
        self.oldest_cycle = 0
        self.start_error: PenstockError | None = None
        self.backups: list[Path] = []
        self.endless = 0
        self.damaged: list[str] = []

    def start(self, progress: Callable[[str], None]) -> None:
        progress("opening the log")
        if self.start_error is not None:
            raise self.start_error
        progress("starting Spark")
        self.started = True

    def stop(self) -> None:
        self.stopped = True

    def execute(self, sql: str, params: Any = None, owner: str | None = None) -> Result:
        self.statements.append((sql, params))
        self.owners.append(owner)
        if self.fail is not None:
            raise self.fail
        if "forever" in sql:
            self._run_forever()
        if "pmp" in sql:
            problem = error("column_not_found", table="sensors", column="pmp", hint='did you mean "ppm"?')
            raise problem.at(sql, 1, sql.index("pmp") + 1, 3)
        if sql.startswith("DROP QUERY"):
            name = sql.split('"')[1] if '"' in sql else sql.split()[2].strip(";")
            if self.definitions.pop(name, None) is None:
                raise error("query_not_found", query=name)
            self.wake()
            return Result(pa.table({}), done="DROP QUERY")
        if sql.startswith(("CREATE", "ALTER", "INSERT")):
            return Result(pa.table({}), done=" ".join(sql.split()[:2]), notices=("noted",))
        return self.result

    def _run_forever(self) -> None:
        """Until it is cancelled."""
        self.endless += 1
        try:
            while True:
                check()
                time.sleep(0.005)
        finally:
            self.endless -= 1

    def push(self, table: str, data: Any, idempotency_key: str | None = None) -> IngestReceipt:
        self.asked_tables.append(table)
        if self.fail_pushes:
            self.fail_pushes -= 1
            raise error("too_busy", detail="the queue is full")
        if self.fail is not None:
            raise self.fail
        if table != "sensors":
            raise error("table_not_found", table=table)
        with self.changed:
            if idempotency_key in self.receipts:
                return self.receipts[str(idempotency_key)]
            rows = data.to_pylist() if isinstance(data, pa.Table) else data
            refused = tuple(
                ReadingRefusal(index, "sensor_not_found", f"no sensor {row['sensor_id']}")
                for index, row in enumerate(rows)
                if int(row.get("sensor_id", 1)) < 0
            )
            bad = {refusal.index for refusal in refused}
            self.readings.extend(row for index, row in enumerate(rows) if index not in bad)
            self.pushes.append((type(data).__name__, idempotency_key, len(rows)))
            receipt = IngestReceipt(len(rows) - len(refused), refused, len(self.readings))
            if idempotency_key:
                self.receipts[idempotency_key] = receipt
            return receipt

    def write_lines(self, body: bytes, precision: str = "ns") -> LineReport:
        """Tests of the line protocol have a real database behind them."""
        raise NotImplementedError

    def invoke(
        self, name: str, as_of: int | str | None = None, limit: int | None = None, offset: int = 0, final: bool = False
    ) -> Result:
        self.query(name)
        self.asked_as_of.append(as_of)
        cycle = as_of if isinstance(as_of, int) else 7
        return Result(self.result.table.slice(offset, limit), cycle=cycle, now_us=self.result.now_us)

    def subscribe(
        self, name: str, from_cycle: int | None = None, changes: bool = False, final: bool = False
    ) -> FakeSubscription:
        self.query(name)
        if from_cycle is not None and from_cycle < self.oldest_cycle:
            raise error("cycle_gone", cycle=from_cycle, oldest=self.oldest_cycle)
        first = min(self.events.get(name, {0: None}))
        subscription = FakeSubscription(self, name, first if from_cycle is None else from_cycle)
        self.subscriptions.append(subscription)
        self.asked_final.append(final)
        return subscription

    def commit(self, name: str, cycle: int, table: pa.Table = ANSWER) -> None:
        with self.changed:
            self.events.setdefault(name, {})[cycle] = Event(cycle, 1_700_000_000_000_000 + cycle, table)
        self.wake()

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()
        for subscription in list(self.subscriptions):
            subscription.call_back()

    def register(
        self,
        queries: Sequence[Mapping[str, Any]],
        on_error: Literal["none", "rest"] = "none",
        owner: str | None = None,
    ) -> list[dict[str, Any]]:
        for index, query in enumerate(queries):
            if "pmp" in query["sql"]:
                problem = error("column_not_found", table="sensors", column="pmp")
                problem.at(query["sql"], 1, query["sql"].index("pmp") + 1, 3)
                raise problem.of_many(index, query["name"], len(queries))
        self.definitions.update((q["name"], q["sql"]) for q in queries)
        self.owners.append(owner)
        return [{"name": q["name"], "error": None} for q in queries]

    def queries(self) -> list[dict[str, Any]]:
        return [self.query(name) for name in sorted(self.definitions)]

    def query(self, name: str) -> dict[str, Any]:
        if name not in self.definitions:
            raise error("query_not_found", query=name)
        return {"name": name, "sql": self.definitions[name], "state": "running"}

    def answer_reads(self) -> list[Metric]:
        return []

    def costliest(self, count: int) -> list[dict[str, Any]]:
        facts = {"ms": 1.5, "rows": 7, "bytes": 30, "matched": 7, "evaluations": 2, "invocations": 0}
        return [{**query, **facts} for query in self.queries()][:count]

    def tables(self) -> list[dict[str, Any]]:
        return [self.table("sensors")]

    def table(self, name: str) -> dict[str, Any]:
        if name != "sensors":
            raise error("table_not_found", table=name)
        types = {"sensor_id": "INT", "location": "TEXT", "ppm": "DOUBLE", "ts": "TIMESTAMP"}
        columns = [{"name": column, "type": type} for column, type in types.items()]
        stream = {"name": "reading", "fields": [{"name": "ppm", "type": "DOUBLE"}]}
        return {"name": name, "columns": columns, "key": ["sensor_id"], "stream": stream}

    def sensors(self, table: str) -> list[dict[str, Any]]:
        self.table(table)
        values = {"sensor_id": 1, "location": "north gate", "built": datetime(2020, 1, 1), "cost": Decimal("1.10")}
        return [{"key": {"sensor_id": 1}, "values": values, "address": "plant/1", "state": "open"}]

    def running_statements(self) -> list[dict[str, Any]]:
        return []

    def cancel_statement(self, statement_id: str) -> None:
        raise error("statement_not_found", statement=statement_id)

    def health(self) -> Health:
        return self.health_now

    def status(self) -> dict[str, Any]:
        return {
            "cycle": 7,
            "ready": True,
            "lag_rows": 0,
            "tables": {"sensors": {"head": len(self.readings), "rows_per_s": 1.5}},
            "queries": [{"name": 'odd "name"', "rows": 2}],
        }

    def backup(self, target: Path, link: bool = False) -> list[str]:
        target.mkdir(exist_ok=True)
        (target / "format_version").write_text("1")
        self.backups.append(target)
        return list(self.damaged)
