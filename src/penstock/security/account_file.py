"""The file of users and tokens: `security/accounts.json` in the data folder, readable by its owner only.

A change is written aside, synced and renamed, under a lock that also `penstock user` takes, so that the command works
beside a running server. The server sees that the file is another one and reads it again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from penstock.errors import error
from penstock.security.model import Accounts, from_json, to_json
from penstock.syncing import sync_folder

Stamp = tuple[int, int, int] | None


class AccountFile:
    """Reads and writes all users and tokens at once: there are few, and they seldom change."""

    def __init__(self, data: Path) -> None:
        self.path = data / "security" / "accounts.json"

    def stamp(self) -> Stamp:
        """Another value whenever the file is another one; None where there is none."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def read(self) -> Accounts:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return Accounts()
        try:
            return from_json(orjson.loads(text))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as problem:
            # Nobody is let in on a guess: without a readable list of users the answer is no.
            raise error(
                "corrupt_accounts",
                file=str(self.path),
                detail=type(problem).__name__,
                hint="restore it from a backup, or remove it and add the users again with penstock user",
            ) from None

    def write(self, accounts: Accounts) -> None:
        aside = self.path.with_suffix(".new")
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(orjson.dumps(to_json(accounts), option=orjson.OPT_INDENT_2))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, self.path)
        sync_folder(self.path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else, in this process or another, changes the file meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path.parent / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
