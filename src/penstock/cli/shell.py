"""The interactive shell of `penstock sql`: lines until a semicolon, history, completion, live SUBSCRIBE."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.lexers import PygmentsLexer

from penstock.cli.command import Format, print_answer, show
from penstock.cli.statement_runner import is_blank, read_script, run_script, run_statement, split_statements
from penstock.cli.status import print_status
from penstock.client import Answer, Connection
from penstock.errors import PenstockError
from penstock.sql.completions import KEYWORDS, SYSTEM_TABLES

_SECRET = re.compile(r"\bPASSWORD\b", re.IGNORECASE)
_DEFINES = re.compile(r"\s*(CREATE|DROP|ALTER)\b", re.IGNORECASE)


class DiscreetHistory(FileHistory):
    """Remembers everything but lines with a password."""

    def store_string(self, string: str) -> None:
        if not _SECRET.search(string):
            super().store_string(string)


class Shell:
    """Reads statements and runs them until `\\q` or Ctrl-D. An error is shown and the shell goes on."""

    def __init__(
        self,
        connection: Connection,
        format: Format,
        session: PromptSession[str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.connection = connection
        self.format = format
        self._timeout_s = timeout_s
        self._names = Names(connection)
        self._session = session or _prompt_session(self._names)

    def run(self) -> None:
        health = self.connection.health()
        state = "connected to" if health["ready"] else f"not ready ({health['reason']}):"
        typer.echo(f"{state} {self.connection.url}; \\? for help, \\q to leave", err=True)
        self._names.refresh()
        pending = ""
        while True:
            try:
                line = self._session.prompt("penstock> " if is_blank(pending) else "      -> ")
            except EOFError:
                return
            except KeyboardInterrupt:
                # Throws away what was typed so far, as other shells do.
                pending = ""
                continue
            if is_blank(pending) and line.strip().startswith("\\"):
                if line.strip() in ("\\q", "\\quit"):
                    return
                self._help_out(line.strip())
                continue
            if is_blank(pending) and line.strip().lower().rstrip(";") in ("quit", "exit"):
                return
            pieces, pending = split_statements(pending + line + "\n")
            for piece in pieces:
                self._run(piece.text)

    def _run(self, statement: str) -> None:
        try:
            run_statement(self.connection, statement, self.format, self._timeout_s)
        except PenstockError as problem:
            typer.echo(problem.render(), err=True)
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)  # the client closed the connection, by which the server knows
        else:
            if _DEFINES.match(statement):
                self._names.refresh()

    def _help_out(self, line: str) -> None:
        try:
            format = run_helper(line, self.connection, self.format)
            if format is None:
                typer.echo(f"there is no {line.split()[0]}; these are:\n{HELPERS}", err=True)
            self.format = format or self.format
        except PenstockError as problem:
            typer.echo(problem.render(), err=True)
        except KeyboardInterrupt:
            typer.echo("", err=True)


def history_file() -> Path:
    """In the user's state folder; made when first needed, readable by its owner only."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "penstock"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    return base / "history"


def _prompt_session(names: Names) -> PromptSession[str]:
    from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]  # comes with rich, without types

    return PromptSession(
        history=DiscreetHistory(str(history_file())),
        completer=names,
        complete_while_typing=False,
        lexer=PygmentsLexer(PostgresLexer),
        enable_open_in_editor=True,
    )


_WORD = re.compile(r"[\w.\\]+\Z")


class Names(Completer):
    """Completes keywords, tables, columns and queries. Names are fetched at the start and after definitions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names: list[tuple[str, str]] = []

    def refresh(self) -> None:
        """Ask the server what there is; without an answer, what was known stays."""
        with suppress(PenstockError):
            self._names = list(_names(self._connection.tables(), self._connection.queries()))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        found = _WORD.search(document.text_before_cursor)
        if found is None:
            return
        word = found.group()
        # After a dot only the column is being typed: s.reading.pp -> ppm.
        tail = word.rsplit(".", 1)[-1]
        for name, kind in self._names:
            if name.startswith(word.lower()):
                yield Completion(name, -len(word), display_meta=kind)
            elif tail != word and kind.startswith("column") and name.startswith(tail.lower()):
                yield Completion(name, -len(tail), display_meta=kind)
        if len(word) >= 2:
            lower = word.islower()
            for keyword in KEYWORDS:
                if keyword.startswith(word.upper()):
                    yield Completion(keyword.lower() if lower else keyword, -len(word))


def _names(tables: list[dict[str, Any]], queries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for table in tables:
        yield table["name"], "table"
        for column in (*table["columns"], *filter(None, [table.get("stream")])):
            yield column["name"], f"column of {table['name']}"
    yield from ((query["name"], "query") for query in queries)
    yield from ((name, "system table") for name in SYSTEM_TABLES)


HELPERS = """\
  \\d              tables and queries
  \\d NAME         columns of a table, or the definition of a query
  \\ds TABLE       sensors of a table with their live state
  \\f FORMAT       write answers as table, json or csv
  \\i FILE         run the statements of a file
  \\status         cycles, rates, lag
  \\?              this help
  \\q              leave (or Ctrl-D)
Statements end with ; and may span lines. SUBSCRIBE name; prints rows live until Ctrl-C."""


def run_helper(line: str, connection: Connection, format: Format) -> Format | None:
    """Run one; the format that holds afterwards, or None where it is not one of HELPERS."""
    word, _, rest = line.partition(" ")
    argument = rest.strip().rstrip(";").strip()
    match word:
        case "\\?" | "\\h" | "\\help":
            typer.echo(HELPERS, err=True)
        case "\\d" | "\\dt" | "\\dq":
            _show(_describe(connection, argument) if argument else _overview(connection), format)
        case "\\ds" if argument:
            _show(_sensors(connection, argument), format)
        case "\\f" | "\\format" if argument in set(Format):
            return Format(argument)
        case "\\i" if argument:
            run_script(connection, read_script(Path(argument)), format, origin=argument)
        case "\\status":
            print_status(connection.status())
        case _:
            return None
    return format


def _overview(connection: Connection) -> list[dict[str, Any]]:
    tables = [
        {
            "name": t["name"],
            "kind": "sensor table" if t.get("stream") else "table",
            "definition": ", ".join(column["name"] for column in t["columns"]),
        }
        for t in connection.tables()
    ]
    queries = [{"name": q["name"], "kind": "query", "definition": q.get("sql")} for q in connection.queries()]
    return tables + queries


def _describe(connection: Connection, name: str) -> list[dict[str, Any]]:
    try:
        table = connection.describe_table(name)
    except PenstockError as problem:
        if problem.condition != "table_not_found":
            raise
        return [{"property": key, "value": value} for key, value in connection.describe_query(name).items()]
    return [{"column": c["name"], "type": c["type"], "kind": _kind(table, c["name"])} for c in table["columns"]]


def _kind(table: dict[str, Any], column: str) -> str:
    if column in table["key"]:
        return "key"
    stream = table.get("stream")
    if stream is None:
        return "static"
    if column == "ts":
        return "time"
    fields = {field["name"] for field in stream["fields"]}
    return f"of {stream['name']}" if column.removeprefix(stream["name"] + ".") in fields else "static"


def _sensors(connection: Connection, table: str) -> list[dict[str, Any]]:
    """Static values laid beside the live state."""
    found = connection.sensors(table)
    return [{**s["values"], **{n: v for n, v in s.items() if n not in ("key", "values")}} for s in found]


def _show(rows: list[dict[str, Any]], format: Format) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = {name: [None if row.get(name) is None else show(row[name]) for row in rows] for name in names}
    print_answer(Answer(pa.table(texts)), format)
