"""The shell's backslash commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from penstock.cli.output import Format, print_answer
from penstock.cli.statement_runner import run_script
from penstock.client import Answer, Connection
from penstock.errors import PenstockError, error

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


class UnknownHelper(Exception):
    """Not one of HELPERS."""


def run_helper(line: str, connection: Connection, format: Format) -> Format:
    """Run one; the format that holds afterwards."""
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
            run_script(connection, _read(Path(argument)), format, origin=argument)
        case "\\status":
            from penstock.cli.status import print_status

            print_status(connection.status())
        case _:
            raise UnknownHelper(word)
    return format


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as problem:
        raise error("invalid_parameter", detail=f"cannot read {path}: {problem.strerror}") from None


def _overview(connection: Connection) -> list[dict[str, Any]]:
    tables = [
        {"name": t["name"], "kind": "sensor table" if t.get("stream") else "table", "definition": _columns(t)}
        for t in connection.tables()
    ]
    queries = [{"name": q["name"], "kind": "query", "definition": q.get("sql")} for q in connection.queries()]
    return tables + queries


def _columns(table: dict[str, Any]) -> str:
    return ", ".join(column["name"] for column in table["columns"])


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
    found = []
    for sensor in connection.sensors(table):
        values = sensor.pop("values", {})
        sensor.pop("key", None)
        found.append({**values, **sensor})
    return found


def _show(rows: list[dict[str, Any]], format: Format) -> None:
    from penstock.cli.output import show

    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = {name: [None if row.get(name) is None else show(row[name]) for row in rows] for name in names}
    print_answer(Answer(pa.table(texts)), format)
