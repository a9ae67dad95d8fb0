"""Mining functions in a plan: which windows they fit, what slices keep for them, and where they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

from sqlglot import exp

from penstock.errors import error
from penstock.expr.expression import Call, Expr, Literal
from penstock.expr.windows import EVERYTHING, FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.mining.registry import FUNCTIONS, MiningFunction
from penstock.sql.binding.context import BoundQuery, Collected, SelectContext
from penstock.sql.binding.mining import by_argument, is_mining_call, options_of, values_of
from penstock.sql.kernel_expressions import lower
from penstock.sql.nodes import OwnWindow, Unnested
from penstock.sql.plan import ONLY_IN_SLICES, AggregateCall
from penstock.sql.values import constant, external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, format_duration


def mining_calls(context: SelectContext) -> Iterator[exp.Expr]:
    """The calls that a SELECT has itself."""
    return (
        node
        for node in context.select.find_all(exp.Anonymous)
        if is_mining_call(node) and node.find_ancestor(exp.Select) is context.select
    )


def mining_call(node: exp.Expr, condition: Expr | None) -> AggregateCall:
    """What slices keep for a call. NULL, NaN and infinite values are no readings. `condition`: that of a FILTER around it."""
    values, type_ = [lower(each) for each in values_of(node)], external(type_of(node))
    options = options_of(node)
    if FUNCTIONS[node.name].symbols and values[0].type != DOUBLE:
        return AggregateCall(node.name, _symbols(values[0], options, condition), type_, options=tuple(options.items()))
    if options.get("every") is not None and options["slot"] == "last":
        counts = Call("coalesce", (_is_reading(values[0], condition), Literal(False, BOOLEAN)), BOOLEAN)
        arguments: tuple[Expr, ...] = (values[0], counts)
    else:
        arguments = tuple(_reading(value, condition) for value in values)
    return AggregateCall(node.name, arguments, type_, options=tuple(options.items()))


def by_of(node: exp.Expr) -> tuple[Expr, ...]:
    """The argument `by` of a call of a mining function, if it has one."""
    by = by_argument(node) if is_mining_call(node) else None
    return () if by is None else (lower(by),)


def _symbols(value: Expr, options: dict[str, Any], condition: Expr | None) -> tuple[Expr, ...]:
    """The readings of symbols that count: all but NULL."""
    if options["every"] is not None and options["slot"] == "last":
        known: Expr = Call("not", (Call("is_null", (value,), BOOLEAN),), BOOLEAN)
        if condition is not None:
            known = Call("coalesce", (Call("and", (condition, known), BOOLEAN), Literal(False, BOOLEAN)), BOOLEAN)
        return value, known
    return (value if condition is None else Call("case", (condition, value, Literal(None, value.type)), value.type),)


def _is_reading(value: Expr, condition: Expr | None) -> Expr:
    finite = Call("eq", (Call("sub", (value, value), DOUBLE), Literal(0.0, DOUBLE)), BOOLEAN)
    return finite if condition is None else Call("and", (condition, finite), BOOLEAN)


def _reading(value: Expr, condition: Expr | None) -> Expr:
    """The value, NULL where it does not count. The elements of an array are looked at where it is kept."""
    counts = condition if value.type.kind == "ARRAY" else _is_reading(value, condition)
    return value if counts is None else Call("case", (counts, value, Literal(None, value.type)), value.type)


def settle_mining(collected: Collected) -> None:
    """Refuse calls that do not fit their window, and give those without a history half of it."""
    for context in collected.contexts if collected.mines else ():
        for node in list(mining_calls(context)):
            _settle(context, node)
        _check_by(context)
        _check_unnest(context)


def _check_by(context: SelectContext) -> None:
    """Refuse a second `by`: cells have the values of one."""
    found = [by for by in map(by_argument, mining_calls(context)) if by is not None]
    for by in found[1:]:
        if by != found[0]:
            hint = "write a query for each"
            context.fail(by, error("not_supported", feature='a second "by" in a SELECT', hint=hint))


def _check_unnest(context: SelectContext) -> None:
    """Refuse UNNEST outside of the SELECT list, and two of them."""
    found = [n for n in context.select.find_all(Unnested) if n.find_ancestor(exp.Select) is context.select]
    for node in found:
        top: exp.Expr = node
        while top.parent is not context.select and top.parent is not None:
            top = top.parent
        if top.arg_key not in ("expressions", "order"):
            hint = "it stands in the SELECT list; another query can read what it gives"
            context.fail(node, error("not_supported", feature="UNNEST here", hint=hint))
        if node != found[0]:
            hint = "write a query for each"
            context.fail(node, error("not_supported", feature="a second UNNEST in a SELECT", hint=hint))


def _settle(context: SelectContext, node: exp.Expr) -> None:
    function, options = FUNCTIONS[node.name], options_of(node)
    words = function.name.upper()
    if context.scope.latch is not None:
        hint = "without LATCH it runs over a window"
        context.fail(node, error("not_supported", feature=f"{words} with LATCH", hint=hint))
    if context.scope.panes is not None and context.scope.panes.session_us:
        hint = "with TUMBLE or SLIDE it runs"
        context.fail(node, error("not_supported", feature=f"{words} with SESSION", hint=hint))
    if function.takes != "numbers":
        return
    window = next((s.window for s in context.sources if s.is_stream and s.window is not None), EVERYTHING)
    every, panes = options["every"], context.scope.panes
    if panes is not None and panes.landmark is not None:
        hint = "TUMBLE makes windows of one length"
        context.fail(node, error("not_supported", feature=f"{words} beside LANDMARK", hint=hint))
    own = node.parent.us if isinstance(node.parent, OwnWindow) else None
    if every is None:
        available = window.count if isinstance(window, RowsWindow) and not window.per_sensor and own is None else None
    elif isinstance(window, RowsWindow):
        detail = f"LAST {window.count} ROWS counts readings, and slots are of time"
        context.fail(node, error("invalid_window", detail=detail, hint='leave out "every", or write BEGIN (NOW - ..)'))
    elif panes is not None and own is None:
        for name, us in (("width", panes.width_us), ("step", panes.step_us)):
            if us % every:
                detail = f'"every" divides the {name} of TUMBLE or SLIDE, {format_duration(us)} here'
                width = format_duration(gcd(every, panes.width_us, panes.step_us))
                context.fail(node, error("invalid_window", detail=detail, hint=f"write every => '{width}'"))
        available = panes.width_us // every
    else:
        length = own if own is not None else length_us(window)
        # A window that moves on cuts a slot at each of its ends.
        available = None if length is None else max(0, length // every - 1)
    _take_history(context, node, options, available)
    needed = function.needs(options)
    if available is not None and available < needed:
        _refuse_short(context, node, function, (available, needed), every)


def _take_history(context: SelectContext, node: exp.Expr, options: dict[str, Any], available: int | None) -> None:
    for place, parameter in enumerate(FUNCTIONS[node.name].parameters):
        if not parameter.half_window or options[parameter.name] is not None:
            continue
        if available is None:
            detail = f'the window has no fixed length, so {node.name.upper()} needs "{parameter.name}"'
            length = "1 DAY" if options["every"] is not None else "500"
            context.fail(node, error("invalid_window", detail=detail, hint=f"write {parameter.name} => {length}"))
        options[parameter.name] = max(int(parameter.least), available // 2)
        node.expressions[1 + place].replace(constant(options[parameter.name], BIGINT, node))


def _refuse_short(
    context: SelectContext, node: exp.Expr, function: MiningFunction, elements: tuple[int, int], every: int | None
) -> None:
    available, needed = elements
    if every is None:
        detail = f"{function.name.upper()} needs {needed} readings, and the window has {available}"
        context.fail(node, error("invalid_window", detail=detail, hint=f"write BEGIN (LAST {needed} ROWS)"))
    slots = f"{needed} whole slot{'' if needed == 1 else 's'}"
    detail = f"{function.name.upper()} needs {slots} of {format_duration(every)}, and the window has {available}"
    least = format_duration((needed + 1) * every)
    context.fail(node, error("invalid_window", detail=detail, hint=f"make it {least} long, or longer"))


def length_us(window: Window) -> int | None:
    """How long a window is at every time; None where it grows."""
    if not isinstance(window, TimeWindow) or window.begin.anchor != window.end.anchor:
        return None
    length = window.end.offset_us - window.begin.offset_us
    return length if length < FOREVER else None


def refuse_others(bound: BoundQuery, reason: str | None) -> None:
    """The same for user aggregates and the others that slices alone have."""
    hint = "it works on one stream, in a query of its own that others can read"
    for context in bound.collected.contexts:
        for node in context.select.find_all(exp.Anonymous):
            own = "code" in node.meta or node.name in ONLY_IN_SLICES
            if own and node.find_ancestor(exp.Select) is context.select:
                why = hint if reason is None else f"here {reason}; {hint}"
                context.fail(node, error("not_supported", feature=f"aggregate {node.name} in Spark SQL", hint=why))


def refuse_mining(bound: BoundQuery, reason: str | None) -> None:
    """Refuse what would be Spark SQL, which knows no such function."""
    hint = "it works on one stream, in a query of its own that others can read"
    for context in bound.collected.contexts if bound.collected.mines else ():
        for node in mining_calls(context):
            why = hint if reason is None else f"here {reason}; {hint}"
            context.fail(node, error("not_supported", feature=f"{node.name.upper()} in Spark SQL", hint=why))
