"""The rows of the system tables penstock.*, gathered on request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import Table
from penstock.catalog.secrets import shown_address, shown_options
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.clock import SECOND, format_timestamp
from penstock.database.parts import Parts
from penstock.database.status import damage_rows, input_rows, sensor_state
from penstock.errors import PenstockError
from penstock.operators.aggregate.rollups.notices import rollup_rows
from penstock.operators.mining.registry import FUNCTIONS as MINING
from penstock.security.caller import Caller, current_caller
from penstock.settings import SETTINGS
from penstock.sql.functions import FUNCTIONS
from penstock.sql.plan import SparkPlan
from penstock.statements.descriptions import describe_queries
from penstock.statements.permissions import the_caller
from penstock.types import Type
from penstock.views.query_state import NEVER


class SystemTables:
    """Facts about a running database, as rows."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def for_plan(self, plan: SparkPlan) -> dict[str, pa.Table]:
        """The system tables and states without end that a plan reads, as they are now, by relation."""
        system = {r.name: self.table(r.table) for r in plan.relations if r.kind == "system"}
        invoke = self._parts.standing.invoke
        return system | {r.name: invoke(r.table).table for r in plan.relations if r.kind == "state"}

    def table(self, name: str) -> pa.Table:
        parts = self._parts
        makers: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "penstock.sensors": self._sensor_rows,
            "penstock.queries": lambda: describe_queries(parts),
            "penstock.cycles": parts.costs.cycles,
            "penstock.units": lambda: parts.load.units(parts.costs.users, parts.catalog.state),
            "penstock.streams": self._stream_rows,
            "penstock.fields": self._field_rows,
            "penstock.rollups": lambda: rollup_rows(parts.catalog.state, parts.rollups.failures),
            "penstock.inputs": lambda: input_rows(parts.ways_in, parts.sources),
            "penstock.sinks": lambda: parts.sinks.facts(parts.catalog.state.sinks),
            "penstock.statements": self._statement_rows,
            "penstock.services": self._service_rows,
            "penstock.settings": self._setting_rows,
            "penstock.functions": self._function_rows,
            "penstock.damage": lambda: damage_rows(parts.damage, parts.standing),
        }
        rows = makers[name]()
        schema = pa.schema([pa.field(f.name, f.type.to_arrow()) for f in SYSTEM_TABLES[name]])
        return pa.Table.from_pylist(rows, schema=schema)

    def _stream_rows(self) -> list[dict[str, Any]]:
        parts = self._parts
        heads = parts.log.heads()
        out = []
        for table in parts.sensor_tables():
            try:
                counters, rows = parts.ingest.counters(table.name), parts.catalog.state.rows(table.id)
            except PenstockError:  # dropped a moment ago
                continue
            with parts.standing.locked() as store:
                known = store.state.tables_by_id.get(table.id)
                newest = store.newest.get(table.id)
            latest = int(newest.max(initial=NEVER)) if newest is not None and known is not None else NEVER
            out.append(
                {
                    **counters,
                    "table_name": table.name,
                    "sensors": rows.current().num_rows,
                    "open": parts.observer.manager.open_count(table.id),
                    "rows": heads.get(table.id, 0),
                    "files": _count_files(parts.folder.log / str(table.id)),
                    "rows_per_s": parts.sampler.rates.of(table),
                    "refused": sum(counters["refused"].values()),
                    "newest": latest if latest > NEVER else None,
                    "valid_time": table.options.time == "valid",
                }
            )
        return out

    def _field_rows(self) -> list[dict[str, Any]]:
        found = self._parts.sampler.distributions
        return [{"table_name": t.name, **row} for t in self._parts.sensor_tables() for row in found.of(t)]

    def _caller(self) -> Caller | None:
        """None for a standing query on a server with users, which asks in no user's name."""
        users = self._parts.users
        return None if current_caller() is None and users.required else the_caller(users)

    def _statement_rows(self) -> list[dict[str, Any]]:
        caller = self._caller()
        return self._parts.statements.visible(caller) if caller is not None else []

    def _service_rows(self) -> list[dict[str, Any]]:
        now_us = self._parts.clock.now_us()
        rows = [service.facts() for service in self._parts.services()]
        return [
            {**row, "last_success": None if row["succeeded_s"] is None else now_us - int(row["succeeded_s"] * SECOND)}
            for row in rows
        ]

    def _setting_rows(self) -> list[dict[str, Any]]:
        """Values tell folders and hosts, which no role below admin needs."""
        caller = self._caller()
        shown: dict[str, str] = {}
        if caller is not None and caller.role == "admin":
            shown = shown_options({s.name: str(getattr(self._parts.settings, s.name)) for s in SETTINGS})
        return [
            {"name": s.name, "value": shown.get(s.name), "default": str(s.default), "sentence": s.sentence}
            for s in SETTINGS
        ]

    def _function_rows(self) -> list[dict[str, Any]]:
        built_in = [
            {"name": name, "arguments": f.arguments, "result": f.result, "kind": f.kind, "built_in": True}
            for f in FUNCTIONS
            for name in f.names
        ]
        mining = [
            {
                "name": f.name,
                "arguments": ", ".join(
                    (*f.signature, *(f"{p.name} =>" for p in f.parameters if p.name not in f.signature))
                ),
                "result": str(f.result) if isinstance(f.result, Type) else "ARRAY",
                "kind": "aggregate",
                "built_in": True,
            }
            for f in MINING.values()
        ]
        own = [
            {
                "name": f.name,
                "arguments": ", ".join(f"{p.name} {p.type}" for p in f.parameters),
                "result": str(f.returns),
                "kind": "scalar" if f.state is None else "aggregate",
                "built_in": False,
                "language": f.language,
            }
            for f in self._parts.catalog.state.functions.values()
        ]
        return own + built_in + mining

    def _sensor_rows(self) -> list[dict[str, Any]]:
        out = []
        for table in self._parts.sensor_tables():
            with contextlib.suppress(PenstockError):  # dropped a moment ago
                for sensor in self.sensors(table):
                    key = ", ".join(str(sensor["key"][k]) for k in table.key)
                    last = sensor["last_reading_us"]
                    out.append({**sensor, "table_name": table.name, "sensor": key, "last_reading": last})
        return out

    def sensors(self, table: Table) -> list[dict[str, Any]]:
        """Static values and live state of each sensor of a table; none where it has no stream."""
        if table.stream is None:
            return []
        parts = self._parts
        states = {s.sid: s for s in parts.observer.manager.states(table.id)}
        closed = sensor_state(parts.sources, table)
        newest = self._newest_by_sid(table)
        counts = parts.ingest.sensors(table.name)
        rates = parts.sampler.rates.by_sid(table, counts["accepted"])
        out = []
        for row in parts.catalog.state.rows(table.id).current().to_pylist():
            sid = row["_sid"]
            live, last_us = states.get(sid), newest.get(sid)
            heard = sid < len(rates)
            out.append(
                {
                    "key": {k: row[k] for k in table.key},
                    "values": {c.name: row[c.name] for c in table.columns},
                    "address": shown_address(row["_address"]) if row["_address"] else row["_address"],
                    "state": live.state if live is not None else closed,
                    "readings": int(counts["accepted"][sid]) if heard else 0,
                    "rows_per_s": float(rates[sid]) if heard else 0.0,
                    **{n: int(counts[n][sid]) if heard else 0 for n in ("refused", "late", "clamped", "deduplicated")},
                    "errors": live.errors if live is not None else 0,
                    "last_error": live.last_error if live is not None else None,
                    "last_reading_us": last_us,
                    "last_reading": format_timestamp(last_us) if last_us is not None else None,
                }
            )
        return out

    def _newest_by_sid(self, table: Table) -> dict[int, int]:
        """The newest committed time of each sensor that has one."""
        with self._parts.standing.locked() as store:
            newest = store.newest.get(table.id, np.empty(0, np.int64))
            sids = store.state.rows(table.id).sids if table.id in store.state.tables_by_id else np.empty(0, np.int32)
        versions = np.flatnonzero(newest[: len(sids)] > NEVER)
        order = versions[np.argsort(newest[versions])]
        return dict(zip(sids[order].tolist(), newest[order].tolist(), strict=True))  # the latest of a sensor comes last


def _count_files(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except FileNotFoundError:  # nothing came yet, or the table was dropped a moment ago
        return 0
