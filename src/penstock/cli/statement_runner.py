"""Running statements one after another against a server, for the shell, `-c`, files and pipes alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock.cli.command import Format, LivePrinter, print_answer
from penstock.client import Connection
from penstock.errors import PenstockError, error

# What a semicolon inside of does not end a statement. An opening without its end runs to the end of the text.
_PIECES = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*.*?(?:\*/|\Z))
    | (?P<text>'(?:[^']|'')*(?:'|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
    | (?P<dollar>\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement without its semicolon; `line` (from 1) is where its first word stands in the script."""

    text: str
    line: int


def split_statements(script: str) -> tuple[list[ScriptStatement], str]:
    """Complete statements, and what follows the last semicolon (which may be only blanks and comments)."""
    pieces: list[ScriptStatement] = []
    start = 0
    for match in _PIECES.finditer(script):
        if match["end"]:
            piece = _piece(script, start, match.start())
            if piece is not None:
                pieces.append(piece)
            start = match.end()
    return pieces, script[start:]


def all_statements(script: str) -> list[ScriptStatement]:
    """Every statement of a whole script; the last one needs no semicolon."""
    pieces, rest = split_statements(script)
    last = _piece(script, len(script) - len(rest), len(script))
    return pieces if last is None else [*pieces, last]


_BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_REGISTERS = re.compile(_BEFORE + r"(?:CREATE\s+QUERY|SET\s+on_error)\b", re.IGNORECASE | re.DOTALL)
_SETS = re.compile(_BEFORE + r"SET\s+on_error\b", re.IGNORECASE | re.DOTALL)
_TOGETHER_MAX_CHARS = 2_000_000


def registers_queries(statement: str) -> bool:
    """Whether it is CREATE QUERY, or says what becomes of several of them."""
    return _REGISTERS.match(statement) is not None


def gather(pieces: list[ScriptStatement]) -> Iterator[list[ScriptStatement]]:
    """The statements in order, each alone; those that register queries one after another together."""
    run: list[ScriptStatement] = []
    size = 0
    for piece in pieces:
        registers = registers_queries(piece.text)
        if run and (not registers or size > _TOGETHER_MAX_CHARS):
            yield run
            run, size = [], 0
        if registers:
            run.append(piece)
            size += len(piece.text)
        else:
            yield [piece]
    if run:
        yield run


def is_blank(text: str) -> bool:
    """Nothing but white space and comments."""
    return not re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip()


def _piece(script: str, start: int, end: int) -> ScriptStatement | None:
    text = script[start:end]
    if is_blank(text):
        return None
    lead = len(text) - len(text.lstrip())
    return ScriptStatement(text.strip(), script.count("\n", 0, start + lead) + 1)


_SUBSCRIBE = re.compile(
    r"""\s*SUBSCRIBE\s+(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<name>\w+))
        (?:\s+(?P<final>FINAL)|\s+(?P<changes>WITH\s+CHANGES)|\s+FROM\s+CYCLE\s+(?P<cycle>\d+))*\s*\Z""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """A SUBSCRIBE statement: the one that the shell runs itself, as a live stream."""

    name: str
    changes: bool
    from_cycle: int | None
    final_at: int | None = None  # where FINAL stands, if it does


def parse_subscribe(statement: str) -> SubscribeTo | None:
    """What to subscribe to, or None where the statement is another one."""
    comments = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
    found = _SUBSCRIBE.match(comments.sub(lambda comment: " " * len(comment[0]), statement))
    if found is None:
        return None
    name = found["name"].lower() if found["name"] else found["quoted"].replace('""', '"')
    from_cycle = int(found["cycle"]) if found["cycle"] else None
    final_at = found.start("final") if found["final"] else None
    return SubscribeTo(name, found["changes"] is not None, from_cycle, final_at)


def run_statement(connection: Connection, statement: str, format: Format, timeout_s: float | None = None) -> None:
    """One statement, or several in one call; SUBSCRIBE prints until Ctrl-C or until the query is dropped."""
    subscription = parse_subscribe(statement)
    try:
        if subscription is not None:
            follow(connection, subscription, format)
        else:
            print_answer(connection.sql(statement, timeout_s=timeout_s), format)
    except PenstockError as problem:
        # The server says where, this side knows the text.
        problem.sql = statement
        at = subscription.final_at if subscription is not None else None
        if problem.condition == "not_supported" and at is not None:
            problem.at(statement, statement.count("\n", 0, at) + 1, at - statement.rfind("\n", 0, at), len("FINAL"))
        raise


def read_script(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise error("invalid_parameter", detail=f"cannot read {path}: {why}") from None


def run_script(
    connection: Connection, script: str, format: Format, origin: str | None = None, timeout_s: float | None = None
) -> None:
    """Every statement in order; the first that fails ends the run, saying where in the file it stands.

    Statements that register queries one after another go to the server together: thousands take one sync.
    """
    on_error = ""
    for run in gather(all_statements(script)):
        together = len(run) > 1 or (on_error and registers_queries(run[0].text))
        try:
            text = _in_one_call(on_error, run) if together else run[0].text
            run_statement(connection, text, format, timeout_s)
        except PenstockError:
            if origin is not None:
                typer.echo(f"{origin}:" if together else f"{origin}, statement at line {run[0].line}:", err=True)
            raise
        # Each call begins anew: what the script said must be said again.
        on_error = next((f"{p.text};" for p in reversed(run) if _SETS.match(p.text)), on_error)


def _in_one_call(on_error: str, run: list[ScriptStatement]) -> str:
    """The text of several statements. Blank lines stand for what comes before, so that lines in errors are those of the file."""
    text, line = on_error, 1
    for piece in run:
        behind_comment = "\n" if "--" in piece.text.rpartition("\n")[2] else ""
        added = "\n" * (piece.line - line) + piece.text + behind_comment + ";"
        text, line = text + added, line + added.count("\n")
    return text


def follow(connection: Connection, to: SubscribeTo, format: Format) -> None:
    """Print a query's rows live. Ctrl-C is the ordinary way to end it, not a failure."""
    printer = LivePrinter(format)
    typer.echo(f"following {to.name}; Ctrl-C ends it", err=True)
    try:
        for change in connection.subscribe(
            to.name, changes=to.changes, from_cycle=to.from_cycle, final=to.final_at is not None
        ):
            printer.print(change)
    except KeyboardInterrupt:
        typer.echo("", err=True)
