"""Where something stands in the text, so that every error can show a caret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from penstock.errors import PenstockError

Node = TypeVar("Node", bound=exp.Expr)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text."""

    start: int
    end: int


def span_of_token(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def span_of(node: exp.Expr) -> Span | None:
    """The characters that an expression and everything below it cover; None where nothing is known."""
    start: int | None = None
    end: int | None = None
    for part in node.walk():
        meta = part.meta if part._meta else None
        if not meta or "start" not in meta:
            continue
        start = meta["start"] if start is None else min(start, meta["start"])
        end = meta["end"] if end is None else max(end, meta["end"])
    return None if start is None or end is None else Span(start, end + 1)


def mark(node: Node, first: Token, last: Token) -> Node:
    """The node, which remembers that it covers the tokens from `first` to `last`."""
    node.update_positions(line=first.line, col=first.col, start=first.start, end=last.end)
    return node


def placed(node: Node, at: exp.Expr) -> Node:
    """The node, which remembers that it stands where another one does."""
    where = span_of(at)
    if where is not None:
        node.meta.update(start=where.start, end=where.end - 1)
    return node


def point(failure: PenstockError, text: str, span: Span | None) -> PenstockError:
    """The error with the line, column and length of a span; an error that points somewhere already keeps it."""
    if span is None or failure.line is not None:
        return failure
    before = text[: span.start]
    line = before.count("\n") + 1
    column = span.start - (before.rfind("\n") + 1) + 1
    shown = text[span.start : span.end].split("\n", 1)[0]
    return failure.at(text, line, column, len(shown))


def offset_of(text: str, line: int, column: int) -> int:
    """How many characters stand before a 1-based line and column."""
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
