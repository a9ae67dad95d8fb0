"""/v1/tables: the catalog, with live state per sensor."""

from __future__ import annotations

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.context import context_of
from penstock.server.openapi import ERRORS

router = APIRouter(prefix="/v1/tables", tags=["tables"], responses=ERRORS)


def _json(body: object) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


@router.get("", summary="List tables", response_class=Response)
async def list_tables(request: Request) -> Response:
    context = context_of(request)
    return _json({"tables": await context.workers.statement.run(context.database.tables)})


@router.get("/{table}", summary="One table: columns, key, stream, options", response_class=Response)
async def get_table(table: str, request: Request) -> Response:
    context = context_of(request)
    return _json(await context.workers.statement.run(context.database.table, table))


@router.get("/{table}/sensors", summary="Sensors with their live state", response_class=Response)
async def list_sensors(table: str, request: Request) -> Response:
    context = context_of(request)
    return _json({"sensors": await context.workers.statement.run(context.database.sensors, table)})
