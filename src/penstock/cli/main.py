"""The command `penstock`: all its subcommands, and nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.backup import backup, check, restore
from penstock.cli.demo import demo
from penstock.cli.files import export, load
from penstock.cli.serve import serve_command, warm_up
from penstock.cli.sql import sql
from penstock.cli.status import status
from penstock.cli.user import user

app = typer.Typer(
    name="penstock",
    help="A stream database for sensors: standing questions in SQL, answers that stay current.",
    no_args_is_help=True,
    # Errors of users are told by PenstockError.render; what is left is ours, and plain text is easier to report.
    pretty_exceptions_enable=False,
)

app.command("serve")(serve_command())
app.command("sql")(sql)
app.command("status")(status)
app.command("load")(load)
app.command("export")(export)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("check")(check)
app.command("warm-up")(warm_up)
app.add_typer(user, name="user")
app.command("demo")(demo)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A stream database for sensors: standing questions in SQL, answers that stay current."""


def main() -> None:
    app()
