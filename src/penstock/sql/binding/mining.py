"""Mining functions (SERIES, VECTOR_SUM ..): a value, perhaps a window of their own, and named arguments, which are constants."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp

from penstock.errors import error, suggest
from penstock.operators.mining.clusters import MOST_DIMENSIONS
from penstock.operators.mining.registry import EVERY, FUNCTIONS, SET, SLOT, MiningFunction, Parameter
from penstock.sql.binding.coercion import Coercion
from penstock.sql.nodes import Const, Duration, OwnWindow, Unnested
from penstock.sql.positions import placed, span_of
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, constant, external, show, type_of, typed
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT, Type, format_duration

_NUMBERS = ("INT", "BIGINT", "DOUBLE")
_TYPES = {"duration": BIGINT, "elements": BIGINT, "whole": BIGINT, "number": DOUBLE, "flag": BOOLEAN, "word": TEXT}
_TYPES["levels"] = _TYPES["shape"] = Type("ARRAY", element=DOUBLE)
_MOST_LEVELS = 100
_NAMED = (exp.Kwarg, exp.PropertyEQ)


def is_mining_call(node: exp.Expr) -> bool:
    """Whether a bound node is a call of a mining function."""
    return isinstance(node, exp.Anonymous) and bool(node.meta.get("mining"))


def bind_mining(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    """The call with its values first, then a constant for each parameter of the table; NULL where there is none."""
    function = FUNCTIONS[node.name.lower()]
    binder.mines = True
    given, named = _arguments(binder, function, node)
    own = given[-1].us if len(given) > 1 and isinstance(given[-1], Duration) else None
    given = given[:-1] if own is not None else given
    several = function.takes == "points"
    if not given or any(isinstance(each, exp.Star) for each in given) or (len(given) > 1 and not several):
        detail = f"{function.name.upper()} takes {'values' if several else 'one value'}"
        binder.fail(node, error("syntax_error", detail=detail, hint=_example(function)))
    values = [_value(binder, function, each, named, scope) for each in given]
    _check_points(binder, function, given, values)
    every = _constant(binder, EVERY, named["every"], scope, 0) if "every" in named else None
    if function.by_slots and every is None:
        detail = f'{function.name.upper()} needs "every", the width of its slots'
        binder.fail(node, error("syntax_error", detail=detail, hint=_example(function)))
    options = [
        _option(binder, p, named.get(p.name), scope, every) or _missing(binder, p, node) for p in function.parameters
    ]
    if function.takes == "numbers" and is_symbol(values[0]):
        _check_symbols(binder, function, named)
        options[-1] = constant(function.symbol_slot, TEXT, node)
    _check_season(binder, function, named, dict(zip((p.name for p in function.parameters), options, strict=True)))
    bound: exp.Expr = exp.Anonymous(this=function.name, expressions=[*values, *options])
    bound.meta.update(aggregate=True, mining=True)
    bound = typed(placed(bound, node), function.result_of(external(type_of(values[0]))))
    if own is None:
        return bound
    if own <= 0:
        detail = "an aggregate's window is longer than nothing"
        binder.fail(node, error("invalid_window", detail=detail, hint="write 1 HOUR, or leave it out"))
    return typed(placed(OwnWindow(this=bound, us=own), node), type_of(bound))


def bind_unnest(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    """UNNEST(call): the elements of what a mining function gives."""
    value = binder.bind(node.expressions[0], scope) if len(node.expressions) == 1 else None
    inner = value.unnest() if value is not None else None
    call = inner.this if isinstance(inner, OwnWindow | exp.Filter) else inner
    if value is None or call is None or not is_mining_call(call.this if isinstance(call, OwnWindow) else call):
        hint = "write SELECT UNNEST(ANOMALIES(ppm, every => 1 MINUTE, history => 1 DAY)) AS a"
        binder.fail(node, error("not_supported", feature="UNNEST of anything but a mining function", hint=hint))
    element = type_of(value).element
    if element is None:
        detail = f"UNNEST takes an array, this is {show(type_of(value))}"
        binder.fail(node, error("type_mismatch", detail=detail, hint="write (call).field for a field of it"))
    return typed(placed(Unnested(this=value), node), element)


def _example(function: MiningFunction) -> str:
    return f"write {function.example}"


def _arguments(
    binder: Coercion, function: MiningFunction, node: exp.Anonymous
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    """The arguments by position, and those by name."""
    known = [parameter.name for parameter in function.parameters]
    values: list[exp.Expr] = []
    named: dict[str, exp.Expr] = {}
    for each in node.expressions:
        if isinstance(each, exp.Distinct):
            feature, hint = f"DISTINCT in {function.name.upper()}", "leave it out: every reading counts"
            binder.fail(each, error("not_supported", feature=feature, hint=hint), node)
        if not isinstance(each, _NAMED):
            if named:
                detail = "a value stands before the named arguments"
                binder.fail(each, error("syntax_error", detail=detail, hint=_example(function)), node)
            values.append(each)
            continue
        name = each.this.name.lower()
        if name not in known:
            names = f"it takes {', '.join(known)}" if known else "it takes no named arguments"
            hint = suggest(name, known) or names
            detail = f'{function.name.upper()} has no argument "{name}"'
            binder.fail(_name_node(binder, each), error("syntax_error", detail=detail, hint=hint), node)
        if name in named:
            detail = f'the argument "{name}" is given twice'
            hint = f'leave out one "{name}"'
            binder.fail(_name_node(binder, each), error("syntax_error", detail=detail, hint=hint), node)
        named[name] = each.expression
    if function.takes == "points" and len(values) > 1:
        first = function.own[0].name
        if first in named:
            detail = f'the argument "{first}" is given twice'
            binder.fail(values[0], error("syntax_error", detail=detail, hint=_example(function)), node)
        named[first] = values.pop(0)
    return values, named


def _name_node(binder: Coercion, named: exp.Expr) -> exp.Expr:
    """Where the name of an argument stands, which the parser does not note: in front of its value."""
    value, name = span_of(named.expression), named.this.name
    if value is None:
        return named
    start = binder.text.rfind(name, 0, value.start)
    found = exp.Var(this=name)
    found.meta.update(start=start, end=start + len(name) - 1)
    return found


def is_symbol(value: exp.Expr) -> bool:
    """Whether a series of a bound value is one of symbols: numbers are DOUBLE."""
    return external(type_of(value)) != DOUBLE


def _check_symbols(binder: Coercion, function: MiningFunction, named: Mapping[str, exp.Expr]) -> None:
    if SLOT.name in named:
        has = "all the symbols" if function.symbol_slot == SET else "the last symbol"
        detail = f'"slot" says which number a slot has; here it has {has} of its readings'
        binder.fail(named[SLOT.name], error("type_mismatch", detail=detail, hint='leave out "slot"'))


def _value(
    binder: Coercion, function: MiningFunction, node: exp.Expr, named: Mapping[str, exp.Expr], scope: Scope
) -> exp.Expr:
    value = binder.bind(node, scope)
    type_ = external(type_of(value))
    name, found = function.name.upper(), show(type_of(value))
    if function.takes == "vectors" or (function.takes == "points" and type_.kind == "ARRAY"):
        if type_.element is None or type_.element.kind not in _NUMBERS:
            detail = f"{name} works on arrays of INT, BIGINT or DOUBLE, this is {found}"
            binder.fail(node, error("type_mismatch", detail=detail, hint=_example(function)))
        return value
    if type_.kind in function.symbols and type_of(value) != DURATION and "levels" not in named:
        return value
    if type_.kind not in (*_NUMBERS, "DECIMAL") or type_of(value) == DURATION:
        detail = f"{name} works on numbers{' or on symbols' * bool(function.symbols)}, this is {found}"
        if "TEXT" in function.symbols and "levels" in named:
            detail = f'"levels" make symbols of numbers, this is {found}'
        hint = 'leave out "levels"' if type_.kind in function.symbols else _example(function)
        binder.fail(node, error("type_mismatch", detail=detail, hint=hint))
    if "levels" not in named and any(parameter.name == "levels" for parameter in function.parameters):
        detail = f'{name} works on symbols, this is {found}; "levels" make symbols of numbers'
        hint = "write levels => ARRAY[5, 10], and a symbol is how many of them a value reaches"
        binder.fail(node, error("type_mismatch", detail=detail, hint=hint))
    return binder.coerce(value, DOUBLE)


def _check_points(binder: Coercion, function: MiningFunction, given: list[exp.Expr], values: list[exp.Expr]) -> None:
    """Several numbers, or one array."""
    arrays = [node for node, value in zip(given, values, strict=True) if type_of(value).kind == "ARRAY"]
    if arrays and len(values) > 1:
        detail = f"{function.name.upper()} takes numbers, or one array of them"
        hint = "leave out the array, or all but the array"
        binder.fail(arrays[0], error("type_mismatch", detail=detail, hint=hint))
    if len(values) > MOST_DIMENSIONS:
        detail = f"{function.name.upper()} takes {len(values)} numbers here, and at most {MOST_DIMENSIONS}"
        binder.fail(given[MOST_DIMENSIONS], error("over_budget", detail=detail, hint="leave some out"))


def _missing(binder: Coercion, parameter: Parameter, at: exp.Expr) -> exp.Expr:
    if parameter.required:
        detail = f'{at.name.upper()} needs "{parameter.name}": {parameter.sentence}'
        binder.fail(at, error("syntax_error", detail=detail, hint=_example(FUNCTIONS[at.name.lower()])))
    return constant(parameter.default, _TYPES[parameter.kind], at)


def _check_season(
    binder: Coercion, function: MiningFunction, named: Mapping[str, exp.Expr], options: Mapping[str, exp.Expr]
) -> None:
    """A season is longer than the neighbours of a place, or those of the season before would lie ahead."""
    season, spread = (options[name].value if name in options else None for name in ("season", "spread"))  # type: ignore[attr-defined]
    if season is not None and spread is not None and season <= spread:
        at = named["spread"] if "spread" in named else named["season"]
        detail = f'"spread" is shorter than a season, which has {season} elements'
        binder.fail(at, error("type_mismatch", detail=detail, hint=f"write spread => {season - 1}"))


def _option(
    binder: Coercion, parameter: Parameter, node: exp.Expr | None, scope: Scope, every: int | None
) -> exp.Expr | None:
    if node is None:
        return None
    if parameter.kind == "column":
        return _column(binder, parameter, node, scope)
    return constant(_constant(binder, parameter, node, scope, every), _TYPES[parameter.kind], node)


def _column(binder: Coercion, parameter: Parameter, node: exp.Expr, scope: Scope) -> exp.Expr:
    bound = binder.bind(node, scope)
    if isinstance(bound, Const) or type_of(bound).kind in ("ARRAY", "STRUCT"):
        detail = f'"{parameter.name}" takes a column of single values'
        binder.fail(node, error("type_mismatch", detail=detail, hint=f"{parameter.sentence}, such as of a sensor"))
    return bound


def _constant(binder: Coercion, parameter: Parameter, node: exp.Expr, scope: Scope, every: int | None) -> Any:
    """The value of a named argument, in the range of its parameter. `every`: the width of slots, None without them."""
    if parameter.kind == "word":
        return _word(binder, parameter, node)
    if parameter.kind == "levels":
        return _levels(binder, parameter, node, scope)
    if parameter.kind == "shape":
        return _shape(binder, parameter, node, scope)
    timed = parameter.kind == "duration" or (parameter.kind == "elements" and every is not None)
    bound = binder.bind(node, scope)
    if timed and isinstance(bound, Const) and type_of(bound) == TEXT:
        bound = binder.coerce(bound, DURATION)
    value = bound.value if isinstance(bound, Const) and (type_of(bound) == DURATION) == timed else None
    if parameter.kind == "flag":
        if not isinstance(value, bool):
            _refuse(binder, parameter, node, every, "true or false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(binder, parameter, node, every)
    if parameter.kind == "elements" and every:
        if value % every:
            detail = f'"{parameter.name}" is a multiple of "every", which is {format_duration(every)}'
            multiple = format_duration(max(int(parameter.least), int(value) // every) * every)
            binder.fail(node, error("invalid_window", detail=detail, hint=f"write {parameter.name} => '{multiple}'"))
        value //= every
    whole = parameter.kind in ("whole", "elements")
    if not parameter.least <= value <= parameter.most or (whole and value != int(value)):
        _refuse(binder, parameter, node, every)
    if parameter.kind == "duration" and value % 1000:
        _refuse(binder, parameter, node, every, "a multiple of 1 MS")
    return float(value) if parameter.kind == "number" else int(value)


def _refuse(
    binder: Coercion, parameter: Parameter, node: exp.Expr, every: int | None, takes: str | None = None
) -> NoReturn:
    detail = f'"{parameter.name}" takes {takes or _range_of(parameter, every)}, as a constant'
    binder.fail(node, error("type_mismatch", detail=detail, hint=f"such as {parameter.example(every)}"))


def _range_of(parameter: Parameter, every: int | None) -> str:
    if parameter.kind == "duration":
        return f"a duration of at least {format_duration(int(parameter.least))}"
    if parameter.kind == "elements" and every:
        low, high = (format_duration(int(edge) * every) for edge in (parameter.least, parameter.most))
        return f"a duration from {low} to {high}"
    kind = "a number" if parameter.kind == "number" else "a whole number"
    return f"{kind} from {parameter.least:g} to {parameter.most:g}"


def _word(binder: Coercion, parameter: Parameter, node: exp.Expr) -> str:
    """A word, as it is or in quotes."""
    plain = isinstance(node, exp.Column) and len(node.parts) == 1
    word = node.name.lower() if plain or isinstance(node, exp.Literal) else ""
    if word not in parameter.words:
        words = ", ".join(each.upper() for each in parameter.words)
        detail = f'"{parameter.name}" is one of {words}'
        hint = suggest(word, parameter.words) or f"such as {parameter.example(None)}"
        binder.fail(node, error("type_mismatch", detail=detail, hint=hint))
    return word


def _levels(binder: Coercion, parameter: Parameter, node: exp.Expr, scope: Scope) -> tuple[float, ...]:
    """Numbers in ascending order."""
    levels = _numbers(binder, node, scope)
    ascending = all(low < high for low, high in pairwise(levels))
    if not levels or not ascending or len(levels) > _MOST_LEVELS:
        _refuse(binder, parameter, node, None, f"an ARRAY of 1 to {_MOST_LEVELS} numbers in ascending order")
    return levels


def _shape(binder: Coercion, parameter: Parameter, node: exp.Expr, scope: Scope) -> tuple[float, ...]:
    shape = _numbers(binder, node, scope)
    if not parameter.least <= len(shape) <= parameter.most:
        _refuse(binder, parameter, node, None, parameter.takes)
    return shape


def _numbers(binder: Coercion, node: exp.Expr, scope: Scope) -> tuple[float, ...]:
    """The numbers of an array of constants; none where it is anything else."""
    found = [binder.bind(each, scope) for each in node.expressions] if isinstance(node, exp.Array) else []
    values = [each.value for each in found if isinstance(each, Const) and type_of(each).kind in _NUMBERS]
    numbers = tuple(float(value) for value in values if value is not None)
    return numbers if len(numbers) == len(found) else ()


def options_of(call: exp.Expr) -> dict[str, Any]:
    """The constants among the named arguments of a bound call, with their defaults."""
    parameters = FUNCTIONS[call.name].parameters
    constants = call.expressions[len(call.expressions) - len(parameters) :]
    return {p.name: c.value for p, c in zip(parameters, constants, strict=True) if p.kind != "column"}


def by_argument(call: exp.Expr) -> exp.Expr | None:
    """The argument `by` of a bound call."""
    parameters = FUNCTIONS[call.name].parameters
    given = call.expressions[len(call.expressions) - len(parameters) :]
    return next((c for p, c in zip(parameters, given, strict=True) if p.kind == "column"), None)


def values_of(call: exp.Expr) -> list[exp.Expr]:
    """The values of a bound call, without its named arguments."""
    values: list[exp.Expr] = call.expressions[: len(call.expressions) - len(FUNCTIONS[call.name].parameters)]
    return values
