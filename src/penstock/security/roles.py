"""Three roles, each of which may do what the ones before it may."""

from __future__ import annotations

from typing import Literal, get_args

from penstock.errors import error, suggest

Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


def covers(have: Role | None, need: Role | None) -> bool:
    """Whether a caller with one role may do what asks for another. What asks for none is open to all callers."""
    if need is None:
        return True
    return have is not None and ROLES.index(have) >= ROLES.index(need)


def lower_of(one: Role, other: Role) -> Role:
    return min(one, other, key=ROLES.index)


def role_named(word: str) -> Role:
    """The role that a word means, or invalid_option with the roles there are."""
    for role in ROLES:
        if role == word.lower():
            return role
    hint = suggest(word, ROLES) or "roles are " + ", ".join(ROLES)
    raise error("invalid_option", option="role", detail=f'there is no role "{word}"', hint=hint)
