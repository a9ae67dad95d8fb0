"""Where a broker is, and the password for it; the one is shown, the other never."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PORTS = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "ssl": 8883}


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """mqtt://user@host:port; mqtts:// for TLS."""

    host: str
    port: int
    secure: bool
    user: str | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.secure else 'mqtt'}://{host}:{self.port}"


def parse_url(text: str) -> BrokerUrl:
    """ValueError with a sentence where it is none; a password in it is refused, because addresses are shown."""
    try:
        parts = urlsplit(text if "://" in text else f"mqtt://{text}")
        port = parts.port
    except ValueError:
        raise ValueError("it is not an address like mqtt://broker:1883") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("it is not an address like mqtt://broker:1883 or mqtts://broker")
    if parts.password is not None:
        raise ValueError("it has a password in it; use the option password_file, password_env or password")
    secure = parts.scheme in ("mqtts", "ssl")
    user = unquote(parts.username) if parts.username else None
    return BrokerUrl(parts.hostname, port or PORTS[parts.scheme], secure, user)


def password_of(options: Mapping[str, Any]) -> str | None:
    """From a file or a variable, read at every connection so that it can be changed; else as it was written."""
    if options["password_file"]:
        return Path(options["password_file"]).read_text().rstrip("\r\n")
    if options["password_env"]:
        found = os.environ.get(options["password_env"])
        if found is None:
            raise ValueError(f"there is no environment variable {options['password_env']}")
        return found
    return options["password"] or None
