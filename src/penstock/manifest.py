"""The manifest of a backup: each of its files with size and SHA-256, so that rot and loss are noticed before a restore."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MANIFEST = "manifest.json"
# Made by a server that ran on the folder, not by the backup.
NOT_LISTED = frozenset({MANIFEST, "lock", "tmp"})
_PIECE = 1 << 20

Took = Callable[[int], None]


def no_progress(count: int) -> None:
    """For copies that show none."""


@dataclass(frozen=True, slots=True)
class FileSum:
    """What a file of a backup must be. Without `sha256` (a hard link, which was not read) only its size is known."""

    size: int
    sha256: str | None


def copy_file(source: Path, target: Path, took: Took) -> FileSum:
    """Copy bytes into a new file that only its owner reads, synced; `took` is told how many came since the last call."""
    with source.open("rb") as read, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as write:
        found = _sum(read, took, write.write)
        write.flush()
        os.fsync(write.fileno())
    return found


def sum_file(path: Path, took: Took = no_progress) -> FileSum:
    """Size and SHA-256 of a file as it is now."""
    with path.open("rb") as read:
        return _sum(read, took, len)


def _sum(read: BinaryIO, took: Took, also: Callable[[bytes], object]) -> FileSum:
    """Size and SHA-256 of what is left to read; `also` gets the bytes, piece by piece."""
    digest, size = hashlib.sha256(), 0
    while piece := read.read(_PIECE):
        digest.update(piece)
        also(piece)
        size += len(piece)
        took(len(piece))
    return FileSum(size, digest.hexdigest())


def list_files(folder: Path) -> Iterator[str]:
    """The files that a manifest has to name, by their paths inside the folder, in order."""
    for at, folders, names in os.walk(folder):
        folders.sort()
        inside = Path(at).relative_to(folder)
        top = inside == Path(".")
        if top:
            folders[:] = [name for name in folders if name not in NOT_LISTED]
        yield from (str(inside / name) for name in sorted(names) if not (top and name in NOT_LISTED))


def write_manifest(folder: Path, sums: Mapping[str, FileSum], damaged: list[str]) -> None:
    """`damaged` names what was wrong already in the data folder that was copied."""
    files = {name: {"size": each.size, "sha256": each.sha256} for name, each in sorted(sums.items())}
    body = {"files": files, "damaged": damaged}
    text = json.dumps({**body, "sha256": _digest(body)}, indent=1)
    with open(os.open(folder / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as write:
        write.write(text + "\n")
        write.flush()
        os.fsync(write.fileno())


def read_manifest(folder: Path) -> dict[str, FileSum]:
    """What each file must be. ValueError where the manifest itself is damaged; FileNotFoundError where there is none."""
    try:
        body: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        wanted = body.pop("sha256")
        files = {str(name): FileSum(int(each["size"]), each["sha256"]) for name, each in body["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{MANIFEST} cannot be read: {problem}") from None
    if wanted != _digest(body):
        raise ValueError(f"{MANIFEST} has changed since it was written")
    return files


def verify_backup(folder: Path) -> list[str]:
    """Every difference between a backup and its manifest, a sentence each; empty where it is as it was written."""
    try:
        wanted = read_manifest(folder)
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    except (ValueError, OSError) as problem:
        return [str(problem)]
    problems = [f"{name} is not in the manifest" for name in list_files(folder) if name not in wanted]
    found = ((name, _compare(folder / name, each)) for name, each in wanted.items())
    return problems + [f"{name} {why}" for name, why in found if why is not None]


def difference(wanted: FileSum, found: FileSum) -> str | None:
    """Why a file is not what the manifest says; None where it is."""
    if found.size != wanted.size:
        return f"has {found.size} bytes instead of {wanted.size}"
    if wanted.sha256 is not None and found.sha256 != wanted.sha256:
        return "has changed since the backup was written"
    return None


def _compare(path: Path, wanted: FileSum) -> str | None:
    try:
        found = sum_file(path) if wanted.sha256 is not None else FileSum(path.stat().st_size, None)
    except FileNotFoundError:
        return "is missing"
    except OSError as problem:
        return f"cannot be read: {problem}"
    return difference(wanted, found)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
