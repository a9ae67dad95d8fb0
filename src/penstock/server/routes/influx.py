"""InfluxDB's ways to write, so that Telegraf and its relatives work unchanged: line protocol over HTTP.

`/api/v2/write` as version 2 has it, `/write` as version 1 does; `/ping` and CREATE DATABASE at `/query` because clients ask
before they write. There are no organisations, buckets or databases here: any name is taken.
Answers and errors have InfluxDB's form, because InfluxDB's clients read them.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from penstock import __version__
from penstock.database.status import LINES
from penstock.errors import PenstockError, error
from penstock.server.http.body import read_small_body, read_unpacked
from penstock.server.http.context import context_of
from penstock.server.http.decode import BodyLimits
from penstock.server.routes.readings import counting_refusals
from penstock.streams.ingest.line_points import LineReport

router = APIRouter(tags=["line protocol"])

_CODES = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    413: "request too large",
    415: "unsupported media type",
    429: "too many requests",
    503: "unavailable",
    507: "unavailable",
}
_VERSION = {"X-Influxdb-Version": f"v2-penstock-{__version__}", "X-Influxdb-Build": "OSS"}
_CREATE_DATABASE = re.compile(r"\s*CREATE\s+DATABASE\s+\S.*", re.I | re.S)
_LINES = {"text/plain": {"schema": {"type": "string"}, "example": "probes,site=north,sensor=1 ppm=37.5 1556813561098"}}
_WRITE: dict[str, Any] = {
    "status_code": 204,
    "responses": {
        204: {"description": "all of it is on disk"},
        "4XX": {"description": "lines that were refused, and why; the others are on disk"},
        "5XX": {"description": "the server's trouble; send it again"},
    },
    "openapi_extra": {"requestBody": {"required": True, "content": _LINES}},
}


@router.post("/api/v2/write", summary="Write line protocol (InfluxDB 2)", **_WRITE)
async def write_v2(
    request: Request,
    precision: str = Query("ns", description="unit of the timestamps: ns, us, ms or s"),
    bucket: str = Query("", description="taken and not looked at"),
    org: str = Query("", description="taken and not looked at"),
) -> Response:
    """Each line is a reading: the measurement names the table, tags its key and static columns, fields its stream's."""
    return await _write(request, precision)


@router.post("/write", summary="Write line protocol (InfluxDB 1)", **_WRITE)
async def write_v1(
    request: Request,
    precision: str = Query("ns", description="unit of the timestamps: n, ns, u, us, ms, s, m or h"),
    db: str = Query("", description="taken and not looked at"),
) -> Response:
    return await _write(request, precision)


async def _write(request: Request, precision: str) -> Response:
    try:
        context = context_of(request)
        with counting_refusals(context, LINES):
            async with read_unpacked(request, context) as body:
                room = BodyLimits(context.settings.push_max_rows)

                def work() -> LineReport:
                    room.check_rows(body.count(b"\n"))
                    return context.database.write_lines(bytes(body), precision)

                report = await context.workers.push.run(work)
                context.counters.body_bytes.inc(len(body))
    except PenstockError as problem:
        return _refused(problem)
    return Response(status_code=204, headers=_VERSION) if not report.errors else _partly_refused(report)


def _partly_refused(report: LineReport) -> Response:
    first, dropped = report.errors[0], report.dropped
    what = "partial write" if report.accepted or report.duplicates else "nothing was written"
    message = f"{what}: line {first.line}: unable to write '{first.text}': {first.message}; dropped={dropped}"
    body = {
        "code": "invalid",
        "message": message,
        "error": message,
        "line": first.line,
        "accepted": report.accepted,
        "dropped": dropped,
        "errors": [
            {"line": e.line, "condition": e.condition, "message": e.message, "original_line": e.text}
            for e in report.errors
        ],
    }
    return _answer(400, body)


def _refused(problem: PenstockError) -> Response:
    message = problem.message if problem.hint is None else f"{problem.message}; {problem.hint}"
    code = _CODES.get(problem.status, "internal error")
    # Clients of InfluxDB try 503 again, and know no 507.
    status = 503 if problem.status == 507 else problem.status
    return _answer(status, {"code": code, "message": message, "error": message, "condition": problem.condition})


def _answer(status: int, body: dict[str, Any]) -> Response:
    # A header is one line of Latin-1, whatever stood in the refused line.
    said = body["error"][:500].encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
    headers = {**_VERSION, "X-Influxdb-Error": said}
    if status == 503:
        headers["Retry-After"] = "2"
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


@router.get("/ping", summary="Whether the server is there", status_code=204)
@router.head("/ping", include_in_schema=False)
async def ping(request: Request) -> Response:
    """What clients of InfluxDB ask first."""
    return Response(status_code=204, headers=_VERSION)


@router.post(
    "/query",
    summary="CREATE DATABASE, as clients of InfluxDB 1 ask before they write",
    openapi_extra={
        "requestBody": {
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": {"type": "object", "properties": {"q": {"type": "string"}}},
                    "example": {"q": "CREATE DATABASE plant"},
                }
            }
        }
    },
)
async def query_v1(request: Request, q: str = Query("")) -> Response:
    """Nothing is created: there are no databases to choose from. Questions are asked at /v1/sql."""
    asked = q or parse_qs((await read_small_body(request)).decode("utf-8", "replace")).get("q", [""])[0]
    if _CREATE_DATABASE.fullmatch(asked):
        return Response(b'{"results":[{"statement_id":0}]}', headers=_VERSION, media_type="application/json")
    return _refused(error("not_supported", feature="InfluxQL", hint="ask in SQL at POST /v1/sql"))
