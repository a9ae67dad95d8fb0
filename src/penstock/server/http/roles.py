"""Which role a call needs: said by the handler with `needs`, else read for GET and write for everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from penstock.security.caller import ANONYMOUS, Caller, require
from penstock.security.roles import Role

F = TypeVar("F", bound=Callable[..., Any])
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ATTRIBUTE = "penstock_role"


def needs(role: Role | None) -> Callable[[F], F]:
    """Set the role that a route needs; stands below the decorator of the route. None: every caller, signed in or not."""

    def mark(handler: F) -> F:
        setattr(handler, _ATTRIBUTE, role)
        return handler

    return mark


def role_of(endpoint: object, method: str) -> Role | None:
    """The role that a handler asks for when it is called with a method."""
    default: Role = "read" if method in _SAFE else "write"
    role: Role | None = getattr(endpoint, _ATTRIBUTE, default)
    return role


def caller_of(connection: HTTPConnection) -> Caller:
    """The caller of this request, as `access.AccessGuard` found it."""
    found: Caller = connection.scope.get("penstock.caller", ANONYMOUS)
    return found


async def require_role(connection: HTTPConnection) -> None:
    """A dependency of every route: refuses callers with too low a role before anything is read."""
    scope = connection.scope
    method = scope.get("method", "GET")
    need = role_of(scope.get("endpoint"), method)
    require(caller_of(connection), need, f"{method} {getattr(scope.get('route'), 'path', scope['path'])}")
