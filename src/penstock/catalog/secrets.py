"""Which options are secrets, and how they look wherever they are shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

HIDDEN = "***"
# `key` is the columns of a PostgreSQL sink, and the file of an MQTT client's key: neither is a secret.
PLAIN_KEY = frozenset({"key"})
_NAME = (
    r"passw|passphrase|pwd|secret|token|credential|authoriz|authent|api[_.-]?key"
    r"|(?:^|[_.-])auth(?:$|[_.-])|(?:^|[_.-])key$|(?:access|account|private|shared|signing|encryption|storage)key$"
)
_SECRET_NAME = re.compile(_NAME, re.I)
# As programs read it: all up to the last @ before the path.
_USER_PART = re.compile(r"(?<=://)([^/?#\s:]*):([^/?#\s]*)(?=@)")
_IN_ADDRESS = re.compile(
    r"([?&;])([^=&;\s]*(?:passw|passphrase|pwd|token|secret|key|sig|auth|credential)[^=&;\s]*)=([^&;#\s]*)", re.I
)
_IN_HEADER = re.compile(r"\b(Bearer|Basic|Token)(\s+)([A-Za-z0-9._~+/=-]+)", re.I)

# A name with the literal that follows it, or a literal alone; the last one of a text may be cut off.
_LITERAL = re.compile(
    r"""(?:(?P<name>"?[A-Za-z_][\w.-]*"?)(?P<sign>\s*=?\s*))?(?:'(?:[^']|'')*(?:'|\Z)|\$\$.*?(?:\$\$|\Z))""", re.S
)


def is_secret(option: str) -> bool:
    """Whether an option's value is one; `password_file` only says where it stands."""
    return _SECRET_NAME.search(option) is not None and not option.lower().endswith(("_file", "_env"))


def shown_options(options: Mapping[str, str], plain: Collection[str] = ()) -> dict[str, str]:
    """Options as any role may see them: without secrets, also those inside an address. `plain` are not, whatever their name."""
    return {
        name: HIDDEN if is_secret(name) and name not in plain else shown_address(value)
        for name, value in options.items()
    }


def shown_address(text: str) -> str:
    """An address or a header without the password in it and without secret parameters; any other text as it is."""
    text = _IN_HEADER.sub(rf"\1\2{HIDDEN}", text)
    if "://" not in text:
        return text
    return _IN_ADDRESS.sub(rf"\1\2={HIDDEN}", _USER_PART.sub(rf"\1:{HIDDEN}", text))


def shown_statement(text: str) -> str:
    """SQL without the literals behind a name that sounds like a secret, and without secrets inside addresses.

    `key` is the name of many columns, and is left alone.
    """

    def shown(found: re.Match[str]) -> str:
        name = (found["name"] or "").strip('"')
        if name in PLAIN_KEY or not is_secret(name):
            return found[0]
        return f"{found['name']}{found['sign']}'{HIDDEN}'"

    return shown_address(_LITERAL.sub(shown, text))


def secrets_of(options: Mapping[str, str], plain: Collection[str] = ()) -> frozenset[str]:
    """The texts that no message may hold."""
    found = {value for name, value in options.items() if is_secret(name) and name not in plain}
    for value in options.values():
        found |= {match.group(3) for match in _IN_HEADER.finditer(value)}
        if "://" in value:
            found |= {match.group(2) for match in _USER_PART.finditer(value)}
            found |= {match.group(3) for match in _IN_ADDRESS.finditer(value)}
    found |= {unquote(text) for text in found}
    return frozenset(text for text in found if text)


def without(text: str, secrets: Iterable[str]) -> str:
    """A message with every secret taken out of it."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
