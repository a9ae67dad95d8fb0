"""Users and tokens as they are kept, and the whole of them at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import error
from penstock.security.roles import Role, role_named

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

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)

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
    return {
        "format": FORMAT,
        "users": [
            {"name": u.name, "role": u.role, "password": u.password, "created_us": u.created_us}
            for u in accounts.users.values()
        ],
        "tokens": [
            {
                "name": t.name,
                "role": t.role,
                "digest": t.digest,
                "owner": t.owner,
                "created_us": t.created_us,
                "expires_us": t.expires_us,
            }
            for t in accounts.tokens.values()
        ],
    }


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
