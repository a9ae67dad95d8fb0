"""How the server is: GET /v1/health, /v1/status and /metrics. POST /v1/backup: a copy of its data folder while everything goes on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import error
from penstock.server.http.access import is_local_client
from penstock.server.http.body import read_model
from penstock.server.http.context import Context, caller_of, context_of, needs
from penstock.server.http.encode import json_response
from penstock.server.models import ERRORS, BackupRequest, HealthReport, json_body
from penstock.views.results import Health

router = APIRouter(tags=["system"])


@router.get(
    "/v1/health",
    summary="Ready or not, and why",
    responses={200: {"model": HealthReport}, 503: {"model": HealthReport, "description": "not ready"}},
)
@needs(None)
async def health(request: Request) -> Response:
    """Answers without a role too, then with one word."""
    context: Context = request.app.state.context
    if context.lifecycle.ready:
        found = await context.workers.system.run(context.database.health)
    else:
        found = Health(False, context.lifecycle.reason)
    if caller_of(request).role is None:
        # A reason may name files, tables and versions.
        found = Health(found.ready, "ready" if found.ready else "unready")
    body = {"ready": found.ready, "reason": found.reason, "details": found.details}
    return json_response(body, 200 if found.ready else 503)


@router.get("/v1/status", summary="Cycles, rates, lag", responses=ERRORS)
async def status(request: Request) -> Response:
    context = context_of(request)
    return await context.workers.system.run(lambda: json_response(context.database.status()))


# The costliest; a scrape has at most so many series for each of the numbers below.
QUERIES_SHOWN = 50
_OF_QUERIES = {
    "ms": "milliseconds_total",
    "asked_ms": "invocation_milliseconds_total",
    "rows": "rows_total",
    "matched": "matched",
    "evaluations": "evaluations_total",
    "invocations": "invocations_total",
    "memory": "memory_bytes",
}
# A series more of one name is left out: a thousand tables are too many for a collector, too.
SERIES_MAX = 500
# What only grows while the server runs, by the group of the status that it stands in.
_COUNTED = {
    "streams": frozenset({"accepted", "late", "clamped", "unordered", "deduplicated", "failed", "discovered"}),
    "inputs": frozenset({"messages", "bytes", "accepted", "duplicates", "ignored"}),
    "services": frozenset({"rounds", "failures"}),
    "sinks": frozenset({"rows", "deliveries", "failed", "retries", "gaps"}),
}

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


def status_samples(status: Mapping[str, Any], prefix: str = "penstock", labels: Labels = ()) -> Iterator[Sample]:
    """Every number of a status document. A group of records, e.g. under `tables`, becomes the label `table`.

    What was refused is counted by its condition, a label: those are few and known.
    """
    counted: frozenset[str] = _COUNTED.get(prefix.removeprefix("penstock_"), frozenset()) if labels else frozenset()
    for key, value in status.items():
        name = f"{prefix}_{re.sub(r'[^a-zA-Z0-9_]', '_', str(key))}"
        if isinstance(value, bool | int | float):
            yield f"{name}_total" if key in counted else name, labels, float(value)
        elif isinstance(value, Mapping) and key == "refused":
            for condition, count in value.items():
                yield f"{name}_total", (*labels, ("condition", str(condition))), float(count)
        elif isinstance(value, Mapping):
            if value and all(isinstance(part, Mapping) for part in value.values()):
                for member, part in value.items():
                    yield from status_samples(part, name, (*labels, (_singular(str(key)), str(member))))
            else:
                yield from status_samples(value, name, labels)
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, Mapping) and "name" in part:
                    yield from status_samples(part, name, (*labels, (_singular(str(key)), str(part["name"]))))


def query_samples(queries: list[dict[str, Any]]) -> Iterator[Sample]:
    """What some queries cost. Never of all: ten thousand series a number are too many for a collector."""
    for facts in queries:
        labels = (("query", str(facts["name"])),)
        for fact, name in _OF_QUERIES.items():
            if facts.get(fact) is not None:
                yield f"penstock_query_{name}", labels, float(facts[fact])


def _singular(word: str) -> str:
    word = re.sub(r"[^a-zA-Z0-9_]", "_", word)
    if word.endswith("ies"):
        return word.removesuffix("ies") + "y"
    return word.removesuffix("s")


def families(samples: Iterable[Sample], documentation: str = "A number of GET /v1/status.") -> Iterable[Metric]:
    """Samples as metrics of the library, those of one name together."""
    found: dict[str, Metric] = {}
    for name, labels, value in samples:
        if name not in found:
            kind = "counter" if name.endswith("_total") else "gauge"
            found[name] = Metric(name.removesuffix("_total"), documentation, kind)
        found[name].add_sample(name, dict(labels), value)
    return found.values()


@dataclass(frozen=True)
class Scrape(Collector):
    """All metrics in order of their names, and of each name no more than SERIES_MAX series."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterator[Metric]:
        left_out = 0
        for metric in sorted(self.metrics, key=lambda metric: metric.name):
            # Routes are few, and a histogram without some of its buckets would be wrong.
            most = len(metric.samples) if metric.type == "histogram" else SERIES_MAX
            left_out += len(metric.samples[most:])
            metric.samples = metric.samples[:most]
            yield metric
        if left_out:
            yield GaugeMetricFamily("penstock_series_left_out", f"Series beyond {SERIES_MAX} of one name.", left_out)


@router.get("/metrics", summary="Counts and rates for Prometheus")
async def metrics(request: Request) -> Response:
    context = context_of(request)

    def scrape() -> bytes:
        status = families(status_samples(context.database.status()))
        costs = families(query_samples(context.database.costliest(QUERIES_SHOWN)), "One of the costliest queries.")
        reads = context.database.answer_reads()
        return generate_latest(Scrape([*status, *costs, *reads, *context.counters.registry.collect()]))

    return Response(await context.workers.system.run(scrape), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.post(
    "/v1/backup",
    summary="Back up the data folder",
    responses=ERRORS,
    openapi_extra=json_body(BackupRequest, {"target": "/backups/monday"}),
)
@needs("admin")
async def back_up(request: Request) -> Response:
    """Only for callers on this machine: it writes where they say, with the server's rights."""
    context = context_of(request)
    if not is_local_client(request.headers, request.client.host if request.client else None):
        raise error("unauthorized", detail="a backup can only be asked for on the server's own machine")
    asked = await read_model(request, context, BackupRequest)
    target = Path(asked.target)
    if not target.is_absolute():
        raise error("invalid_parameter", detail=f'"{asked.target}" is not an absolute path')

    def work() -> list[str]:
        _check_place(target)
        return context.database.backup(target, asked.link)

    damaged = await context.workers.catalog.run(work)
    context.database.audit.note("BACKUP", [str(target)])
    answer = {"target": str(target)} | ({"damaged": damaged} if damaged else {})
    return Response(orjson.dumps(answer), media_type="application/json")


def _check_place(target: Path) -> None:
    """Before anything is read: where there can be no folder, the caller has to say another place."""
    try:
        target.mkdir(parents=True)
        target.rmdir()
    except FileExistsError as cause:
        hint = "name one that does not exist yet"
        raise error("already_exists", kind="folder", name=str(target), hint=hint) from cause
    except (OSError, ValueError) as cause:  # no right to, too long a name, a NUL in it
        raise error("invalid_parameter", detail=f"there can be no folder at {str(target)!r}: {cause}") from cause
