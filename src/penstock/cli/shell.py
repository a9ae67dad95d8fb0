"""The interactive shell of `penstock sql`: lines until a semicolon, history, completion, live SUBSCRIBE."""

from __future__ import annotations

import os
import re
from pathlib import Path

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from prompt_toolkit.lexers import PygmentsLexer

from penstock.cli.completion import Names
from penstock.cli.helpers import HELPERS, UnknownHelper, run_helper
from penstock.cli.output import Format
from penstock.cli.statement_runner import run_statement
from penstock.cli.statement_split import is_blank, split_statements
from penstock.client import Connection
from penstock.errors import PenstockError

_SECRET = re.compile(r"\bPASSWORD\b", re.IGNORECASE)
_DEFINES = re.compile(r"\s*(CREATE|DROP|ALTER)\b", re.IGNORECASE)


class DiscreetHistory(FileHistory):
    """Remembers everything but lines with a password."""

    def store_string(self, string: str) -> None:
        if not _SECRET.search(string):
            super().store_string(string)


class Shell:
    """Reads statements and runs them until `\\q` or Ctrl-D. An error is shown and the shell goes on."""

    def __init__(
        self,
        connection: Connection,
        format: Format,
        session: PromptSession[str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.connection = connection
        self.format = format
        self._timeout_s = timeout_s
        self._names = Names(connection)
        self._session = session or _prompt_session(self._names)

    def run(self) -> None:
        health = self.connection.health()
        state = "connected to" if health["ready"] else f"not ready ({health['reason']}):"
        typer.echo(f"{state} {self.connection.url}; \\? for help, \\q to leave", err=True)
        self._names.refresh()
        pending = ""
        while True:
            try:
                line = self._session.prompt("penstock> " if is_blank(pending) else "      -> ")
            except EOFError:
                return
            except KeyboardInterrupt:
                # Throws away what was typed so far, as other shells do.
                pending = ""
                continue
            if is_blank(pending) and line.strip().startswith("\\"):
                if line.strip() in ("\\q", "\\quit"):
                    return
                self._help_out(line.strip())
                continue
            if is_blank(pending) and line.strip().lower().rstrip(";") in ("quit", "exit"):
                return
            pieces, pending = split_statements(pending + line + "\n")
            for piece in pieces:
                self._run(piece.text)

    def _run(self, statement: str) -> None:
        try:
            run_statement(self.connection, statement, self.format, self._timeout_s)
        except PenstockError as problem:
            typer.echo(problem.render(), err=True)
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)  # the client closed the connection, by which the server knows
        else:
            if _DEFINES.match(statement):
                self._names.refresh()

    def _help_out(self, line: str) -> None:
        try:
            self.format = run_helper(line, self.connection, self.format)
        except UnknownHelper:
            typer.echo(f"there is no {line.split()[0]}; these are:\n{HELPERS}", err=True)
        except PenstockError as problem:
            typer.echo(problem.render(), err=True)
        except KeyboardInterrupt:
            typer.echo("", err=True)


def history_file() -> Path:
    """In the user's state folder; made when first needed, readable by its owner only."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "penstock"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    return base / "history"


def _prompt_session(names: Names) -> PromptSession[str]:
    from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]  # comes with rich, without types

    return PromptSession(
        history=DiscreetHistory(str(history_file())),
        completer=names,
        complete_while_typing=False,
        lexer=PygmentsLexer(PostgresLexer),
        enable_open_in_editor=True,
    )
