"""/v1/tables: the catalog, with live state per sensor."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.context import context_of
from penstock.server.http.encode import json_response
from penstock.server.models import ERRORS

router = APIRouter(prefix="/v1/tables", tags=["tables"], responses=ERRORS)


@router.get("", summary="List tables", response_class=Response)
async def list_tables(request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response({"tables": context.database.tables()}))


@router.get("/{table}", summary="One table: columns, key, stream, options", response_class=Response)
async def get_table(table: str, request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response(context.database.table(table)))


@router.get("/{table}/sensors", summary="Sensors with their live state", response_class=Response)
async def list_sensors(table: str, request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response({"sensors": context.database.sensors(table)}))
