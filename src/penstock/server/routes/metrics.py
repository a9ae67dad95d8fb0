"""GET /metrics: the database's status and the API's own counts, in Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.context import context_of

router = APIRouter(tags=["system"])

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


class Scrape(Collector):
    """All metrics in order of their names, and of each name no more than SERIES_MAX series."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        left_out = 0
        for metric in sorted(self._metrics, key=lambda metric: metric.name):
            # Routes are few, and a histogram without some of its buckets would be wrong.
            most = len(metric.samples) if metric.type == "histogram" else SERIES_MAX
            left_out += len(metric.samples[most:])
            metric.samples = metric.samples[:most]
            yield metric
        if left_out:
            yield GaugeMetricFamily("penstock_series_left_out", f"Series beyond {SERIES_MAX} of one name.", left_out)


@router.get("/metrics", summary="Counts and rates for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    context = context_of(request)

    def scrape() -> bytes:
        status = families(status_samples(context.database.status()))
        costs = families(query_samples(context.database.costliest(QUERIES_SHOWN)), "One of the costliest queries.")
        reads = context.database.answer_reads()
        return generate_latest(Scrape([*status, *costs, *reads, *context.counters.registry.collect()]))

    return Response(await context.workers.system.run(scrape), media_type=CONTENT_TYPE_PLAIN_0_0_4)
