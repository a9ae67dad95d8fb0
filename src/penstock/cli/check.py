"""`penstock check`: reads every file of a data folder or a backup and says which are damaged."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from penstock.cli.output import AskedFormat, choose_format, print_rows
from penstock.cli.server_address import progress, reported
from penstock.errors import error


def check(
    folder: Annotated[Path, typer.Argument(help="A data folder that no server uses, or a backup.")],
    format: AskedFormat = None,
) -> None:
    """Read every file of a data folder or backup and compare its checksums; status 1 where one is damaged."""
    from penstock.database.verification import files_of, verify_folder

    with reported():
        if not (folder / "folder_id").is_file() and not (folder / "format_version").is_file():
            raise error("invalid_parameter", detail=f"{folder} is neither a data folder nor a backup")
        with _unused(folder):
            files = list(files_of(folder))
            total = sum(path.stat().st_size for path, _ in files)
            columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
            with Progress(*columns, console=progress, transient=True) as bar:
                task = bar.add_task("check", total=total)
                problems = verify_folder(folder, lambda size: bar.advance(task, size))
        if problems:
            rows = [(problem.file, problem.kind, problem.detail) for problem in problems]
            print_rows(["file", "kind", "detail"], rows, choose_format(format))
    many = "no file is" if not problems else "one file is" if len(problems) == 1 else f"{len(problems)} files are"
    typer.echo(f"{len(files)} files, {total} bytes: {many} damaged", err=True)
    if problems:
        raise typer.Exit(1)


@contextmanager
def _unused(folder: Path) -> Iterator[None]:
    """Refuse a folder that a server uses: its files change while they are read."""
    if not (folder / "lock").exists():
        yield
        return
    handle = os.open(folder / "lock", os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pid = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            hint = "the server checks its files itself: SELECT * FROM penstock.damage"
            raise error("folder_in_use", pid=pid, folder=str(folder), hint=hint) from None
        yield
    finally:
        os.close(handle)
