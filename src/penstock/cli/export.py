"""`penstock export`: an answer into a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import typer

from penstock.cli.load import FileFormat, format_of
from penstock.cli.output import json_line, print_csv
from penstock.cli.server_address import Token, Url, connected, progress


def export(
    query: Annotated[str, typer.Argument(metavar="QUERY-OR-SELECT", help="A standing query's name, or a SELECT.")],
    to: Annotated[Path, typer.Option("--to", help="File to write: .csv, .parquet, .arrow or .ndjson.")],
    url: Url = "",
    token: Token = "",
) -> None:
    """Write an answer to a file, whole or not at all; what was there is replaced."""
    with connected(url, token) as connection:
        write = WRITERS[format_of(to, None)]
        with progress.status(f"asking {connection.url}"):
            answer = connection.query(query).answer()
        aside = to.with_name(f".{to.name}.{os.getpid()}")
        try:
            write(answer.table, aside)
            aside.replace(to)
        except OSError as problem:
            typer.echo(f"cannot write {to}: {problem.strerror or problem}", err=True)
            raise typer.Exit(1) from None
        finally:
            aside.unlink(missing_ok=True)
        if answer.complete_from:
            typer.echo(f"note: complete only from {answer.complete_from} on", err=True)
        typer.echo(f"{len(answer)} rows in {to}", err=True)


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def _write_csv(table: pa.Table, path: Path) -> None:
    with path.open("w", newline="") as stream:
        print_csv(table.schema.names, _rows(table), to=stream)


def _write_ndjson(table: pa.Table, path: Path) -> None:
    with path.open("w") as stream:
        stream.writelines(json_line(table.schema.names, row) + "\n" for row in _rows(table))


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[FileFormat, Callable[[pa.Table, Path], None]] = {
    FileFormat.csv: _write_csv,
    FileFormat.ndjson: _write_ndjson,
    FileFormat.parquet: pa_parquet.write_table,
    FileFormat.arrow: _write_arrow,
}
