"""CREATE, ALTER and DROP USER, CREATE and DROP TOKEN, ALTER SYSTEM. ROLE is another word for USER, as in PostgreSQL."""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from penstock.clock import parse_timestamp
from penstock.errors import error
from penstock.security.caller import Role, role_named
from penstock.sql.dialect import PenstockParser
from penstock.sql.statements import AcceptClock, AcceptDamage, AlterUser, CreateToken, CreateUser, DropAccounts


def create_user(parser: PenstockParser) -> CreateUser:
    if_not_exists, name, at = parser.new_name("user")
    role, password = _facts(parser)
    return CreateUser(name, role or "read", password, if_not_exists, name_at=at)


def alter_user(parser: PenstockParser) -> AlterUser:
    name, at = parser.name("the name of a user")
    parser.take("SET")
    role, password = _facts(parser)
    if role is None and password is None:
        raise parser.expected("ROLE or PASSWORD")
    return AlterUser(name, role, password, name_at=at)


def _facts(parser: PenstockParser) -> tuple[Role | None, str | None]:
    """ROLE word and PASSWORD 'text', in any order."""
    role: Role | None = None
    password: str | None = None
    parser.take("WITH")
    while not parser.at_end():
        if role is None and parser.take("ROLE"):
            role = _role(parser)
        elif password is None and parser.take("PASSWORD"):
            password = _text(parser, "a password in quotes, or a parameter")
        else:
            raise parser.expected("ROLE read, ROLE write, ROLE admin or PASSWORD '...'")
    return role, password


def create_token(parser: PenstockParser) -> CreateToken:
    name, at = parser.name("the name of the token")
    role: Role | None = None
    owner: str | None = None
    expires_us: int | None = None
    while not parser.at_end():
        if role is None and parser.take("ROLE"):
            role = _role(parser)
        elif owner is None and parser.take("FOR"):
            owner, _ = parser.name("the name of a user")
        elif expires_us is None and (parser.take("VALID", "UNTIL") or parser.take("EXPIRES")):
            expires_us = _moment(parser)
        else:
            raise parser.expected("FOR user, ROLE read, ROLE write, ROLE admin or VALID UNTIL 'time'")
    return CreateToken(name, role or "read", owner, expires_us, name_at=at)


def drop_accounts(parser: PenstockParser, kind: Literal["user", "token"]) -> DropAccounts:
    if_exists = parser.take("IF", "EXISTS")
    texts, places = zip(*parser.several(lambda: parser.name(f"the name of the {kind}")), strict=True)
    return DropAccounts(kind, texts, if_exists, names_at=places, name_at=places[0])


def _role(parser: PenstockParser) -> Role:
    here = parser.here
    word = parser.name_or_text("read, write or admin")
    with parser.pointing(here):
        return role_named(word)


def _moment(parser: PenstockParser) -> int:
    here = parser.here
    try:
        return parse_timestamp(_text(parser, "a time in quotes, or a parameter"))
    except ValueError:
        hint = "for example '2027-01-01T00:00:00Z'"
        raise parser.fail(error("invalid_parameter", detail="this is not a time", hint=hint), here) from None


def _text(parser: PenstockParser, what: str) -> str:
    if parser.at_end():
        raise parser.expected(what)
    here = parser.here
    found = parser.value()
    if not isinstance(found, exp.Literal) or not found.is_string:
        raise parser.fail(error("syntax_error", detail=f"expected {what}"), here)
    return str(found.this)


def alter_system(parser: PenstockParser) -> AcceptClock | AcceptDamage:
    if parser.take("ACCEPT", "CLOCK"):
        return AcceptClock()
    if parser.take("ACCEPT", "DAMAGE"):
        return AcceptDamage()
    raise parser.expected("ACCEPT CLOCK or ACCEPT DAMAGE")
