"""GET /metrics: the database's status and the API's own counts, in Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.context import context_of
from penstock.server.counters import Labels, Sample

router = APIRouter(tags=["system"])

# The costliest; a scrape has at most so many series for each of the numbers below.
QUERIES_SHOWN = 50
_OF_QUERIES = {
    "ms": "milliseconds_total",
    "rows": "rows_total",
    "matched": "matched",
    "evaluations": "evaluations_total",
    "invocations": "invocations_total",
    "memory": "memory_bytes",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def status_samples(status: Mapping[str, Any], prefix: str = "penstock", labels: Labels = ()) -> Iterator[Sample]:
    """Every number of a status document. A group of records, e.g. under `tables`, becomes the label `table`."""
    for key, value in status.items():
        name = f"{prefix}_{re.sub(r'[^a-zA-Z0-9_]', '_', str(key))}"
        if isinstance(value, bool | int | float):
            yield name, labels, float(value)
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
    """Samples as text, those of one name together as the format wants."""
    groups: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
        shown = repr(int(value)) if value == value and abs(value) < 1e15 and value == int(value) else repr(value)
        groups.setdefault(name, []).append(f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}")
    lines: list[str] = []
    for name, members in sorted(groups.items()):
        lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines.extend(members)
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@router.get("/metrics", summary="Counts and rates for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    context = context_of(request)
    status = await context.workers.statement.run(context.database.status)
    costly = await context.workers.statement.run(context.database.costliest, QUERIES_SHOWN)

    def samples() -> Iterator[Sample]:
        yield from status_samples(status)
        yield from query_samples(costly)
        yield from context.counters.samples()

    return Response(render(samples()), media_type=CONTENT_TYPE)
