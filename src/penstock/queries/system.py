"""Asked about the system itself: the tables penstock.*, SHOW, /v1/status, and how complete an answer is."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa

from penstock.catalog.model import QueryDefinition, Table
from penstock.catalog.state import CatalogState
from penstock.clock import SECOND, format_timestamp
from penstock.operators.windows import RowsWindow, TimeWindow, Window
from penstock.pipeline.commits import CommitRecord
from penstock.queries.answers import NEVER
from penstock.queries.observing import streams_of
from penstock.queries.results import Result
from penstock.sql.plan import SelectPlan, SparkPlan, plan_from_json
from penstock.streams.initial_scan import surviving
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT, TIMESTAMP, Field, format_duration

if TYPE_CHECKING:
    from penstock.queries.database import Database

SYSTEM_TABLES: dict[str, tuple[Field, ...]] = {
    "penstock.sensors": (
        Field("table_name", TEXT),
        Field("sensor", TEXT),
        Field("address", TEXT),
        Field("state", TEXT),
        Field("readings", BIGINT),
        Field("errors", BIGINT),
        Field("last_error", TEXT),
        Field("last_reading", TIMESTAMP),
    ),
    "penstock.queries": (
        Field("name", TEXT),
        Field("state", TEXT),
        Field("runs", TEXT),
        Field("window", TEXT),
        Field("matched", BIGINT),
        Field("progress", DOUBLE),
        Field("seconds", DOUBLE),
        Field("sql", TEXT),
    ),
    "penstock.cycles": (
        Field("cycle", BIGINT),
        Field("now", TIMESTAMP),
        Field("rows", BIGINT),
        Field("matched", BIGINT),
        Field("ms", DOUBLE),
        Field("journal", BIGINT),
        Field("filling", BIGINT),
    ),
    "penstock.streams": (
        Field("table_name", TEXT),
        Field("sensors", BIGINT),
        Field("open", BIGINT),
        Field("rows", BIGINT),
        Field("files", BIGINT),
        Field("accepted", BIGINT),
        Field("refused", BIGINT),
        Field("late", BIGINT),
        Field("clamped", BIGINT),
        Field("deduplicated", BIGINT),
        Field("newest", TIMESTAMP),
        Field("valid_time", BOOLEAN),
    ),
}
CYCLES_SHOWN = 1000


class SystemTables:
    """Facts about a running database, gathered when somebody asks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cycles: deque[dict[str, Any]] = deque(maxlen=CYCLES_SHOWN)
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def note_cycle(self, record: CommitRecord) -> None:
        rows = sum(e - record.start.data.get(t, 0) for t, e in record.end.data.items())
        kinds, counts = record.results.column("kind").to_pylist(), record.results.column("rows").to_pylist()
        matched = sum(c for k, c in zip(kinds, counts, strict=True) if k == "match")
        with self._lock:
            self._cycles.append(
                {
                    "cycle": record.cycle,
                    "now": record.end.now_us,
                    "rows": rows,
                    "matched": matched,
                    "ms": record.info.get("ms"),
                    "journal": record.end.journal,
                    "filling": len(record.end.fill),
                }
            )

    def for_plan(self, plan: SparkPlan) -> dict[str, pa.Table]:
        """The system tables that a plan reads, as they are now."""
        return {r.table: self.table(r.table) for r in plan.relations if r.kind == "system"}

    def table(self, name: str) -> pa.Table:
        rows = {
            "penstock.sensors": self._sensor_rows,
            "penstock.queries": self._query_rows,
            "penstock.cycles": self._cycle_rows,
            "penstock.streams": self._stream_rows,
        }[name]()
        schema = pa.schema([pa.field(f.name, f.type.to_arrow()) for f in SYSTEM_TABLES[name]])
        return pa.Table.from_pylist(rows, schema=schema)

    def _cycle_rows(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._cycles)

    def _query_rows(self) -> list[dict[str, Any]]:
        return [
            {**q, "window": q["window"] or None, "progress": q["progress"], "seconds": q["seconds"]}
            for q in self.queries()
        ]

    def _stream_rows(self) -> list[dict[str, Any]]:
        database = self._database
        heads = database.log.heads()
        out = []
        for table in _sensor_tables(database.catalog.state):
            counters = database.ingest.counters(table.name)
            with database.standing.locked() as store:
                known = store.state.tables_by_id.get(table.id)
                newest = store.newest.get(table.id)
            latest = int(newest.max(initial=NEVER)) if newest is not None and known is not None else NEVER
            folder = database.folder.log / str(table.id)
            out.append(
                {
                    "table_name": table.name,
                    "sensors": database.catalog.state.rows(table.id).current().num_rows,
                    "open": database.observer.manager.open_count(table.id),
                    "rows": heads.get(table.id, 0),
                    "files": sum(1 for _ in folder.iterdir()) if folder.exists() else 0,
                    "accepted": counters["accepted"],
                    "refused": sum(counters["refused"].values()),
                    "late": counters["late"],
                    "clamped": counters["clamped"],
                    "deduplicated": counters["deduplicated"],
                    "newest": latest if latest > NEVER else None,
                    "valid_time": table.options.time == "valid",
                }
            )
        return out

    def _sensor_rows(self) -> list[dict[str, Any]]:
        out = []
        for table in _sensor_tables(self._database.catalog.state):
            for sensor in self.sensors(table):
                key = ", ".join(str(sensor["key"][k]) for k in table.key)
                last = sensor["last_reading_us"]
                out.append({**sensor, "table_name": table.name, "sensor": key, "last_reading": last})
        return out

    def sensors(self, table: Table) -> list[dict[str, Any]]:
        """Static values and live state of each sensor of a table."""
        database = self._database
        states = {s.sid: s for s in database.observer.manager.states(table.id)}
        pushed = table.stream is not None and table.stream.connector is None
        with database.standing.locked() as store:
            newest = store.newest.get(table.id, np.empty(0, np.int64))
            sids = store.state.rows(table.id).sids if table.id in store.state.tables_by_id else np.empty(0, np.int32)
        by_sid: dict[int, int] = {}
        for vid in np.flatnonzero(newest > NEVER).tolist():
            if vid < len(sids):
                by_sid[int(sids[vid])] = max(by_sid.get(int(sids[vid]), NEVER), int(newest[vid]))
        out = []
        for row in database.catalog.state.rows(table.id).current().to_pylist():
            live = states.get(row["_sid"])
            last_us = by_sid.get(row["_sid"])
            out.append(
                {
                    "key": {k: row[k] for k in table.key},
                    "values": {c.name: row[c.name] for c in table.columns},
                    "address": row["_address"],
                    "state": live.state if live is not None else ("pushed" if pushed else "closed"),
                    "readings": live.readings if live is not None else None,
                    "errors": live.errors if live is not None else 0,
                    "last_error": live.last_error if live is not None else None,
                    "last_reading_us": last_us,
                    "last_reading": format_timestamp(last_us) if last_us is not None else None,
                }
            )
        return out

    def tables(self) -> list[dict[str, Any]]:
        state = self._database.catalog.state
        out = []
        for table in sorted(state.tables.values(), key=lambda t: t.name):
            stream = table.stream
            options = table.options
            out.append(
                {
                    "name": table.name,
                    "columns": [{"name": c.name, "type": str(c.type)} for c in table.flat_columns()],
                    "key": list(table.key),
                    "stream": None
                    if stream is None
                    else {
                        "name": stream.name,
                        "type": stream.stream_type,
                        "connector": stream.connector,
                        "fields": [{"name": f.name, "type": str(f.type)} for f in stream.fields],
                    },
                    "options": {
                        "time": options.time,
                        "out_of_order": options.out_of_order,
                        "retention": format_duration(options.retention_us) if options.retention_us else None,
                        "idle": format_duration(options.idle_us),
                        "max_ahead": format_duration(options.max_ahead_us),
                        "always_on": options.always_on,
                    },
                }
            )
        return out

    def queries(self) -> list[dict[str, Any]]:
        database = self._database
        out = []
        with database.standing.locked() as store:
            for definition in sorted(database.catalog.state.queries.values(), key=lambda q: q.name):
                plan = plan_from_json(definition.plan)
                answer = store.answers.get(definition.id)
                failure = database.spark_queries.failure(definition.id)
                message = answer.error if answer is not None else failure.message if failure is not None else None
                state, progress = "RUNNING", 1.0
                if definition.paused:
                    state = "PAUSED"
                elif isinstance(plan, SelectPlan) and answer is None:
                    state, progress = "STARTING", 0.0
                elif message is not None:
                    state = "FAILED"
                elif answer is not None and answer.filling is not None:
                    state, progress = "FILLING", answer.progress
                elif definition.id in database.standing.finished:
                    state = "FINISHED"
                out.append(
                    {
                        "name": definition.name,
                        "id": definition.id,
                        "sql": definition.sql,
                        "state": state,
                        "progress": round(progress, 4),
                        "runs": "shared pass" if isinstance(plan, SelectPlan) else "Spark SQL",
                        "reason": None if isinstance(plan, SelectPlan) else plan.reason,
                        "window": str(plan.window) if isinstance(plan, SelectPlan) else None,
                        "matched": answer.matched if answer is not None else None,
                        "error": message,
                        "seconds": database.spark_queries.seconds(definition.id),
                    }
                )
        return out

    def failures(self) -> dict[str, Any]:
        """For health: how many queries of the shared pass fail, and which files are damaged."""
        with self._database.standing.locked() as store:
            failed = [a for a in store.answers.values() if a.error is not None]
        if not failed:
            return {}
        damage = sorted({a.error for a in failed if a.error and a.error_condition == "corrupt_segment"})
        return {"failed_queries": len(failed), "damage": damage}

    def status(self) -> dict[str, Any]:
        """Cycles, rates and lag in numbers."""
        database = self._database
        with self._lock:
            recent = list(self._cycles)[-60:]
        offset = database.standing.store.offset
        heads = database.log.heads()
        lag = sum(h - (offset.data.get(t, 0) if offset else 0) for t, h in heads.items())
        span_us = recent[-1]["now"] - recent[0]["now"] if len(recent) > 1 else 0
        taken = sum(c["rows"] for c in recent[1:])
        times = sorted(c["ms"] for c in recent if c["ms"] is not None)
        process = psutil.Process()
        members = [process, *process.children(recursive=True)]
        return {
            "ready": database.health().ready,
            "uptime_s": round(time.monotonic() - self._began, 1),
            "cycle": database.standing.store.cycle,
            "now": format_timestamp(offset.now_us) if offset else None,
            "journal": database.catalog.state.position,
            "rows_behind": lag,
            "rows_per_s": round(taken / (span_us / SECOND), 1) if span_us else 0.0,
            "rows_per_cycle": sorted(c["rows"] for c in recent)[len(recent) // 2] if recent else 0,
            "cycle_ms_p50": times[len(times) // 2] if times else None,
            "cycle_ms_p99": times[int(len(times) * 0.99)] if times else None,
            "tables": len(database.catalog.state.tables),
            "queries": len(database.catalog.state.queries),
            "sensors_open": database.observer.manager.open_count(),
            "restarts": database.engine.restarts,
            "memory_bytes": sum(_resident(p) for p in members),
            "streams": self._stream_status(),
        }

    def _stream_status(self) -> dict[str, Any]:
        return {t.name: self._database.ingest.counters(t.name) for t in _sensor_tables(self._database.catalog.state)}

    def with_completeness(self, result: Result, definition: QueryDefinition) -> Result:
        """Say from when on the answer is complete, where that is later than its window's beginning."""
        plan = plan_from_json(definition.plan)
        if isinstance(plan, SelectPlan) and isinstance(plan.window, RowsWindow):
            return result
        state = self._database.catalog.state
        windows: list[Window] = [plan.window] if isinstance(plan, SelectPlan) else []
        if isinstance(plan, SparkPlan):
            windows = [r.window for r in plan.relations if r.window is not None]
        spans = [w for w in windows if isinstance(w, TimeWindow)]
        if not spans or result.now_us is None:
            return result
        start_us = definition.start_us if definition.start_us is not None else result.now_us
        begin = min(w.resolve(result.now_us, start_us)[0] for w in spans)
        known_from = max(
            [t for t in (observed_from(definition, state), self._kept_from(definition)) if t is not None], default=begin
        )
        return replace(result, complete_from_us=known_from) if known_from > begin else result

    def _kept_from(self, definition: QueryDefinition) -> int | None:
        """Since when nothing that the query reads has been thrown away; None where nothing ever was."""
        kept: list[int] = []
        with self._database.standing.locked() as store:
            for table_id, _ in streams_of(definition, store.state):
                table = store.state.tables_by_id.get(table_id)
                if table is None or table.options.retention_us is None or not store.state.retention(table_id):
                    continue
                # A row goes when it is older than this at the table's own NOW, whatever the query's NOW is.
                now_us = store.now_of(table, None)
                if now_us is not None:
                    kept.append(now_us - table.options.retention_us)
        return max(kept, default=None)


def observed_from(definition: QueryDefinition, state: CatalogState) -> int | None:
    """Since when every sensor that the query reads has been observed without a break."""
    latest: int | None = None
    for table_id, predicate in streams_of(definition, state):
        seen = state.observations(table_id)
        for sid in surviving(predicate, state.rows(table_id)).tolist():
            spans = seen.get(sid)
            if spans and spans[-1][1] is None:
                latest = max(latest or 0, spans[-1][0])
    return latest


def _sensor_tables(state: CatalogState) -> list[Table]:
    return [t for t in sorted(state.tables.values(), key=lambda t: t.name) if t.stream is not None]


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
