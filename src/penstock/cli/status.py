"""`penstock status`: how the server is doing, on one screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.command import AskedFormat, Format, Token, Url, choose_format, connected, print_csv, show


def status(format: AskedFormat = None, url: Url = "", token: Token = "") -> None:
    """Cycles, rates, lag; status 1 when the server is not ready."""
    with connected(url, token) as connection:
        health = connection.health()
        facts: dict[str, Any] = {"server": connection.url, "ready": health["ready"], "reason": health["reason"]}
        if health["ready"]:
            facts |= connection.status()
        chosen = choose_format(format)
        if chosen is Format.json:
            sys.stdout.write(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode() + "\n")
        elif chosen is Format.csv:
            print_csv(["name", "value"], flatten(facts))
        else:
            print_status(facts)
    if not health["ready"]:
        raise typer.Exit(1)


def flatten(facts: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its dotted name."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def print_status(facts: dict[str, Any]) -> None:
    """Plain facts in one table, each group of records (tables, queries, ...) in one of its own."""
    console = Console(file=sys.stdout)
    plain = Table(box=None, show_header=False, pad_edge=False)
    plain.add_column(style="bold")
    plain.add_column()
    groups: list[tuple[str, list[dict[str, Any]]]] = []
    for key, value in facts.items():
        records = _records(value)
        if records is not None:
            groups.append((key, records))
        elif isinstance(value, dict):
            for name, part in flatten(value):
                plain.add_row(Text(f"{key} {name}"), Text(_cell(part)))
        else:
            plain.add_row(Text(key.replace("_", " ")), Text(_cell(value)))
    console.print(plain)
    for name, records in groups:
        if records:
            console.print(_group(name, records))


def _records(value: Any) -> list[dict[str, Any]] | None:
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return value
    if isinstance(value, dict) and value and all(isinstance(part, dict) for part in value.values()):
        return [{"name": name, **part} for name, part in value.items()]
    return None


def _group(name: str, records: list[dict[str, Any]]) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold")
    columns = list(dict.fromkeys(key for record in records for key in record))
    for column in columns:
        numeric = all(isinstance(record.get(column), int | float | None) for record in records)
        table.add_column(Text(column.replace("_", " ")), justify="right" if numeric else "left")
    for record in records:
        table.add_row(*[Text(_cell(record.get(column))) for column in columns])
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        # Counts by kind, such as refused readings by condition.
        return ", ".join(f"{name} {_cell(part)}" for name, part in value.items())
    return show(value)
