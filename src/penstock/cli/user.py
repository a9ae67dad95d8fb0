"""`penstock user`: users and tokens of a data folder, whether or not a server runs on it.

It changes the file itself, so it needs no server, no token and no password: a user of the machine that can write the folder is its owner.
A running server notices.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.command import AskedFormat, choose_format, print_rows, reported
from penstock.clock import SECOND, WallClock, format_timestamp
from penstock.errors import PenstockError
from penstock.security.audit import Audit
from penstock.security.caller import Caller, Role, acting_as, role_named
from penstock.security.users import Users
from penstock.settings import load_settings

user = typer.Typer(help="Users and tokens of a data folder.", no_args_is_help=True)

DAY_S = 86_400
Data = Annotated[str, typer.Option("--data", help="The data folder.", show_default="as penstock serve would use")]
Name = Annotated[str, typer.Argument(help="Name of the user.")]
TokenName = Annotated[str, typer.Argument(help="Name of the token.")]
RoleName = Annotated[str, typer.Option("--role", help="read, write or admin.")]


@contextmanager
def _changing(data: str, action: str, name: str) -> Iterator[Users]:
    """The folder's users; what is done to them stands in its audit."""
    with reported(), acting_as(Caller(getpass.getuser(), "admin", via="command line")):
        settings = load_settings({"data": data or None})
        folder = Path(settings.data).absolute()
        audit = Audit(folder)
        try:
            yield Users(folder, settings.token)
            audit.note(action, [name])
        except PenstockError as problem:
            audit.note(action, [name], problem.condition)
            raise
        finally:
            audit.close()


def _ask_password() -> str:
    """Twice from a terminal, without showing it; else one line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\n")


@user.command("add")
def add(name: Name, role: RoleName = "read", data: Data = "") -> None:
    """Add a user. The password is asked for, or read from standard input; the first user has to be an admin."""
    with _changing(data, "CREATE USER", name) as users:
        users.create_user(name, role_named(role), _ask_password())


@user.command("change")
def change(
    name: Name,
    role: Annotated[str | None, typer.Option("--role", help="Another role: read, write or admin.")] = None,
    password: Annotated[bool, typer.Option("--password", help="Ask for another password.")] = False,
    data: Data = "",
) -> None:
    """Change a user's role or password. Another password ends the user's sessions."""
    if role is None and not password:
        raise typer.BadParameter("say what: --role or --password")
    with _changing(data, "ALTER USER", name) as users:
        wanted: Role | None = role_named(role) if role is not None else None
        users.alter_user(name, wanted, _ask_password() if password else None)


@user.command("drop")
def drop(name: Name, data: Data = "") -> None:
    """Remove a user and the user's tokens."""
    with _changing(data, "DROP USER", name) as users:
        users.drop_user(name)


@user.command("token")
def token(
    name: TokenName,
    role: RoleName = "read",
    owner: Annotated[
        str | None, typer.Option("--for", help="The user whose token it is; it goes with the user.")
    ] = None,
    days: Annotated[float | None, typer.Option("--days", help="After how many days it ends.", min=0.0)] = None,
    data: Data = "",
) -> None:
    """Make a token for a program and print it, this once."""
    with _changing(data, "CREATE TOKEN", name) as users:
        expires_us = None if days is None else WallClock().now_us() + int(days * DAY_S * SECOND)
        typer.echo(users.create_token(name, role_named(role), owner, expires_us))


@user.command("drop-token")
def drop_token(name: TokenName, data: Data = "") -> None:
    """Remove a token; the server refuses it from then on."""
    with _changing(data, "DROP TOKEN", name) as users:
        users.drop_token(name)


@user.command("list")
def list_users(format: AskedFormat = None, data: Data = "") -> None:
    """Users and tokens, without their secrets."""
    with reported():
        found = Users(Path(load_settings({"data": data or None}).data).absolute()).accounts()
        rows: list[tuple[str | None, ...]] = [("user", u.name, u.role, None, None) for u in found.users.values()]
        for t in found.tokens.values():
            ends = format_timestamp(t.expires_us) if t.expires_us is not None else None
            rows.append(("token", t.name, t.role, t.owner, ends))
        print_rows(["kind", "name", "role", "owner", "expires"], rows, choose_format(format))
