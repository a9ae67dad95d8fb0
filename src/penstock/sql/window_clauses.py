"""BEGIN (..) END (..): from what was typed to `expr.windows`, and the stored text of a query with another window (ALTER QUERY)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError, error
from penstock.expr.windows import EVERYTHING, FOREVER, FROM_REGISTRATION, Bound, RowsWindow, TimeWindow, Window
from penstock.sql.dialect import Penstock
from penstock.sql.nodes import BeginEnd, BeginEnds, WindowEdge
from penstock.sql.parse import parse_select
from penstock.sql.positions import Span, offset_of, point, span_of
from penstock.sql.statements import AlterQuery

NOW = Bound("now")


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows that hold inside one SELECT: for all streams, and for single ones by alias."""

    everywhere: Window
    explicit: bool = False
    by_alias: dict[str, Window] = field(default_factory=dict)

    def of(self, alias: str) -> Window:
        return self.by_alias.get(alias, self.everywhere)


def default_windows(standing: bool) -> Windows:
    return Windows(FROM_REGISTRATION if standing else EVERYTHING)


def windows_of(select: exp.Expr, outer: Windows, standing: bool, text: str) -> Windows:
    """The windows of a SELECT: its own clauses, or those of the SELECT around it."""
    clauses = select.args.get("begin_end")
    if not isinstance(clauses, BeginEnds):
        return Windows(outer.everywhere)
    everywhere, explicit = outer.everywhere, False
    by_alias: dict[str, Window] = {}
    for clause in clauses.expressions:
        window = window_of(clause, standing, text)
        alias = clause.args.get("alias")
        if alias is None:
            if explicit:
                hint = "write FOR and a stream's name after one of them"
                _refuse(text, clause, "there are two windows for the same streams", hint)
            everywhere, explicit = window, True
        else:
            by_alias[alias.name] = window
    return Windows(everywhere, explicit, by_alias)


def window_of(clause: BeginEnd, standing: bool, text: str) -> Window:
    """One clause, validated. Errors point at the end that is wrong."""
    end_edge = clause.args.get("end")
    if clause.args.get("rows") is not None:
        count = int(clause.args["rows"])
        if count < 1:
            _refuse(text, clause, "LAST needs at least one row")
        if end_edge is not None and _bound(end_edge, standing, text) != NOW:
            _refuse(text, end_edge, "the newest rows always end at NOW", "leave END out")
        return RowsWindow(count, bool(clause.args.get("per_sensor")))
    begin_edge = clause.args["begin"]
    begin = _bound(begin_edge, standing, text)
    end = NOW if end_edge is None else _bound(end_edge, standing, text)
    where = end_edge if end_edge is not None else begin_edge
    if begin.anchor == "now" and begin.offset_us > 0:
        _refuse(text, begin_edge, f"BEGIN ({begin}) lies in the future for ever", "write NOW - d")
    if end.anchor == "now" and end.offset_us > 0:
        _refuse(text, where, f"END ({end}) lies past NOW; nothing is known there", "write END (NOW) or a constant")
    if begin.anchor == "now" and end.anchor != "now":
        detail = f"BEGIN ({begin}) moves and would pass END ({end})"
        hint = "a sliding window ends at NOW or NOW - e"
        _refuse(text, where, detail, hint)
    if begin.anchor == "start" and begin.offset_us > 0:
        _refuse(text, begin_edge, f"BEGIN ({begin}) lies after the registration", "write START or START - d")
    if end.anchor == "start" and not (begin.anchor == "start" or begin.anchor == "constant"):
        _refuse(text, where, "a window that slides cannot end at START")
    if begin.anchor == end.anchor and begin.offset_us > end.offset_us:
        _refuse(text, where, f"END ({end}) lies before BEGIN ({begin})")
    return TimeWindow(begin, end)


def _bound(edge: WindowEdge, standing: bool, text: str) -> Bound:
    bound = Bound(edge.args["anchor"], int(edge.args["offset"]))
    if bound.anchor == "start" and not standing:
        hint = "START is when a standing query was registered; use CREATE QUERY, or NOW - d"
        _refuse(text, edge, "START means nothing in a one-shot SELECT", hint)
    return bound


def _refuse(text: str, node: exp.Expr, detail: str, hint: str | None = None) -> NoReturn:
    raise point(error("invalid_window", detail=detail, hint=hint), text, span_of(node))


def anchored(window: Window, start_us: int | None) -> Window:
    """The window of an inlined query. Its START is its own registration, not the reader's."""
    if isinstance(window, RowsWindow):
        return window

    def fixed(bound: Bound) -> Bound:
        if bound.anchor != "start":
            return bound
        return Bound("constant", -FOREVER if start_us is None else start_us + bound.offset_us)

    return TimeWindow(fixed(window.begin), fixed(window.end))


_AFTER_WINDOW = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH}


@dataclass(frozen=True, slots=True)
class WindowChange:
    """A query's text with another window, and which statement asked for it."""

    text: str
    window_at: int  # where the new clause begins
    parts: tuple[tuple[str, Span | None], ...]  # what it is made of, and where that stands in the text
    statement: AlterQuery

    def point(self, failure: PenstockError) -> PenstockError:
        """An error of the new text, with its caret where the statement says what was refused."""
        typed = [at for _, at in self.parts if at is not None]
        whole = Span(min(at.start for at in typed), max(at.end for at in typed))
        at = self._typed_at(failure)
        failure.line = None
        return self.statement.source.point(failure, at or whole)

    def _typed_at(self, failure: PenstockError) -> Span | None:
        if failure.line is None or failure.column is None or failure.sql != self.text:
            return None
        place = offset_of(self.text, failure.line, failure.column)
        start = self.window_at
        for written, at in self.parts:
            if start <= place < start + len(written):
                return at
            start += len(written)
        return None


def retargeted(text: str, statement: AlterQuery, unsaid: tuple[str, str] = ("START", "NOW")) -> WindowChange:
    """The text with the statement's window instead of its own; what the statement leaves out stays as it was.

    `unsaid` is the window of a query without one in its text.
    """
    query = parse_select(text).query
    clause = _clause(query, statement.stream)
    # A stream without a window of its own has the query's.
    inherited = clause or _clause(query, None)
    begin, end = _edges(inherited, text) if inherited is not None else unsaid
    where = _place(text)
    if clause is not None:
        found = span_of(clause)
        assert found is not None
        where = found
    rows = (statement.begin or begin).upper().startswith("LAST")
    begin = statement.begin or ("START" if begin.upper().startswith("LAST") and statement.end else begin)
    parts = [(f"BEGIN ({begin})", statement.begin_at)]
    if not rows or statement.end is not None:
        parts.append((f" END ({statement.end or end})", statement.end_at))
    if statement.stream is not None:
        name = exp.to_identifier(statement.stream, quoted=True).sql(dialect=Penstock)
        parts.append((f" FOR {name}", statement.stream_at))
    before, after = text[: where.start].rstrip(), text[where.end :].strip()
    written = "".join(part for part, _ in parts)
    changed = "\n".join(part for part in (before, written, after) if part)
    return WindowChange(changed, len(before) + 1 if before else 0, tuple(parts), statement)


def _clause(query: exp.Expr, stream: str | None) -> BeginEnd | None:
    """The window of the outermost SELECT for one stream, or (None) for all that have none of their own."""
    clauses = query.args.get("begin_end")
    for clause in clauses.expressions if isinstance(clauses, BeginEnds) else ():
        alias = clause.args.get("alias")
        if (alias.name if alias is not None else None) == stream:
            assert isinstance(clause, BeginEnd)
            return clause
    return None


def _edges(clause: BeginEnd, text: str) -> tuple[str, str]:
    def shown(key: str, default: str) -> str:
        edge = clause.args.get(key)
        span = span_of(edge) if edge is not None else None
        if span is None:
            return default
        written = text[span.start : span.end]
        return written[1:-1].strip() if written.startswith("(") else written

    if clause.args.get("rows") is not None:
        per = " PER SENSOR" if clause.args.get("per_sensor") else ""
        return f"LAST {clause.args['rows']} ROWS{per}", "NOW"
    return shown("begin", "START"), shown("end", "NOW")


def _place(text: str) -> Span:
    """Where a window goes that was not there: before ORDER BY and LIMIT of the outermost SELECT."""
    depth = 0
    for token in Penstock().tokenize(text):
        depth += token.token_type == TokenType.L_PAREN
        depth -= token.token_type == TokenType.R_PAREN
        if depth == 0 and token.token_type in _AFTER_WINDOW:
            return Span(token.start, token.start)
    end = len(text.rstrip().removesuffix(";"))
    return Span(end, len(text))
