"""The socket of the server: bound before anything else, so that a second server fails before it starts Spark."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from pathlib import Path

from penstock.errors import error
from penstock.security.users import Users
from penstock.settings import Settings

TOKEN_MIN_CHARS = 32


def listen(settings: Settings) -> socket.socket:
    """A listening socket where the settings ask for it, or why there is none."""
    check_token(settings)
    check_proxies(settings)
    check_tls(settings)
    check_exposure(settings)
    return bind(settings.host, settings.port)


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def check_token(settings: Settings) -> None:
    """The token of the settings is an admin's: one that can be guessed is refused before anything starts."""
    if settings.token and len(settings.token.strip()) < TOKEN_MIN_CHARS:
        detail = f"it has fewer than {TOKEN_MIN_CHARS} characters"
        hint = 'make one: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        raise error("invalid_option", option="token", detail=detail, hint=hint)


def check_proxies(settings: Settings) -> None:
    """Proxies are named by address or network: a name may be another machine's tomorrow."""
    for proxy in proxies_of(settings):
        try:
            ipaddress.ip_network(proxy)
        except ValueError as problem:
            hint = "for example 127.0.0.1, 10.0.0.0/8"
            raise error("invalid_option", option="trusted_proxies", detail=str(problem), hint=hint) from None


def proxies_of(settings: Settings) -> list[str]:
    """The addresses and networks that forwarding headers are accepted from."""
    return [proxy.strip() for proxy in settings.trusted_proxies.split(",") if proxy.strip()]


def check_exposure(settings: Settings) -> None:
    """Refuse, before anything starts, to listen on an address that others reach while callers need not sign in."""
    if not is_loopback(settings.host) and not Users(Path(settings.data), settings.token).required:
        detail = f"listening on {settings.host} lets other machines in, and there is neither a token nor a user"
        hint = "penstock user add NAME --role admin, or set PENSTOCK_TOKEN, or listen on 127.0.0.1"
        raise error("token_required", detail=detail, hint=hint)


def check_tls(settings: Settings) -> None:
    """A certificate and its key, both readable and of each other, or neither."""
    if not settings.tls_certificate and not settings.tls_key:
        return
    if not settings.tls_certificate or not settings.tls_key:
        missing = "tls_key" if settings.tls_certificate else "tls_certificate"
        raise error("invalid_option", option=missing, detail="TLS needs a certificate and its key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ssl.SSLError) as problem:
        detail = f"the certificate and its key cannot be used: {problem.strerror or problem}"
        raise error("invalid_option", option="tls_certificate", detail=detail) from None


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
        detail, hint = problem.strerror or str(problem), "another server may run there; choose another --port"
        raise error("address_in_use", address=f"{host}:{port}", detail=detail, hint=hint) from None
    return listener
