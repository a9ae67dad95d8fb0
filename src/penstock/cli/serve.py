"""`penstock serve`: every setting is a flag; flags win over PENSTOCK_* variables, which win over penstock.toml."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from penstock.cli.command import reported
from penstock.logs import check_logging
from penstock.server.http.listener import listen
from penstock.settings import RENAMED, SETTINGS, load_settings

STUCK_S = 3.0


def serve(config: Path | None = None, **flags: Any) -> None:
    """Start the server and keep it running until Ctrl-C or SIGTERM."""
    before = frozenset(threading.enumerate())
    keep_files_private()
    with reported():
        settings = load_settings(flags, file=config)
        check_logging(settings.log_level, settings.log_format)
        # Not before: `penstock --help` must not wait for PySpark, or for what is loaded below.
        from penstock.pipeline.jvm import launch_java_early, security_settings

        security_settings(settings)  # refuses a cluster without a secret, before Java is started
        listener = listen(settings)
    launch_java_early(settings)  # it comes up while FastAPI and the rest load
    from penstock.console import open_console
    from penstock.pipeline.kernel_cache import compile_kernels
    from penstock.server.app import run

    _leave(run(settings, listener=listener, prepare=compile_kernels, pages=open_console), before)


def keep_files_private() -> None:
    """What this process and those that it starts write from now on is readable by its own account only."""
    os.umask(0o077)


def _leave(code: int, before: frozenset[threading.Thread]) -> NoReturn:
    """End the process even if a thread of ours is stuck in a call that gets no answer any more."""
    deadline = time.monotonic() + STUCK_S
    for thread in threading.enumerate():
        if thread not in before and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
    raise typer.Exit(code)


def serve_command() -> Callable[..., None]:
    """`serve` with one option per setting, so that a new setting is a flag without another line."""

    def command(**arguments: Any) -> None:
        serve(arguments.pop("config"), **arguments)

    option = typer.Option("--config", help="A penstock.toml to read.", show_default="./penstock.toml")
    annotations: dict[str, Any] = {"config": Annotated[Path | None, option]}
    for setting in SETTINGS:
        flag = "--" + setting.name.replace("_", "-")
        shown = str(setting.default) or False
        described = typer.Option(flag, help=setting.sentence, show_default=shown)
        annotations[setting.name] = Annotated[type(setting.default) | None, described]
    for old, new in RENAMED.items():
        hidden = typer.Option("--" + old.replace("_", "-"), help=f"Now called {new}.", hidden=True)
        annotations[old] = Annotated[annotations[new].__args__[0], hidden]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions allow it
    command.__annotations__ = annotations
    command.__doc__ = serve.__doc__
    return command


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
