"""ALTER QUERY ... SET BEGIN (..) END (..): the stored text of a query with another window."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import Penstock
from penstock.sql.nodes import BeginEnd, BeginEnds
from penstock.sql.parse import parse_select
from penstock.sql.positions import Span, span_of
from penstock.sql.statements import AlterQuery

_AFTER_WINDOW = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH}


def retarget_window(text: str, statement: AlterQuery, unsaid: tuple[str, str] = ("START", "NOW")) -> str:
    """The text with the statement's window instead of its own; what the statement leaves out stays as it was.

    `unsaid` is the window of a query whose text has none.
    """
    query = parse_select(text).query
    clause = _clause(query, statement.stream)
    # A stream without a window of its own has everybody's.
    inherited = clause or _clause(query, None)
    begin, end = _edges(inherited, text) if inherited is not None else unsaid
    where = _place(text)
    if clause is not None:
        found = span_of(clause)
        assert found is not None
        where = found
    rows = (statement.begin or begin).upper().startswith("LAST")
    begin = statement.begin or ("START" if begin.upper().startswith("LAST") and statement.end else begin)
    end = statement.end or end
    written = f"BEGIN ({begin})" if rows and statement.end is None else f"BEGIN ({begin}) END ({end})"
    if statement.stream is not None:
        written += f" FOR {exp.to_identifier(statement.stream, quoted=True).sql(dialect=Penstock)}"
    before, after = text[: where.start].rstrip(), text[where.end :].strip()
    return "\n".join(part for part in (before, written, after) if part)


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
