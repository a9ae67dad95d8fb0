"""Where one statement ends and the next begins, so that a shell knows when to send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
        if match.lastgroup == "end" or match.group("end"):
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


def sets_on_error(statement: str) -> bool:
    return _SETS.match(statement) is not None


def gather(pieces: list[ScriptStatement]) -> Iterator[ScriptStatement | list[ScriptStatement]]:
    """The statements in order, with those that register queries one after another together, if there are several."""
    run: list[ScriptStatement] = []
    size = 0
    for piece in [*pieces, None]:
        registers = piece is not None and registers_queries(piece.text)
        if run and (not registers or size > _TOGETHER_MAX_CHARS):
            yield run if len(run) > 1 else run[0]
            run, size = [], 0
        if piece is not None and registers:
            run.append(piece)
            size += len(piece.text)
        elif piece is not None:
            yield piece


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
        (?:\s+(?P<changes>WITH\s+CHANGES)|\s+FROM\s+CYCLE\s+(?P<cycle>\d+))*\s*\Z""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """A SUBSCRIBE statement: the one that the shell runs itself, as a live stream."""

    name: str
    changes: bool
    from_cycle: int | None


def parse_subscribe(statement: str) -> SubscribeTo | None:
    """What to subscribe to, or None where the statement is another one."""
    found = _SUBSCRIBE.match(re.sub(r"--[^\n]*|/\*.*?\*/", " ", statement, flags=re.DOTALL))
    if found is None:
        return None
    quoted = found["quoted"]
    name = quoted.replace('""', '"') if quoted is not None else found["name"].lower()
    return SubscribeTo(name, found["changes"] is not None, int(found["cycle"]) if found["cycle"] else None)
