"""The file of users and tokens: `security/accounts.json` in the data folder, readable by its owner only.

A change is written aside, synced and renamed, under a lock that also `penstock user` takes, so that the command works
beside a running server. The server sees that the file is another one and reads it again.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from penstock.disk_sync import sync_folder
from penstock.errors import PenstockError, error
from penstock.security.caller import Role, role_named

FORMAT = 1


@dataclass(frozen=True, slots=True)
class User:
    """A person or program with a role. With a password it can sign in; without one only its tokens are accepted."""

    name: str
    role: Role
    password: str | None = field(default=None, repr=False)
    created_us: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """A secret for programs. One that is `owner`'s never has more than the owner's role, and goes with the owner."""

    name: str
    role: Role
    digest: str = field(repr=False)
    owner: str | None = None
    created_us: int = 0
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class Accounts:
    """All users and tokens by name."""

    users: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.users and not self.tokens

    @property
    def has_admin(self) -> bool:
        """Whether an admin can always sign in to change users: expiring tokens do not count."""
        return any(u.role == "admin" and u.password for u in self.users.values()) or any(
            t.role == "admin" and t.expires_us is None and (t.owner is None or self.users[t.owner].role == "admin")
            for t in self.tokens.values()
        )


def to_json(accounts: Accounts) -> dict[str, Any]:
    users, tokens = map(asdict, accounts.users.values()), map(asdict, accounts.tokens.values())
    return {"format": FORMAT, "users": list(users), "tokens": list(tokens)}


def from_json(found: dict[str, Any]) -> Accounts:
    if found.get("format", 0) > FORMAT:
        raise error("folder_too_new", found=found["format"], known=FORMAT, hint="install a newer Penstock")
    users = [User(u["name"], role_named(u["role"]), u.get("password"), u.get("created_us", 0)) for u in found["users"]]
    tokens = [
        Token(
            t["name"], role_named(t["role"]), t["digest"], t.get("owner"), t.get("created_us", 0), t.get("expires_us")
        )
        for t in found["tokens"]
    ]
    return Accounts({u.name: u for u in users}, {t.name: t for t in tokens})


_SUM = "crc32"


def _sum(body: dict[str, Any]) -> int:
    return zlib.crc32(orjson.dumps(body))


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
            if self._mark.exists():
                raise self._corrupt("it is missing") from None
            return Accounts()
        try:
            found = orjson.loads(text)
            wanted = found.pop(_SUM, None)  # files of format 1 have none
            if wanted is not None and wanted != _sum(found):
                raise self._corrupt("its checksum is wrong: the file has changed since it was written")
            return from_json(found)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as problem:
            raise self._corrupt(type(problem).__name__) from None

    @property
    def _mark(self) -> Path:
        """A file that says that there were users: then a missing list of them does not open the server."""
        return self.path.with_name("present")

    def _corrupt(self, detail: str) -> PenstockError:
        # No request is let in on a guess: without a readable list of users the answer is no.
        hint = "restore the folder `security` from a backup, or remove it and add the users again with penstock user"
        return error("corrupt_accounts", file=str(self.path), detail=detail, hint=hint)

    def write(self, accounts: Accounts) -> None:
        aside = self.path.with_suffix(".new")
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            body = to_json(accounts)
            stream.write(orjson.dumps({**body, _SUM: _sum(body)}, option=orjson.OPT_INDENT_2))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, self.path)
        sync_folder(self.path.parent)
        if not self._mark.exists():
            self._mark.touch(mode=0o600)
            sync_folder(self.path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file: no other thread or process changes it meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path.parent / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
