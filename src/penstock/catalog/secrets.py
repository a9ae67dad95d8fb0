"""Which options are secrets, and how they look wherever somebody could read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"
_SECRET_WORDS = ("password", "passphrase", "token", "secret")
_USER_PART = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]*)(?=@)")
_IN_ADDRESS = re.compile(r"([?&;])([^=&;\s]*(?:password|passphrase|token|secret|key|sig)[^=&;\s]*)=([^&;#\s]*)", re.I)


def is_secret(option: str) -> bool:
    """Whether an option's value is one; `password_file` only says where it stands."""
    name = option.lower()
    return any(word in name for word in _SECRET_WORDS) and not name.endswith(("_file", "_env"))


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as anybody may see them: without secrets, also those that stand inside an address."""
    return {name: HIDDEN if is_secret(name) else shown_address(value) for name, value in options.items()}


def shown_address(text: str) -> str:
    """An address without the password in it and without secret parameters; any other text as it is."""
    if "://" not in text:
        return text
    return _IN_ADDRESS.sub(rf"\1\2={HIDDEN}", _USER_PART.sub(rf"\1:{HIDDEN}", text))


def secrets_of(options: Mapping[str, str]) -> frozenset[str]:
    """The texts that no message may hold."""
    found = {value for name, value in options.items() if is_secret(name)}
    for value in options.values():
        if "://" in value:
            found |= {match.group(2) for match in _USER_PART.finditer(value)}
            found |= {match.group(3) for match in _IN_ADDRESS.finditer(value)}
    return frozenset(text for text in found if text)


def without(text: str, secrets: Iterable[str]) -> str:
    """A message with every secret taken out of it."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
