"""`penstock warm-up`: prepare this machine, once, so that servers start in seconds."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from penstock.cli.server_address import reported


def warm_up(
    again: Annotated[bool, typer.Option("--again", help="Train even if this environment is warm already.")] = False,
) -> None:
    """Compile kernels and train this environment for quick starts; needed once, takes up to a minute."""
    from penstock.database.warm_up import warm_up as train

    began = time.monotonic()

    def progress(step: str) -> None:
        print(f"penstock: {step}", file=sys.stderr, flush=True)

    with reported():
        train(progress, again)
    progress(f"warm after {time.monotonic() - began:.0f} s")
