"""`penstock backup`, `penstock restore` and `penstock check`: a copy of the data folder, a data folder from a copy, and what is damaged."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from penstock.cli.command import AskedFormat, Token, Url, choose_format, connected, print_rows, progress, reported
from penstock.disk_sync import sync_folder
from penstock.errors import error
from penstock.manifest import FileSum, Took, copy_file, difference, list_files, no_progress, read_manifest

_LOOK_S = 0.5
_PROBLEMS_SHOWN = 10


def backup(
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet, on the server's machine.")],
    link: Annotated[
        bool,
        typer.Option("--link", help="Make hard links in place of copies: fast, but damage to a file is in both."),
    ] = False,
    url: Url = "",
    token: Token = "",
) -> None:
    """Copy the data folder of a running server; it goes on meanwhile. Status 1 if files were damaged before."""
    path = target.absolute()
    with connected(url, token) as connection, _bar(f"backing up to {path}") as (bar, task):
        with ThreadPoolExecutor(1) as pool:
            copying = pool.submit(connection.backup, str(path), link)
            while not copying.done():
                try:
                    copying.exception(_LOOK_S)
                except TimeoutError:
                    found = connection.status().get("backups", {}).get(str(path))
                    if found:
                        bar.update(task, completed=found["bytes"], total=found["total_bytes"])
        damaged = copying.result()
    typer.echo(f"backup in {path}", err=True)
    if damaged:
        typer.echo(f"{len(damaged)} files were damaged before, and are in the backup as they are:", err=True)
        _list(damaged)
        raise typer.Exit(1)


def restore(
    source: Annotated[Path, typer.Argument(help="A folder that `penstock backup` wrote.")],
    data: Annotated[Path, typer.Option("--data", help="The data folder to make; it must not exist or be empty.")],
    accept_damage: Annotated[
        bool, typer.Option("--accept-damage", help="Restore what is left of a backup that is damaged.")
    ] = False,
) -> None:
    """Make a data folder from a backup. No server runs on it yet, and the backup stays as it is."""
    with reported():
        with _bar(f"restoring {data}") as (bar, task):
            total = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
            bar.update(task, total=total)
            problems = copy_backup(source, data, accept_damage, lambda count: bar.update(task, advance=count))
    _list(problems)
    typer.echo(f"restored; start it with: penstock serve --data {data}", err=True)


def copy_backup(source: Path, data: Path, accept_damage: bool = False, took: Took = no_progress) -> list[str]:
    """Copy aside, checking each file against the manifest, then rename: one that was cut short leaves no half data folder.

    What comes back is what differs from the manifest, which is refused unless `accept_damage`.
    """
    from penstock.cycle.folder import check_finished

    check_finished(source)
    if not (source / "format_version").is_file():
        raise error("invalid_parameter", detail=f"{source} is not a backup", hint="it has no format_version")
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise error("already_exists", kind="folder", name=str(data), hint="restore into one that is new or empty")
    aside = data.absolute().with_name(f".{data.name}.restoring-{os.getpid()}")
    try:
        aside.parent.mkdir(parents=True, exist_ok=True)
        problems = _copy_files(source, aside, took)
        if problems and not accept_damage:
            hint = "restore another one; with --accept-damage you get what is left of this one"
            raise error("damaged_backup", folder=str(source), detail="; ".join(_first(problems)), hint=hint)
        aside.chmod(0o700)
        if data.exists():
            data.rmdir()
        aside.rename(data)
        sync_folder(data.absolute().parent)
        return problems
    except OSError as problem:
        raise error("invalid_parameter", detail=f"cannot restore to {data}: {problem}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy_files(source: Path, target: Path, took: Took) -> list[str]:
    """Copy what is there; every difference from the manifest."""
    wanted: dict[str, FileSum] | None = None
    problems: list[str] = []
    try:
        with suppress(FileNotFoundError):  # written by a version that made none
            wanted = read_manifest(source)
    except ValueError as problem:
        problems.append(str(problem))
    names = list(list_files(source))
    target.mkdir(mode=0o700)
    for name in names:
        if wanted is not None and name not in wanted:
            problems.append(f"{name} is not in the manifest")
            continue
        (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = copy_file(source / name, target / name, took)
        why = difference(wanted[name], found) if wanted is not None else None
        if why is not None:
            problems.append(f"{name} {why}")
    problems += [f"{name} is missing" for name in (wanted or {}) if name not in set(names)]
    for at, _, _ in os.walk(target):
        Path(at).chmod(0o700)
        sync_folder(Path(at))
    return problems


def _first(problems: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(problems) - _PROBLEMS_SHOWN
    return problems[:_PROBLEMS_SHOWN] + ([f"and {more} more"] if more > 0 else [])


def _list(problems: list[str]) -> None:
    for line in _first(problems):
        typer.echo(f"  {line}", err=True)


@contextmanager
def _bar(text: str) -> Iterator[tuple[Progress, TaskID]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=progress) as bar:
        yield bar, bar.add_task(text, total=None)


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
