"""Three roles, and the caller of the request that is running. Access control sets it; checks of roles and names read it.

It travels with the request, from the event loop into the threads that work for it, and not through every signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, get_args

from penstock.errors import error, suggest

Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


def covers(have: Role | None, need: Role | None) -> bool:
    """Whether a caller with one role may do what asks for another. What asks for none is open to all callers."""
    if need is None:
        return True
    return have is not None and ROLES.index(have) >= ROLES.index(need)


def role_named(word: str) -> Role:
    """The role that a word means, or invalid_option with the roles there are."""
    for role in ROLES:
        if role == word.lower():
            return role
    hint = suggest(word, ROLES) or "roles are " + ", ".join(ROLES)
    raise error("invalid_option", option="role", detail=f'there is no role "{word}"', hint=hint)


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
