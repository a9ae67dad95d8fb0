"""POST /v1/backup: a copy of the data folder while everything goes on."""

from __future__ import annotations

from pathlib import Path

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import error
from penstock.server.http.body import read_model
from penstock.server.http.context import context_of
from penstock.server.http.local_access import is_local_client
from penstock.server.http.roles import needs
from penstock.server.models import BackupRequest
from penstock.server.openapi import ERRORS, json_body

router = APIRouter(prefix="/v1", tags=["system"])


@router.post(
    "/backup",
    summary="Back up the data folder",
    response_class=Response,
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
