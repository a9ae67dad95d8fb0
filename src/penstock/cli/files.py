"""`penstock load` and `penstock export`: readings from a file, and an answer to a file."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from penstock.cli.command import Token, Url, connected, json_line, print_csv, progress, rows_of
from penstock.client import Refusal
from penstock.errors import error

# One batch to push, and how much of the file is behind it (0 to 1).
FileBatch: TypeAlias = "tuple[pa.Table | list[dict[str, Any]], float]"

CHUNK_ROWS = 50_000
_CSV_BLOCK_BYTES = 4 << 20


class FileFormat(StrEnum):
    """What is in a file; told by its name unless said."""

    csv = "csv"
    ndjson = "ndjson"
    parquet = "parquet"
    arrow = "arrow"


_SUFFIXES = {
    ".csv": FileFormat.csv,
    ".ndjson": FileFormat.ndjson,
    ".jsonl": FileFormat.ndjson,
    ".parquet": FileFormat.parquet,
    ".arrow": FileFormat.arrow,
    ".arrows": FileFormat.arrow,
    ".feather": FileFormat.arrow,
}


def format_of(path: Path, asked: FileFormat | None) -> FileFormat:
    if asked is not None:
        return asked
    found = _SUFFIXES.get(path.suffix.lower())
    if found is None:
        detail = f'cannot tell from its name what "{path}" holds'
        raise error("invalid_parameter", detail=detail, hint="say --input csv, ndjson, parquet or arrow")
    return found


def read_batches(path: Path, format: FileFormat) -> Iterator[FileBatch]:
    """Batches in the file's order. Problems of the file come as invalid_body, naming it."""
    try:
        if str(path) == "-":
            yield from READERS[format](sys.stdin.buffer, 0)
            return
        with path.open("rb") as stream:
            yield from READERS[format](stream, path.stat().st_size)
    except OSError as problem:
        raise error("invalid_parameter", detail=f"cannot read {path}: {problem.strerror or problem}") from None
    except pa.ArrowException as problem:
        raise error("invalid_body", detail=f"{path}: {problem}") from None


def _read_csv(stream: IO[bytes], size: int) -> Iterator[FileBatch]:
    """Columns stay text: the table's own types decide what it means."""
    from penstock.server.http.decode import CSV_PARSE, as_text  # other commands need not wait for parts of the server

    first = stream.readline()
    names = pa_csv.read_csv(pa.BufferReader(first)).schema.names
    blocks = pa_csv.ReadOptions(column_names=names, block_size=_CSV_BLOCK_BYTES)
    done = len(first)
    for batch in pa_csv.open_csv(stream, blocks, CSV_PARSE, as_text(names)):
        done += _CSV_BLOCK_BYTES
        yield pa.Table.from_batches([batch]), _share(done, size)


def _read_ndjson(stream: IO[bytes], size: int) -> Iterator[FileBatch]:
    rows: list[dict[str, Any]] = []
    done = 0
    for number, line in enumerate(stream, 1):
        done += len(line)
        if line.isspace():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise error("invalid_body", detail=f"line {number} is not JSON: {problem}") from None
        if not isinstance(row, dict):
            raise error("invalid_body", detail=f"line {number} is not an object")
        rows.append(row)
        if len(rows) == CHUNK_ROWS:
            yield rows, _share(done, size)
            rows = []
    if rows:
        yield rows, 1.0


def _read_parquet(stream: IO[bytes], size: int) -> Iterator[FileBatch]:
    file = pa_parquet.ParquetFile(stream)
    done = 0
    for batch in file.iter_batches(batch_size=CHUNK_ROWS):
        done += batch.num_rows
        yield pa.Table.from_batches([batch]), _share(done, file.metadata.num_rows)


def _read_arrow(stream: IO[bytes], size: int) -> Iterator[FileBatch]:
    magic = stream.read(6)
    stream.seek(0)
    if magic == b"ARROW1":
        file = pa.ipc.open_file(stream)
        for index in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(index)]), (index + 1) / file.num_record_batches
        return
    for batch in pa.ipc.open_stream(stream):
        yield pa.Table.from_batches([batch]), _share(stream.tell(), size)


def _share(done: int, size: int) -> float:
    return min(1.0, done / size) if size else 0.0


READERS: dict[FileFormat, Callable[[IO[bytes], int], Iterator[FileBatch]]] = {
    FileFormat.csv: _read_csv,
    FileFormat.ndjson: _read_ndjson,
    FileFormat.parquet: _read_parquet,
    FileFormat.arrow: _read_arrow,
}


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
    accepted = sent = refused_count = 0
    refused: list[Refusal] = []
    with connected(url, token) as connection:
        format = format_of(file, input)
        rows = TextColumn("{task.fields[rows]:,} rows")
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), rows, TimeRemainingColumn())
        with Progress(*columns, console=progress) as bar:
            task = bar.add_task(f"loading {file.name}", total=1.0, rows=0)
            for number, (batch, share) in enumerate(read_batches(file, format)):
                receipt = connection.push(table, batch, idempotency_key=f"{base}-{number}")
                accepted += receipt.accepted
                refused_count += len(receipt.refused)
                room = REFUSALS_SHOWN - len(refused)
                refused += [Refusal(sent + r.index, r.condition, r.message) for r in receipt.refused[:room]]
                sent += receipt.accepted + len(receipt.refused)
                bar.update(task, completed=share, rows=sent)
            bar.update(task, completed=1.0)
    typer.echo(f"{accepted} readings stored in {table}, {refused_count} refused", err=True)
    for refusal in refused:
        typer.echo(f"  reading {refusal.index + 1}: {refusal.condition}: {refusal.message}", err=True)
    if refused_count > len(refused):
        typer.echo(f"  and {refused_count - len(refused)} more", err=True)
    if refused_count:
        raise typer.Exit(1)


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


def _write_csv(table: pa.Table, path: Path) -> None:
    with path.open("w", newline="") as stream:
        print_csv(table.schema.names, rows_of(table), to=stream)


def _write_ndjson(table: pa.Table, path: Path) -> None:
    with path.open("w") as stream:
        stream.writelines(json_line(table.schema.names, row) + "\n" for row in rows_of(table))


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[FileFormat, Callable[[pa.Table, Path], None]] = {
    FileFormat.csv: _write_csv,
    FileFormat.ndjson: _write_ndjson,
    FileFormat.parquet: pa_parquet.write_table,
    FileFormat.arrow: _write_arrow,
}
