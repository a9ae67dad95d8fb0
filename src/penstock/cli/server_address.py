"""Where the server is, and what happens when it says no."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from penstock.client import Connection
from penstock.errors import PenstockError
from penstock.settings import load_settings

progress = Console(stderr=True)

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PENSTOCK_URL",
        help="Address of the server.",
        show_default="where penstock serve would listen here: http://127.0.0.1:8470",
    ),
]
Token = Annotated[str, typer.Option("--token", envvar="PENSTOCK_TOKEN", help="The server's token.", show_default=False)]
# What a server listens on to be reached from everywhere is not an address to call.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def local_server() -> tuple[str, str, str]:
    """Address, token and certificate of the server that `penstock serve` would start here, by PENSTOCK_* and penstock.toml."""
    settings = load_settings()
    scheme = "https" if settings.tls_certificate else "http"
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"{scheme}://{host}:{settings.port}", settings.token, settings.tls_certificate


@contextmanager
def connected(url: str, token: str) -> Iterator[Connection]:
    """A connection; its errors end the command with a clear message and status 1."""
    with reported():
        local_url, local_token, local_certificate = local_server()
        ca = os.environ.get("PENSTOCK_CA") or (local_certificate if not url else "") or None
        user = os.environ.get("PENSTOCK_USER")
        with Connection(url or local_url, token or local_token or None, user=user, ca=ca) as connection:
            yield connection


@contextmanager
def reported() -> Iterator[None]:
    """Errors as a block of plain text on stderr, then exit 1; Ctrl-C ends with 130, quietly."""
    try:
        yield
    except PenstockError as problem:
        typer.echo(problem.render(), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # The reader of our output has what it wanted (| head). Its end is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None
