"""ALTER QUERY ... SET BEGIN (..) END (..): the stored text of a query with another window."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError
from penstock.sql.dialect import Penstock
from penstock.sql.nodes import BeginEnd, BeginEnds
from penstock.sql.parse import parse_select
from penstock.sql.positions import Span, offset_of, span_of
from penstock.sql.statements import AlterQuery

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
