"""What every command has: the server it talks to, errors as text, and rows as a table, JSON or CSV."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, TextIO

import orjson
import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.client import Answer, Change, Connection
from penstock.errors import PenstockError
from penstock.json_rows import json_value
from penstock.settings import load_settings

progress = Console(stderr=True)

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PENSTOCK_URL",
        help="Address of the server.",
        show_default="where penstock serve would listen here: http://127.0.0.1:8470",
    ),
]
Token = Annotated[str, typer.Option("--token", envvar="PENSTOCK_TOKEN", help="The server's token.", show_default=False)]
# What a server listens on to be reached from everywhere is not an address to call.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@contextmanager
def connected(url: str, token: str) -> Iterator[Connection]:
    """A connection; its errors end the command with a clear message and status 1.

    Without `url` it goes to the server that `penstock serve` would start here, by PENSTOCK_* and penstock.toml.
    """
    with reported():
        local = load_settings()
        ca = os.environ.get("PENSTOCK_CA") or (local.tls_certificate if not url else "") or None
        scheme, host = "https" if local.tls_certificate else "http", _EVERYWHERE.get(local.host, local.host)
        url = url or f"{scheme}://{host}:{local.port}"
        user = os.environ.get("PENSTOCK_USER")
        with Connection(url, token or local.token or None, user=user, ca=ca) as connection:
            yield connection


@contextmanager
def reported() -> Iterator[None]:
    """Errors as a block of plain text on stderr, then exit 1; Ctrl-C ends with 130, quietly."""
    try:
        yield
    except PenstockError as problem:
        typer.echo(problem.render(), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # The reader of our output has what it wanted (| head). Its end is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None


class Format(StrEnum):
    """How rows are written. Without --format: a table on a terminal, CSV into a pipe or file."""

    table = "table"
    json = "json"
    csv = "csv"


AskedFormat = Annotated[
    Format | None, typer.Option("--format", "-f", help="Default: table on a terminal, csv otherwise.")
]


def choose_format(asked: Format | None) -> Format:
    if asked is not None:
        return asked
    return Format.table if sys.stdout.isatty() else Format.csv


def print_answer(answer: Answer, format: Format) -> None:
    """Rows to stdout; what was done and what to know about it to stderr."""
    if answer.columns:
        print_rows(answer.columns, rows_of(answer.table), format)
    if answer.done:
        typer.echo(answer.done, err=True)
    elif format is Format.table:
        typer.echo(_facts(answer), err=True)
    if answer.complete_from:
        typer.echo(f"note: complete only from {answer.complete_from} on", err=True)
    for notice in answer.notices:
        typer.echo(f"note: {notice}", err=True)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def print_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], format: Format) -> None:
    if format is Format.table:
        _print_table(names, rows)
    elif format is Format.json:
        # An array of objects, one a line.
        sys.stdout.write("[" + ",\n ".join(json_line(names, row) for row in rows) + "]\n")
    else:
        print_csv(names, rows)


def _facts(answer: Answer) -> str:
    facts = [f"{len(answer)} row{'' if len(answer) == 1 else 's'}"]
    if answer.cycle is not None:
        facts.append(f"cycle {answer.cycle}")
    if answer.now is not None:
        facts.append(f"now {answer.now}")
    return f"({', '.join(facts)})"


def _print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, name in enumerate(names):
        numeric = any(isinstance(row[index], int | float | Decimal) for row in rows if row[index] is not None)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a value in square brackets is not a colour.
        table.add_row(*[Text("") if value is None else Text(show(value)) for value in row])
    # A terminal folds what is too wide for it; a file has no width.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 10_000).print(table)


def json_line(names: Sequence[str], row: Sequence[Any]) -> str:
    return orjson.dumps({name: json_value(value) for name, value in zip(names, row, strict=True)}).decode()


def print_csv(
    names: Sequence[str], rows: Iterable[Sequence[Any]], header: bool = True, to: TextIO | None = None
) -> None:
    writer = csv.writer(to or sys.stdout, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows(["" if value is None else show(value) for value in row] for row in rows)


def show(value: Any) -> str:
    """One value as text; nested ones as JSON."""
    found = json_value(value)
    if isinstance(found, str):
        return found
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, dict | list):
        return orjson.dumps(found).decode()
    return repr(found) if isinstance(found, float) else str(found)


class LivePrinter:
    """Rows of a subscription as they come: JSON lines, CSV with one header, or aligned text."""

    def __init__(self, format: Format) -> None:
        self._format = format
        self._names: list[str] = []
        self._widths: list[int] = []

    def print(self, change: Change) -> None:
        names = list(change.columns) or list(change.rows[0] if change.rows else ())
        rows = [list(row.values()) for row in change.rows]
        if self._format is Format.json:
            for row in rows:
                sys.stdout.write(json_line(["cycle", *names], [change.cycle, *row]) + "\n")
        elif self._format is Format.csv:
            print_csv(["cycle", *names], ([change.cycle, *row] for row in rows), header=names != self._names)
        else:
            self._print_aligned(names, rows, change.cycle)
        self._names = names
        sys.stdout.flush()

    def _print_aligned(self, names: list[str], rows: list[list[Any]], cycle: int) -> None:
        shown = [[str(cycle), *["" if value is None else show(value) for value in row]] for row in rows]
        if names != self._names:
            self._widths = [max(8, *map(len, column)) for column in zip(["cycle", *names], *shown, strict=True)]
            self._line(["cycle", *names])
        for line in shown:
            self._line(line)

    def _line(self, cells: list[str]) -> None:
        sys.stdout.write("  ".join(f"{cell:<{w}}" for cell, w in zip(cells, self._widths, strict=True)).rstrip() + "\n")
