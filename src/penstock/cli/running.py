"""Running statements one after another against a server, for the shell, `-c`, files and pipes alike."""

from __future__ import annotations

import typer

from penstock.cli.printing import Format, LivePrinter, print_answer
from penstock.cli.splitting import Piece, SubscribeTo, all_statements, parse_subscribe
from penstock.client import Connection
from penstock.errors import PenstockError


def run_statement(connection: Connection, statement: str, format: Format) -> None:
    """One statement; SUBSCRIBE prints until Ctrl-C or until the query is dropped."""
    subscription = parse_subscribe(statement)
    try:
        if subscription is not None:
            follow(connection, subscription, format)
        else:
            print_answer(connection.sql(statement), format)
    except PenstockError as problem:
        # The server says where, this side knows the text.
        problem.sql = statement
        raise


def run_script(connection: Connection, script: str, format: Format, origin: str | None = None) -> None:
    """Every statement in order; the first that fails ends the run, saying where in the file it stands."""
    for piece in all_statements(script):
        try:
            run_statement(connection, piece.text, format)
        except PenstockError:
            if origin is not None:
                typer.echo(_place(origin, piece), err=True)
            raise


def _place(origin: str, piece: Piece) -> str:
    return f"{origin}, statement at line {piece.line}:"


def follow(connection: Connection, to: SubscribeTo, format: Format) -> None:
    """Print a query's rows live. Ctrl-C is the ordinary way to end it, not a failure."""
    printer = LivePrinter(format)
    typer.echo(f"following {to.name}; Ctrl-C ends it", err=True)
    try:
        for change in connection.subscribe(to.name, changes=to.changes, from_cycle=to.from_cycle):
            printer.print(change)
    except KeyboardInterrupt:
        typer.echo("", err=True)
