"""Passwords and tokens as they are kept: as hashes that do not lead back.

A password is short, so guessing it must be slow: scrypt, with a salt of its own. A token is 256 random bits,
which cannot be guessed, so one SHA-256 is enough, and it is looked up by it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from penstock.errors import error

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


def hash_password(password: str, cost: Cost = Cost()) -> str:
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
