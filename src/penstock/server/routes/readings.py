"""POST /v1/tables/{table}/readings: acknowledged when on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import PenstockError, error
from penstock.server.http.body import media_type_of, read_body
from penstock.server.http.body_limits import BudgetShare
from penstock.server.http.context import Context, context_of
from penstock.server.http.decode import DECODERS, UNCOUNTED_BYTES, BodyLimits, NeedsRoom, decode_readings
from penstock.server.models import ERRORS, PushReceipt, readings_body
from penstock.streams.ingest.readings import IngestReceipt

router = APIRouter(prefix="/v1/tables", tags=["readings"])

KEY_MAX_CHARS = 255
T = TypeVar("T")


@router.post(
    "/{table}/readings",
    summary="Push readings",
    responses={200: {"model": PushReceipt, "description": "the accepted ones are on disk"}, **ERRORS},
    openapi_extra={
        **readings_body(),
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "maxLength": KEY_MAX_CHARS},
                "description": "a repeat with the same key stores nothing and gets the first receipt",
            }
        ],
    },
)
async def push_readings(table: str, request: Request) -> Response:
    """A reading names its sensor by the table's key column(s), optionally `ts`, and the stream's fields flat."""
    context = context_of(request)
    with counting_refusals(context, "http"):
        media_type = media_type_of(request)
        if media_type not in DECODERS:
            raise error("unsupported_media_type", media_type=media_type, hint="one of " + ", ".join(DECODERS))
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= KEY_MAX_CHARS:
            raise error("invalid_parameter", detail=f"an Idempotency-Key has 1 to {KEY_MAX_CHARS} characters")

        async with read_body(request, context) as (body, share):

            def work(room: BodyLimits) -> tuple[IngestReceipt, bytes]:
                receipt = context.database.push(table, decode_readings(body, media_type, room), key)
                return receipt, orjson.dumps(receipt_facts(receipt))

            receipt, reply = await with_room(context, share, work)
            count_receipt(context, table, "http", receipt, len(body))
    return Response(reply, media_type="application/json")


async def with_room(context: Context, share: BudgetShare, work: Callable[[BodyLimits], T]) -> T:
    """Run what decodes and pushes a body in a thread, with as much of the budget as its readings take in memory."""
    room = BodyLimits(context.settings.push_max_rows)
    while True:
        try:
            return await context.workers.push.run(work, room)
        except NeedsRoom as need:
            # Not in the thread: one that waits for the budget would keep others from giving theirs back.
            await share.take(need.size - (room.size if room.size > UNCOUNTED_BYTES else 0))
            room = replace(room, size=need.size)


def receipt_facts(receipt: IngestReceipt) -> dict[str, Any]:
    refused = [{"index": r.index, "condition": r.condition, "message": r.message} for r in receipt.refused]
    return {"accepted": receipt.accepted, "refused": refused, "position": receipt.position}


@contextmanager
def counting_refusals(context: Context, way: str) -> Iterator[None]:
    """A push that is refused as a whole counts among what its way in refused, and why."""
    try:
        yield
    except PenstockError as problem:
        context.database.ways_in[way].refuse(problem.condition, problem.message)
        raise


def count_receipt(context: Context, table: str, way: str, receipt: IngestReceipt, size: int) -> None:
    """A push that came through, with the readings of it that were refused one by one."""
    context.counters.body_bytes.inc(size)
    context.counters.readings.labels(table, "accepted").inc(receipt.accepted)
    counts = context.database.ways_in[way]
    counts.came(1, size)
    reasons = Counter(refusal.condition for refusal in receipt.refused)
    counts.stored(receipt.accepted, reasons.pop("duplicate_reading", 0))
    if receipt.refused:
        context.counters.readings.labels(table, "refused").inc(len(receipt.refused))
        messages = {refusal.condition: refusal.message for refusal in receipt.refused}
        for condition, count in reasons.items():
            counts.refuse(condition, messages[condition], count)
