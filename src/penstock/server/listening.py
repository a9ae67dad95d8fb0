"""The socket of the server: bound before anything else, so that a second server fails before it starts Spark."""

from __future__ import annotations

import ipaddress
import socket

from penstock.errors import error
from penstock.settings import Settings


def listen(settings: Settings) -> socket.socket:
    """A listening socket where the settings ask for it, or why there is none."""
    check_exposure(settings)
    return bind(settings.host, settings.port)


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(settings: Settings) -> None:
    """Listening where others can reach us without a token is refused before anything starts."""
    if not settings.token and not is_loopback(settings.host):
        raise error(
            "token_required",
            detail=f"listening on {settings.host} lets other machines in, and no token is set",
            hint="set --token or PENSTOCK_TOKEN, or listen on 127.0.0.1",
        )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or address_in_use."""
    if not 0 <= port <= 65535:
        raise error("invalid_option", option="port", detail=f"{port} is not between 0 and 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off only where it is: 44 ms an answer otherwise.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)
    except OSError as problem:
        listener.close()
        raise error(
            "address_in_use",
            address=f"{host}:{port}",
            detail=problem.strerror or str(problem),
            hint="another server may run there; choose another --port",
        ) from None
    return listener
