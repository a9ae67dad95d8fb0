"""/v1/status and the details of health: the whole server in numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import psutil

from penstock.clock import SECOND, format_timestamp
from penstock.clock_guard import clock_status
from penstock.database.damage import damage_rows
from penstock.database.inputs import input_facts
from penstock.database.parts import Parts

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
    clock = clock_status(parts.clock)
    process = psutil.Process()
    return {
        "ready": parts.health().ready,
        "uptime_s": round(parts.uptime_s(), 1),
        "cycle": parts.standing.store.cycle,
        "now": format_timestamp(offset.now_us) if offset else None,
        "journal": parts.catalog.state.position,
        "rows_behind": lag,
        "follower_lag_cycles": parts.follower.lag,
        "rows_per_s": round(taken / (span_us / SECOND), 1) if span_us else 0.0,
        "rows_per_cycle": sorted(c["rows"] for c in recent)[len(recent) // 2] if recent else 0,
        "cycle_ms_p50": times[len(times) // 2] if times else None,
        "cycle_ms_p99": times[int(len(times) * 0.99)] if times else None,
        "tables": len(parts.catalog.state.tables),
        "queries": len(parts.catalog.state.queries),
        "sensors_open": parts.observer.manager.open_count(),
        "restarts": parts.engine.restarts,
        "memory_bytes": sum(_resident(p) for p in [process, *process.children(recursive=True)]),
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
    damage = [f"{row['file']}: {row['detail']}" for row in damage_rows(parts.damage, parts.standing) if _is_open(row)]
    return {
        **({"failed_queries": len(failed)} if failed else {}),
        **({"quarantined_queries": quarantined} if quarantined else {}),
        **({"damage": damage} if damage or failed else {}),
    }


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _is_open(damage: dict[str, Any]) -> bool:
    return not damage["healed"] and not damage["accepted"]
