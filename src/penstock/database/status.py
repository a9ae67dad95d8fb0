"""The whole server in numbers: /v1/status, the details of health, inputs, damaged files, and what it uses of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from penstock.catalog.model import Table
from penstock.clock import SECOND, format_timestamp
from penstock.clock_guard import clock_status
from penstock.damage import CONDITIONS_OF_DAMAGE, DamageReport, file_named
from penstock.database.parts import Parts
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.log.segments import list_files
from penstock.streams.sources.table_sources import Sources
from penstock.types import format_duration
from penstock.views.standing_queries import StandingQueries

_RECENT_CYCLES = 60
_OF_SINKS = ("state", "cycle", "lag", "waiting", "rows", "deliveries", "failed", "retries", "gaps")


def status(parts: Parts) -> dict[str, Any]:
    """Cycles, rates and lag in numbers."""
    recent = parts.costs.cycles()[-_RECENT_CYCLES:]
    offset = parts.standing.store.offset
    heads = parts.log.heads()
    lag = sum(h - (offset.data.get(t, 0) if offset else 0) for t, h in heads.items())
    span_us = recent[-1]["now"] - recent[0]["now"] if len(recent) > 1 else 0
    taken = sum(c["rows"] for c in recent[1:])
    times = sorted(c["ms"] for c in recent if c["ms"] is not None)
    sinks = parts.sinks.facts(parts.catalog.state.sinks)
    clock, load = clock_status(parts.clock), parts.load.figures()
    return {
        "cycle": parts.standing.store.cycle,
        "now": format_timestamp(offset.now_us) if offset else None,
        "journal": parts.catalog.state.position,
        "rows_behind": lag,
        "follower_lag_cycles": parts.follower.lag,
        "rows_per_s": round(taken / (span_us / SECOND), 1) if span_us else 0.0,
        "rows_per_cycle": sorted(c["rows"] for c in recent)[len(recent) // 2] if recent else 0,
        "cycle_ms_p50": times[len(times) // 2] if times else None,
        "cycle_ms_p99": times[int(len(times) * 0.99)] if times else None,
        "load": load["load"],
        "load_limit": load["limit"],
        "load_base_ms": load["base_ms"],
        "load_row_us": load["row_us"],
        "delay_ms": load["delay_ms"],
        "tables": len(parts.catalog.state.tables),
        "queries": len(parts.catalog.state.queries),
        "sensors_open": parts.observer.manager.open_count(),
        "restarts": parts.engine.restarts,
        "memory_bytes": sum(process.bytes for process in Processes().look()),
        "streams": {
            t.name: {"rows_per_s": parts.sampler.rates.of(t), **parts.ingest.counters(t.name)}
            for t in parts.sensor_tables()
        },
        "inputs": input_facts(parts.ways_in, parts.sources),
        "clock": {
            "held": clock.state != "followed",
            "step_s": round(clock.step_us / SECOND, 3),
            "retention_lag_s": round(clock.retention_lag_us / SECOND),
        },
        "backups": {target: asdict(progress) for target, progress in list(parts.backups.items())},
        "services": {service.name: service.counts() for service in parts.services()},
        "sinks": {sink["name"]: {fact: sink.get(fact) for fact in _OF_SINKS} for sink in sinks},
    }


def failures(parts: Parts) -> dict[str, Any]:
    """For health: how many queries of the shared pass fail, and which files are damaged."""
    with parts.standing.locked() as store:
        failed = [answer for answer in store.answers.values() if answer.error is not None]
    quarantined = sum(answer.error_condition == "query_quarantined" for answer in failed)
    rows = damage_rows(parts.damage, parts.standing)
    damage = [f"{row['file']}: {row['detail']}" for row in rows if not row["healed"] and not row["accepted"]]
    return {
        **({"failed_queries": len(failed)} if failed else {}),
        **({"quarantined_queries": quarantined} if quarantined else {}),
        **({"damage": damage} if damage or failed else {}),
    }


# Ways in that the server is called by: of these two it counts everything, of lines what is refused as a whole.
WAYS_IN = ("http", "websocket")
LINES = "line protocol"
_NAMES_SHOWN = 20
_NUMBERS = ("messages", "bytes", "accepted", "duplicates", "refused", "ignored", "in_flight", "connects")
# How a sensor looks whose table is read by a source in this state.
_SENSOR_STATES = {"connected": "open", "connecting": "opening", "backing off": "backing off", "stopped": "closed"}


def input_rows(ways_in: Mapping[str, InputCounts], sources: Sources) -> list[dict[str, Any]]:
    """One record per way in; `reasons` and `ignored_names` as texts."""
    return [
        {
            **facts,
            "refused": sum(facts["refused"].values()),
            "reasons": ", ".join(f"{condition} {count}" for condition, count in sorted(facts["refused"].items())),
            "ignored_names": ", ".join(facts["ignored_names"][:_NAMES_SHOWN]),
        }
        for facts in _facts(ways_in, sources)
    ]


def input_facts(ways_in: Mapping[str, InputCounts], sources: Sources) -> dict[str, dict[str, Any]]:
    """Numbers by name; `refused` by condition, `connected` as 0 or 1."""
    return {
        facts["name"]: {
            **{name: facts[name] for name in _NUMBERS if name in facts},
            "connected": int(facts["state"] in ("connected", "open")),
        }
        for facts in _facts(ways_in, sources)
    }


def sensor_state(sources: Sources, table: Table) -> str:
    """The state of a sensor that the stream manager does not open."""
    if table.stream is None or table.stream.connector is None:
        return "pushed"
    state = sources.state_of(table.id)
    return "closed" if state is None else _SENSOR_STATES[state]


def _facts(ways_in: Mapping[str, InputCounts], sources: Sources) -> list[dict[str, Any]]:
    called = [
        {
            "name": way,
            "kind": way,
            "state": "open",
            "last_error": counts.last_problem,
            "ignored_names": counts.ignored_names(),
            **counts.as_dict(),
        }
        for way, counts in ways_in.items()
    ]
    return [*called, *sources.facts()]


def damage_rows(report: DamageReport, standing: StandingQueries) -> list[dict[str, Any]]:
    """One row per damaged file, the oldest first."""
    queries = failing_queries(report, standing)
    return [
        {
            **asdict(row),
            "since": row.since_us,
            "healed": row.healed and row.file not in queries,
            "queries": ", ".join(sorted(queries.get(row.file, ()))) or None,
        }
        for row in report.rows()
    ]


def failing_queries(report: DamageReport, standing: StandingQueries) -> dict[str, set[str]]:
    """By damaged file: the standing queries that fail because of it. Files that are not known yet are noted."""
    with standing.locked() as store:
        known = store.state.queries_by_id
        failed = [
            (known[query_id].name, answer.error)
            for query_id, answer in store.answers.items()
            if answer.error is not None and answer.error_condition in CONDITIONS_OF_DAMAGE and query_id in known
        ]
    found: dict[str, set[str]] = {}
    noted = {row.file for row in report.rows()}
    for name, message in failed:
        file = file_named(message)
        found.setdefault(file, set()).add(name)
        if file not in noted:
            report.note(file, file.split("/", 1)[0], message)
            noted.add(file)
    return found


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of the log of one table. Retention deleted the rows before `first`."""

    table: str
    bytes: int
    files: int
    first: int
    head: int
    oldest_us: int | None
    newest_us: int | None
    retention: str | None
    retention_us: int | None


def log_sizes(parts: Parts) -> list[LogSize]:
    """From the names of the files and their sizes; nothing is read."""
    return [_log_size(parts, table) for table in parts.sensor_tables()]


def _log_size(parts: Parts, table: Table) -> LogSize:
    files = list_files(parts.folder.log / str(table.id))
    size = 0
    for segment in files:
        with contextlib.suppress(FileNotFoundError):  # compaction has replaced it
            size += segment.path.stat().st_size
    retention_us = table.options.retention_us
    return LogSize(
        table=table.name,
        bytes=size,
        files=len(files),
        first=parts.log.floor(table.id),
        head=parts.log.head(table.id),
        oldest_us=min((s.min_ts for s in files), default=None),
        newest_us=max((s.max_ts for s in files), default=None),
        retention=format_duration(retention_us) if retention_us else None,
        retention_us=retention_us,
    )


@dataclass(frozen=True, slots=True)
class Process:
    """One of the server's processes; `cpu` is in processors since the last look at it."""

    pid: int
    role: str
    cpu: float
    bytes: int
    threads: int


class Processes:
    """Remembers processes between requests, so that their CPU time can be compared."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def look(self) -> list[Process]:
        """This process first, then those below it, the biggest first."""
        here = psutil.Process()
        alive = {p.pid: self._known.get(p.pid, p) for p in [here, *here.children(recursive=True)]}
        self._known = alive
        found = []
        for pid, process in alive.items():
            try:
                with process.oneshot():
                    role = "server" if pid == here.pid else _role(process)
                    memory = int(process.memory_info().rss)
                    found.append(Process(pid, role, process.cpu_percent() / 100, memory, process.num_threads()))
            except psutil.Error:
                continue  # it ended meanwhile
        return sorted(found, key=lambda p: (p.role != "server", -p.bytes))


def _role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "java" in process.name():
        return "Spark (Java)"
    if "pyspark.daemon" in line or "pyspark/daemon" in line:
        return "worker"
    if "planner" in line or "data_source" in line:
        return "planner"
    return "worker" if "python" in process.name() else process.name()
