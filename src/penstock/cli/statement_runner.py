"""Running statements one after another against a server, for the shell, `-c`, files and pipes alike."""

from __future__ import annotations

import typer

from penstock.cli.output import Format, LivePrinter, print_answer
from penstock.cli.statement_split import (
    ScriptStatement,
    SubscribeTo,
    all_statements,
    gather,
    parse_subscribe,
    registers_queries,
    sets_on_error,
)
from penstock.client import Connection
from penstock.errors import PenstockError


def run_statement(connection: Connection, statement: str, format: Format, timeout_s: float | None = None) -> None:
    """One statement; SUBSCRIBE prints until Ctrl-C or until the query is dropped."""
    subscription = parse_subscribe(statement)
    try:
        if subscription is not None:
            follow(connection, subscription, format)
        else:
            print_answer(connection.sql(statement, timeout_s=timeout_s), format)
    except PenstockError as problem:
        # The server says where, this side knows the text.
        problem.sql = statement
        raise


def run_script(
    connection: Connection, script: str, format: Format, origin: str | None = None, timeout_s: float | None = None
) -> None:
    """Every statement in order; the first that fails ends the run, saying where in the file it stands.

    Statements that register queries one after another go to the server together: thousands take one sync.
    """
    on_error = ""
    for step in gather(all_statements(script)):
        run = [step] if isinstance(step, ScriptStatement) else step
        together = len(run) > 1 or (on_error and registers_queries(run[0].text))
        try:
            if together:
                _run_together(connection, on_error, run, format, timeout_s)
            else:
                run_statement(connection, run[0].text, format, timeout_s)
        except PenstockError:
            if origin is not None:
                typer.echo(f"{origin}:" if together else f"{origin}, statement at line {run[0].line}:", err=True)
            raise
        # Each call begins anew: what the script said must be said again.
        on_error = next((f"{p.text};" for p in reversed(run) if sets_on_error(p.text)), on_error)


def _run_together(
    connection: Connection, on_error: str, run: list[ScriptStatement], format: Format, timeout_s: float | None
) -> None:
    # Blank lines stand for what comes before, so that lines in errors are those of the file.
    text, line = on_error, 1
    for piece in run:
        behind_comment = "\n" if "--" in piece.text.rpartition("\n")[2] else ""
        added = "\n" * (piece.line - line) + piece.text + behind_comment + ";"
        text, line = text + added, line + added.count("\n")
    try:
        print_answer(connection.sql(text, timeout_s=timeout_s), format)
    except PenstockError as problem:
        problem.sql = text
        raise


def follow(connection: Connection, to: SubscribeTo, format: Format) -> None:
    """Print a query's rows live. Ctrl-C is the ordinary way to end it, not a failure."""
    printer = LivePrinter(format)
    typer.echo(f"following {to.name}; Ctrl-C ends it", err=True)
    try:
        for change in connection.subscribe(to.name, changes=to.changes, from_cycle=to.from_cycle):
            printer.print(change)
    except KeyboardInterrupt:
        typer.echo("", err=True)
