"""`penstock serve`: every setting is a flag; flags win over PENSTOCK_* variables, which win over penstock.toml."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.connecting import reported
from penstock.settings import SETTINGS, load_settings


def serve(config: Path | None = None, **flags: Any) -> None:
    """Start the server and keep it running until Ctrl-C or SIGTERM."""
    with reported():
        settings = load_settings(flags, file=config)
    # Importing the server loads FastAPI and the rest; `penstock --help` must not wait for that.
    from penstock.server.run import run

    raise typer.Exit(run(settings))


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
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions allow it
    command.__annotations__ = annotations
    command.__doc__ = serve.__doc__
    return command
