"""`penstock sql`: a shell on a terminal; with -c, files or a pipe, a runner of statements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.command import AskedFormat, Token, Url, choose_format, connected
from penstock.cli.statement_runner import read_script, run_script


def sql(
    files: Annotated[list[Path] | None, typer.Argument(help="Files with statements; - is stdin.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", help="The same as FILES; repeatable.")] = None,
    command: Annotated[list[str] | None, typer.Option("-c", "--command", help="Statements to run; repeatable.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Most seconds that each statement may take.", min=0.001)
    ] = None,
    format: AskedFormat = None,
    url: Url = "",
    token: Token = "",
) -> None:
    """Ask questions: a shell with history and completion, or statements from -c, files or a pipe."""
    chosen = choose_format(format)
    with connected(url, token) as connection:
        scripts: list[tuple[str | None, str]] = [(None, text) for text in command or []]
        for path in [*(file or []), *(files or [])]:
            scripts.append((str(path), sys.stdin.read() if str(path) == "-" else read_script(path)))
        if not scripts and not sys.stdin.isatty():
            scripts = [("stdin", sys.stdin.read())]
        if scripts:
            for origin, script in scripts:
                run_script(connection, script, chosen, origin, timeout)
            return
        from penstock.cli.shell import Shell

        Shell(connection, chosen, timeout_s=timeout).run()
