"""The caller of the request that is running. Access control sets it; checks of roles and names read it.

It travels with the request, from the event loop into the threads that work for it, and not through every signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from penstock.errors import error
from penstock.security.roles import Role, covers


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, a token or a local program, with a role. `name` is for people; `user` is the user it belongs to, if any."""

    name: str
    role: Role | None
    user: str | None = None
    via: str = "local"
    address: str | None = None
    # Which credential let it in, as `Users.still` knows it. Hashes only.
    credential: str | None = field(default=None, repr=False)
    # The session of the page that it came by, as `Sessions` knows it. A hash, too.
    session: str | None = field(default=None, repr=False)


# This process itself: a program that opens a database in Python has the folder anyway.
LOCAL = Caller("local", "admin")
ANONYMOUS = Caller("nobody", None, via="none")

_current: ContextVar[Caller | None] = ContextVar("penstock_caller", default=None)


def current_caller() -> Caller | None:
    """The caller of this request, or None where none was set."""
    return _current.get()


@contextmanager
def acting_as(caller: Caller) -> Iterator[None]:
    """Everything inside is done in the name of `caller`."""
    token = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(token)


def require(caller: Caller, need: Role | None, what: str) -> None:
    """Refuse what the caller's role does not cover."""
    if covers(caller.role, need):
        return
    if caller.role is None:
        raise error("unauthorized", detail=f"{what} needs a token or a user", hint="sign in, or send a token")
    raise error(
        "forbidden",
        detail=f'{what} needs the role "{need}"; {caller.name} has "{caller.role}"',
        hint=f"an admin can change that: ALTER USER name ROLE {need}",
    )
