"""`penstock load`: a file of readings into a table."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from penstock.cli.server_address import Token, Url, connected, progress
from penstock.cli.sources import FileFormat, format_of, read_steps
from penstock.client import Refusal

REFUSALS_SHOWN = 10


def load(
    file: Annotated[Path, typer.Argument(help="CSV, NDJSON, Parquet or Arrow; - is stdin.")],
    table: Annotated[str, typer.Option("--table", "-t", help="The sensor table to load into.")],
    input: Annotated[FileFormat | None, typer.Option("--input", help="What FILE holds; default: by its name.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Loading the same file again under the same key stores nothing twice."),
    ] = None,
    url: Url = "",
    token: Token = "",
) -> None:
    """Push a file's readings, in its order. Status 1 if any was refused; the others are stored."""
    base = key or uuid.uuid4().hex
    accepted, sent = 0, 0
    refused: list[Refusal] = []
    refused_count = 0
    with connected(url, token) as connection:
        format = format_of(file, input)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]:,} rows"),
            TimeRemainingColumn(),
            console=progress,
        ) as bar:
            task = bar.add_task(f"loading {file.name}", total=1.0, rows=0)
            for number, step in enumerate(read_steps(file, format)):
                receipt = connection.push(table, step.chunk, idempotency_key=f"{base}-{number}")
                accepted += receipt.accepted
                refused_count += len(receipt.refused)
                room = REFUSALS_SHOWN - len(refused)
                refused += [Refusal(sent + r.index, r.condition, r.message) for r in receipt.refused[:room]]
                sent += receipt.accepted + len(receipt.refused)
                bar.update(task, completed=step.share, rows=sent)
            bar.update(task, completed=1.0)
    typer.echo(f"{accepted} readings stored in {table}, {refused_count} refused", err=True)
    for refusal in refused:
        typer.echo(f"  reading {refusal.index + 1}: {refusal.condition}: {refusal.message}", err=True)
    if refused_count > len(refused):
        typer.echo(f"  and {refused_count - len(refused)} more", err=True)
    if refused_count:
        raise typer.Exit(1)
