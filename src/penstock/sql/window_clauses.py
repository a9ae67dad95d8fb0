"""Window clauses: from what was typed to `operators.windows`, checked against language.md's table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from penstock.errors import error
from penstock.expr.windows import EVERYTHING, FOREVER, FROM_REGISTRATION, Bound, RowsWindow, TimeWindow, Window
from penstock.sql.nodes import BeginEnd, BeginEnds, WindowEdge
from penstock.sql.positions import point, span_of

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
