"""Access without users: programs on the server's own machine may do anything, and nothing else may call.

Three things look like such a program and are not: a proxy that forwards for others, a web page with a name that was rebound to
loopback (`Host`), and a web page of another origin in a browser on this machine (`Origin`, `Sec-Fetch-Site`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

from penstock.errors import error
from penstock.server.http.listener import is_loopback
from penstock.settings import Settings

# What proxies add for the server behind them. Each says that the peer is not the client.
_FORWARDING = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-originating-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-envoy-external-address",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
    }
)
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})


def forwarding_header(headers: Headers) -> str | None:
    """The first header that a proxy has added; None where the peer is the client."""
    for name in headers.keys():  # noqa: SIM118 its own iterator has no type
        if name in _FORWARDING or name.startswith("x-forwarded"):
            return name
    return None


def is_local_client(headers: Headers, peer: str | None) -> bool:
    """Whether a request comes from a program on this machine, and not from a proxy on it."""
    return peer is not None and is_loopback(peer) and forwarding_header(headers) is None


def check_local(settings: Settings, origins: frozenset[str], headers: Headers, method: str, peer: str | None) -> None:
    """Refuse what is not a program on this machine, or a page of this server or of the origins that are named."""
    if not is_loopback(settings.host):
        # The last user of a server that other machines can reach was dropped. It does not open by that.
        hint = "on the server's machine: penstock user add NAME --role admin"
        raise error("unauthorized", detail="this server has no users any more", hint=hint)
    if not is_local_client(headers, peer):
        name = forwarding_header(headers)
        what = f'requests with the header "{name}" come through a proxy' if name else f"{peer} is another machine"
        hint = "on the server's machine: penstock user add NAME --role admin"
        raise error("unauthorized", detail=f"{what}, and this server has no users", hint=hint)
    host = host_name(headers.get("host", ""))
    if not is_loopback(host):
        raise error("unauthorized", detail=f'this server does not answer for the host "{host}"')
    origin = headers.get("origin")
    if origin is not None:
        if not is_same_origin(origin, headers) and origin not in origins:
            raise error("unauthorized", detail=f'pages of "{origin}" may not call this server')
    elif headers.get("sec-fetch-site") in _FOREIGN_SITES and not _is_link(headers, method):
        raise error("unauthorized", detail="pages of other origins may not load from this server")


def is_same_origin(origin: str, headers: Headers) -> bool:
    """Whether a page's origin is the host that it calls."""
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name in a Host header without its port; empty where it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_link(headers: Headers, method: str) -> bool:
    """A person follows a link to the server: the page that has the link sees nothing of the answer."""
    return (
        method == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )
