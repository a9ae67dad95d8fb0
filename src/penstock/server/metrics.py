"""GET /metrics: the database's status and the API's own counts, in Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.context import context_of
from penstock.server.counters import HTTP_SECONDS, Labels, Sample

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
# A series more of one name is left out: a thousand tables must not drown whoever collects them, either.
SERIES_MAX = 500
# What only grows while the server runs, by the group of the status that it stands in.
_COUNTED = {
    "streams": frozenset({"accepted", "late", "clamped", "unordered", "deduplicated", "failed", "discovered"}),
    "inputs": frozenset({"messages", "bytes", "accepted", "duplicates", "ignored"}),
    "services": frozenset({"rounds", "failures"}),
    "sinks": frozenset({"rows", "deliveries", "failed", "retries", "gaps"}),
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
    """What some queries cost. Never of all: ten thousand series a number would drown whoever collects them."""
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


def render(samples: Iterator[Sample]) -> str:
    """Samples as text, those of one name together as the format wants, and of each no more than SERIES_MAX."""
    groups: dict[str, list[str]] = {}
    left_out = 0
    for name, labels, value in samples:
        if len(groups.get(name, ())) >= SERIES_MAX:
            left_out += 1
            continue
        inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
        shown = repr(int(value)) if value == value and abs(value) < 1e15 and value == int(value) else repr(value)
        groups.setdefault(name, []).append(f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}")
    if left_out:
        groups["penstock_series_left_out"] = [f"penstock_series_left_out {left_out}"]
    lines: list[str] = []
    typed = ""
    for name, members in sorted(groups.items()):
        family, kind = _family(name)
        if family != typed:
            lines.append(f"# TYPE {family} {kind}")
            typed = family
        lines.extend(members)
    return "\n".join(lines) + "\n"


def _family(name: str) -> tuple[str, str]:
    """What a name belongs to: the three of a histogram are one metric."""
    for part in ("_bucket", "_count", "_sum"):
        if name == HTTP_SECONDS + part:
            return HTTP_SECONDS, "histogram"
    return name, "counter" if name.endswith("_total") else "gauge"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@router.get("/metrics", summary="Counts and rates for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    context = context_of(request)
    status = await context.workers.system.run(context.database.status)
    costly = await context.workers.system.run(context.database.costliest, QUERIES_SHOWN)

    def samples() -> Iterator[Sample]:
        yield from status_samples(status)
        yield from query_samples(costly)
        yield from context.counters.samples()

    return Response(render(samples()), media_type=CONTENT_TYPE)
