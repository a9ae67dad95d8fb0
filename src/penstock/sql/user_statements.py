"""Statements about users and tokens. Passwords are in no repr."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from penstock.security.caller import Role
from penstock.sql.positions import Span
from penstock.sql.statements import Statement


@dataclass(frozen=True, slots=True)
class CreateUser(Statement):
    name: str
    role: Role = "read"
    password: str | None = field(default=None, repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterUser(Statement):
    """Another role, another password, or both; None keeps what is there."""

    name: str
    role: Role | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CreateToken(Statement):
    """A secret for programs: the token of `owner`, or of no user."""

    name: str
    role: Role = "read"
    owner: str | None = None
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class DropAccounts(Statement):
    """Users together with their tokens, or tokens."""

    kind: Literal["user", "token"]
    names: tuple[str, ...]
    if_exists: bool = False
    names_at: tuple[Span, ...] = field(repr=False, compare=False, default=())
