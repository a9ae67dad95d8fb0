"""`penstock backup` and `penstock restore`: a copy of the data folder, and a data folder from a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.connecting import Token, Url, connected, progress, reported
from penstock.errors import error
from penstock.syncing import sync_file, sync_folder

# Belongs to the process that ran there, not to the data.
LEFT_BEHIND = frozenset({"lock", "tmp"})


def backup(
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet, on the server's machine.")],
    url: Url = "",
    token: Token = "",
) -> None:
    """Copy the data folder of a running server; it goes on meanwhile."""
    path = target.absolute()
    with connected(url, token) as connection:
        with progress.status(f"backing up to {path}"):
            connection.backup(str(path))
    typer.echo(f"backup in {path}", err=True)


def restore(
    source: Annotated[Path, typer.Argument(help="A folder that `penstock backup` wrote.")],
    data: Annotated[Path, typer.Option("--data", help="The data folder to make; it must not exist or be empty.")],
) -> None:
    """Make a data folder from a backup. No server runs on it yet, and the backup stays as it is."""
    with reported():
        with progress.status(f"restoring {data}"):
            copy_backup(source, data)
    typer.echo(f"restored; start it with: penstock serve --data {data}", err=True)


def copy_backup(source: Path, data: Path) -> None:
    """Copy aside, sync, then rename: a restore that was cut short leaves no half data folder."""
    from penstock.pipeline.folder import check_finished

    check_finished(source)
    if not (source / "format_version").is_file():
        raise error("invalid_parameter", detail=f"{source} is not a backup", hint="it has no format_version")
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise error("already_exists", kind="folder", name=str(data), hint="restore into one that is new or empty")
    aside = data.absolute().with_name(f".{data.name}.restoring-{os.getpid()}")
    try:
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, aside, ignore=_left_behind(source), copy_function=_copy_synced)
        aside.chmod(0o700)
        if data.exists():
            data.rmdir()
        aside.rename(data)
        sync_folder(data.absolute().parent)
    except OSError as problem:
        raise error("invalid_parameter", detail=f"cannot restore to {data}: {problem}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _left_behind(top: Path) -> Callable[[str, list[str]], set[str]]:
    def ignore(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in LEFT_BEHIND} if Path(folder) == top else set()

    return ignore


def _copy_synced(source: str, target: str) -> None:
    shutil.copy2(source, target)
    sync_file(Path(target))
