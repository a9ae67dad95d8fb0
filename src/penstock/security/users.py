"""All users and tokens: looked up by access control, changed by SQL and by `penstock user`.

They are in `security/accounts.json` of the data folder, readable by its owner only. A change is written aside, synced and renamed,
under a lock that also `penstock user` takes, so that the command works beside a running server. The server sees that the file is
another one and reads it again.

Passwords and tokens are kept as hashes that do not lead back. A password is short, so guessing it must be slow: scrypt, with a
salt of its own. A token is 256 random bits, which cannot be guessed, so one SHA-256 is enough, and it is looked up by it.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import secrets
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from penstock.clock import Clock, WallClock
from penstock.disk_sync import replace_file, sync_folder
from penstock.errors import PenstockError, error, suggest, too_new
from penstock.security.caller import ROLES, Caller, Role, role_named

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
        raise too_new(f"its users have format {found['format']}, and this version reads up to {FORMAT}")
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
        body = to_json(accounts)
        text = orjson.dumps({**body, _SUM: _sum(body)}, option=orjson.OPT_INDENT_2)
        replace_file(self.path, text, synced=True)
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


TOKEN_PREFIX = "pst_"
PASSWORD_MIN_CHARS = 8
PASSWORD_MAX_CHARS = 1024
_MAX_MEMORY = 256 << 20


@dataclass(frozen=True, slots=True)
class Cost:
    """What one guess costs: 32 MB and some tenths of a second, as OWASP advises for scrypt."""

    log_n: int = 15
    r: int = 8
    p: int = 3


PASSWORD_COST = Cost()


def hash_password(password: str, cost: Cost = PASSWORD_COST) -> str:
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, cost)
    return f"scrypt${cost.log_n}${cost.r}${cost.p}${_text(salt)}${_text(digest)}"


def verify_password(password: str, kept: str) -> bool:
    """Whether a password is the one that was hashed; as slow for a wrong one as for the right one."""
    _, log_n, r, p, salt, digest = kept.split("$")
    made = _scrypt(password, base64.b64decode(salt), Cost(int(log_n), int(r), int(p)))
    return hmac.compare_digest(made, base64.b64decode(digest))


def check_password(password: str) -> None:
    """Refuse what is no protection, without repeating it."""
    if not PASSWORD_MIN_CHARS <= len(password) <= PASSWORD_MAX_CHARS:
        detail = f"a password has {PASSWORD_MIN_CHARS} to {PASSWORD_MAX_CHARS} characters"
        raise error("invalid_option", option="password", detail=detail)


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(password: str, salt: bytes, cost: Cost) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << cost.log_n, r=cost.r, p=cost.p, maxmem=_MAX_MEMORY, dklen=32
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


NAME_MAX_CHARS = 128
# The token of the settings; it can do everything and cannot be dropped.
SETTING = Caller("token", "admin", via="setting", credential="setting")


_UNREAD: Stamp = (-1, -1, -1)  # of no file: the first look reads it


class Users:
    """One data folder's users and tokens, and the token of the settings. Thread-safe."""

    def __init__(
        self, data: Path, setting_token: str = "", clock: Clock | None = None, cost: Cost | None = None
    ) -> None:
        self._file = AccountFile(data)
        self.trust(setting_token)
        self.clock = clock or WallClock()
        self._cost = cost or PASSWORD_COST
        self._lock = threading.Lock()
        self._read: tuple[Stamp, Accounts] = (_UNREAD, Accounts())
        self._by_digest: tuple[Accounts, dict[str, Token]] = (self._read[1], {})

    def trust(self, setting_token: str) -> None:
        """The token of the settings is an admin's; empty: there is none."""
        self._setting = token_digest(setting_token) if setting_token else None

    # -- looking up

    def accounts(self) -> Accounts:
        """As they are now; read again if the file is another one."""
        stamp = self._file.stamp()
        if stamp != self._read[0]:
            self._read = (stamp, self._file.read())
        return self._read[1]

    @property
    def required(self) -> bool:
        """Whether callers have to sign in: there is a user, a token, or a token in the settings."""
        return self._setting is not None or not self.accounts().empty

    def by_token(self, text: str) -> Caller | None:
        """The caller that has this token; None if there is none, or it has expired."""
        return self.by_digest(token_digest(text))

    def by_digest(self, digest: str) -> Caller | None:
        """The caller with a token of this digest, as `by_token` finds it."""
        if self._setting is not None and hmac.compare_digest(digest, self._setting):
            return SETTING
        return self._by_digest_kept(digest)

    def by_password(self, name: str, password: str) -> User | None:
        """The user of that name and password. Slow, whether or not there is such a user."""
        user = self.accounts().users.get(name)
        if user is None or user.password is None:
            verify_password(password, self._decoy)
            return None
        return user if verify_password(password, user.password) else None

    def still(self, caller: Caller) -> Caller | None:
        """The same caller as of now: with the role it has by now, or None if it may not come in any more."""
        if caller.credential is None or caller.credential == "setting":
            return caller
        kind, _, key = caller.credential.partition(":")
        if kind == "token":
            found = self._by_digest_kept(key)
        else:
            user = self.accounts().users.get(caller.user or "")
            # The hash of the password stands for it: a changed password ends all sessions.
            same = user is not None and user.password is not None and token_digest(user.password) == key
            found = as_caller(user) if user is not None and same else None
        if found is None:
            return None
        return replace(found, via=caller.via, address=caller.address, session=caller.session)

    def _by_digest_kept(self, digest: str) -> Caller | None:
        accounts = self.accounts()
        if self._by_digest[0] is not accounts:
            self._by_digest = (accounts, {t.digest: t for t in accounts.tokens.values()})
        token = self._by_digest[1].get(digest)
        if token is None or (token.expires_us is not None and token.expires_us <= self.clock.now_us()):
            return None
        role = token.role
        if token.owner is not None:
            owner = self.accounts().users.get(token.owner)
            if owner is None:
                return None
            role = min(role, owner.role, key=ROLES.index)
        return Caller(
            token.owner or token.name, role, token.owner, f"token {token.name}", None, f"token:{token.digest}"
        )

    @cached_property
    def _decoy(self) -> str:
        """What an unknown user's password is held against, so that it takes as long as a known one's."""
        return hash_password("nobody has this password", self._cost)

    # -- changing

    def create_user(self, name: str, role: Role, password: str | None, if_not_exists: bool = False) -> None:
        _check_name(name, "user")
        kept = self._hashed(password)
        with self._changing() as accounts:
            if name not in accounts.users:
                accounts.users[name] = User(name, role, kept, self.clock.now_us())
            elif not if_not_exists:
                raise error("already_exists", kind="user", name=name)

    def alter_user(self, name: str, role: Role | None = None, password: str | None = None) -> None:
        kept = self._hashed(password)
        with self._changing() as accounts:
            user = _find_user(accounts, name)
            accounts.users[name] = replace(user, role=role or user.role, password=kept or user.password)

    def drop_user(self, name: str, if_exists: bool = False) -> None:
        """Its tokens go, too."""
        with self._changing() as accounts:
            if if_exists and name not in accounts.users:
                return
            del accounts.users[_find_user(accounts, name).name]
            for token in [t.name for t in accounts.tokens.values() if t.owner == name]:
                del accounts.tokens[token]

    def create_token(self, name: str, role: Role, owner: str | None = None, expires_us: int | None = None) -> str:
        """The token itself, this once: only its hash is kept."""
        _check_name(name, "token")
        if expires_us is not None and expires_us <= self.clock.now_us():
            raise error("invalid_option", option="valid until", detail="that time has passed")
        text = new_token()
        with self._changing() as accounts:
            if name in accounts.tokens:
                raise error("already_exists", kind="token", name=name)
            if owner is not None:
                _find_user(accounts, owner)
            accounts.tokens[name] = Token(name, role, token_digest(text), owner, self.clock.now_us(), expires_us)
        return text

    def drop_token(self, name: str, if_exists: bool = False) -> None:
        with self._changing() as accounts:
            if accounts.tokens.pop(name, None) is None and not if_exists:
                raise error("token_not_found", token=name, hint=suggest(name, accounts.tokens))

    def _hashed(self, password: str | None) -> str | None:
        if password is None:
            return None
        check_password(password)
        return hash_password(password, self._cost)

    @contextmanager
    def _changing(self) -> Iterator[Accounts]:
        """A copy to change, which is written at the end of the block. Refused where no caller could change users any more."""
        with self._lock, self._file.locked():
            before = self._file.read()
            after = Accounts(dict(before.users), dict(before.tokens))
            yield after
            if not (after.empty or after.has_admin or self._setting is not None):
                raise error(
                    "invalid_definition",
                    detail="no user could administer this server any more",
                    hint="have an admin first: CREATE USER name PASSWORD '...' ROLE admin",
                )
            if after != before:
                self._file.write(after)
            self._read = (self._file.stamp(), after)


def as_caller(user: User) -> Caller:
    """A user that has shown its password."""
    return Caller(user.name, user.role, user.name, "password", None, f"user:{token_digest(user.password or '')}")


def _find_user(now: Accounts, name: str) -> User:
    found = now.users.get(name)
    if found is None:
        raise error("user_not_found", user=name, hint=suggest(name, now.users))
    return found


def _check_name(name: str, kind: str) -> None:
    if not 1 <= len(name) <= NAME_MAX_CHARS or not name.isprintable():
        detail = f"the name of a {kind} has 1 to {NAME_MAX_CHARS} printable characters"
        raise error("invalid_option", option="name", detail=detail)
