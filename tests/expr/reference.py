"""A tiny row-at-a-time evaluator of bound expressions, written from the contract and not from the product."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words
from penstock.expr.expression import Call, Column, Expr, Literal

BITS = {"INT": 32, "BIGINT": 64}


def value_of(expr: Expr, row: dict[str, Any]) -> Any:
    """Timestamps are integers here, decimals Decimal, NULL None."""
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Column):
        return row[expr.name]
    assert isinstance(expr, Call)
    arguments = [value_of(a, row) for a in expr.arguments]
    special = SPECIAL.get(expr.operation)
    if special:
        return special(arguments, expr)
    if any(a is None for a in arguments):
        return None
    return STRICT[expr.operation](arguments, expr)


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1, with NaN above everything and equal to itself."""
    if isinstance(left, float) and math.isnan(left):
        return 0 if isinstance(right, float) and math.isnan(right) else 1
    if isinstance(right, float) and math.isnan(right):
        return -1
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return (left > right) - (left < right)


def wrap(value: int, kind: str) -> int:
    size = 1 << BITS[kind]
    value %= size
    return value - size if value >= size // 2 else value


def fit(value: Any, call: Call) -> Any:
    return wrap(value, call.type.kind) if call.type.kind in BITS else value


def _and(a: list[Any], _: Call) -> Any:
    return False if any(x is False for x in a) else None if None in a else True


def _or(a: list[Any], _: Call) -> Any:
    return True if any(x is True for x in a) else None if None in a else False


def _in(a: list[Any], _: Call) -> Any:
    value, *options = a
    if value is None:
        return None
    if any(o is not None and order(value, o) == 0 for o in options):
        return True
    return None if None in options else False


def _case(a: list[Any], _: Call) -> Any:
    for i in range(0, len(a) - 1, 2):
        if a[i] is True:
            return a[i + 1]
    return a[-1] if len(a) % 2 else None


def _coalesce(a: list[Any], _: Call) -> Any:
    return next((x for x in a if x is not None), None)


def _nullif(a: list[Any], _: Call) -> Any:
    return None if None not in a and order(*a) == 0 else a[0]


def _extreme(sign: int) -> Any:
    def run(a: list[Any], _: Call) -> Any:
        best = None
        for x in a:
            if x is not None and (best is None or order(x, best) * sign > 0):
                best = x
        return best

    return run


SPECIAL = {
    "and": _and,
    "or": _or,
    "is_null": lambda a, _: a[0] is None,
    "in": _in,
    "same": lambda a, _: a[0] is a[1] if None in a else order(*a) == 0,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme(1),
    "least": _extreme(-1),
}


def _div(a: list[Any], call: Call) -> Any:
    x, y = a
    if y == 0:
        return None
    if isinstance(x, float):
        return _float(lambda: x / y)
    quotient = abs(x) // abs(y)
    return wrap(quotient if (x < 0) == (y < 0) else -quotient, call.type.kind)


def _mod(a: list[Any], call: Call) -> Any:
    x, y = a
    if y == 0:
        return None
    if isinstance(x, float):
        return math.nan if math.isinf(x) or math.isnan(x) or math.isnan(y) else math.fmod(x, y)
    return wrap(abs(x) % abs(y) * (-1 if x < 0 else 1), call.type.kind)


def _float(compute: Any) -> float:
    try:
        return float(compute())
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _near(exact: float, function: Callable[..., Any], *arguments: float) -> float:
    """What NumPy makes of it, where that is the exact value but for its last digits.

    These depend on the processor, and a remainder or a rounding of the value may turn them into any difference.
    """
    with np.errstate(all="ignore"):
        found = float(function(*(np.array([a]) for a in arguments))[0])
    return found if math.isclose(found, exact, rel_tol=1e-14, abs_tol=1e-307) else exact


def _add(a: list[Any], call: Call) -> Any:
    return fit(a[0] + a[1], call)


def _mul(a: list[Any], call: Call) -> Any:
    return fit(a[0] * a[1], call)


def _cast(a: list[Any], call: Call) -> Any:
    value, to = a[0], call.type.kind
    if isinstance(value, str):
        return _parse(value, to)
    if to == "TEXT":
        return str(value) if not isinstance(value, bool) else str(value).lower()
    if to == "BOOLEAN":
        return value != 0
    if to == "DOUBLE":
        return float(value)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        top = (1 << (BITS[to] - 1)) - 1
        return max(-top - 1, min(top, int(value) if math.isfinite(value) else (top if value > 0 else -top - 1)))
    return wrap(int(value), to)


def _parse(text: str, to: str) -> Any:
    text = text.strip(" \t\n")
    if to == "TEXT":
        return text
    if to == "BOOLEAN":
        said = {"t": True, "true": True, "y": True, "yes": True, "1": True}
        said |= {"f": False, "false": False, "n": False, "no": False, "0": False}
        return said.get(text.lower())
    if to == "DOUBLE":
        return float(text) if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?([eE][0-9]+)?", text) else None
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?", text):
        return None
    value = int(text.split(".")[0])
    return value if wrap(value, to) == value else None


def like(text: str, pattern: str) -> bool:
    """By recursion over the pattern, not by a regular expression."""
    if not pattern:
        return not text
    mark = pattern[0]
    if mark == "%":
        return like(text, pattern[1:]) or (bool(text) and like(text[1:], pattern))
    if mark == "\\" and len(pattern) > 1:
        return bool(text) and text[0] == pattern[1] and like(text[1:], pattern[2:])
    return bool(text) and (mark == "_" or text[0] == mark) and like(text[1:], pattern[1:])


def _round(a: list[Any], call: Call) -> Any:
    value, digits = a[0], a[1] if len(a) > 1 else 0
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        exact = Decimal(repr(value))
        if digits >= -exact.as_tuple().exponent:
            return value
        shifted = exact.scaleb(digits)
        return float(shifted.to_integral_value(ROUND_HALF_UP).scaleb(-digits))
    if digits >= 0:
        return value
    unit = 10**-digits
    half_up = (abs(value) + unit // 2) // unit * unit
    return wrap(-half_up if value < 0 else half_up, call.type.kind)


def _trunc(a: list[Any], call: Call) -> Any:
    value, digits = a[0], a[1] if len(a) > 1 else 0
    if isinstance(value, float) and not math.isfinite(value):
        return value
    exact = Decimal(repr(value)).scaleb(digits)
    if exact.as_tuple().exponent >= 0:  # type: ignore[operator]
        return value
    cut = exact.to_integral_value(ROUND_DOWN).scaleb(-digits)
    return float(cut) if isinstance(value, float) else int(cut)


def _power(a: list[Any], _: Call) -> Any:
    base, exponent = a
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return _near(math.pow(base, exponent), np.power, base, exponent)
    except OverflowError:
        negative = base < 0 and exponent % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        if base == 0:
            return -math.inf if math.copysign(1, base) < 0 and exponent % 2 == 1 else math.inf
        return math.nan


def _substring(a: list[Any], _: Call) -> Any:
    text, start, *length = a
    if length and length[0] < 0:
        return None
    last = start + length[0] - 1 if length else len(text)
    return "".join(text[p - 1] for p in range(1, len(text) + 1) if start <= p <= last)


def _sign(a: list[Any], _: Call) -> Any:
    return a[0] if a[0] != a[0] or a[0] == 0 else math.copysign(1, a[0])


def xxhash64(*values: int) -> int:
    """XXH64 of each value's eight bytes, the hash of one the seed of the next, in whole numbers of any size."""
    primes = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
    most = 2**64

    def turned(word: int, bits: int) -> int:
        return (word << bits) % most | word >> (64 - bits)

    found = 42
    for value in values:
        found = (found + primes[4] + 8) % most
        found ^= turned(value * primes[1] % most, 31) * primes[0] % most
        found = (turned(found, 27) * primes[0] + primes[3]) % most
        for shift, prime in ((33, primes[1]), (29, primes[2]), (32, 1)):
            found = (found ^ found >> shift) * prime % most
    return wrap(found, "BIGINT")


def moment(us: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=us)


def _date_trunc(a: list[Any], _: Call) -> int:
    unit, when = a[0], moment(a[1])
    match unit:
        case "WEEK":
            when = datetime(*when.date().timetuple()[:3]) - timedelta(days=when.weekday())
        case "QUARTER":
            when = datetime(when.year, (when.month - 1) // 3 * 3 + 1, 1)
        case "MILLISECOND":
            when = when.replace(microsecond=when.microsecond // 1000 * 1000)
        case _:
            kept = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND").index(unit) + 1
            fields = (when.year, when.month, when.day, when.hour, when.minute, when.second, when.microsecond)
            when = datetime(*(fields[:kept] + (0, 1, 1, 0, 0, 0, 0)[kept:]))  # type: ignore[arg-type]
    return (when - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def _extract(a: list[Any], _: Call) -> Any:
    part, when = a[0], moment(a[1])
    said = {
        "EPOCH": lambda: a[1] / 1e6,
        "QUARTER": lambda: (when.month + 2) // 3,
        "WEEK": lambda: when.isocalendar().week,
        "DOW": lambda: when.isoweekday() % 7,
        "DOY": lambda: when.timetuple().tm_yday,
        "SECOND": lambda: (when.second * 10**6 + when.microsecond) / 1e6,
    }
    return said[part]() if part in said else getattr(when, part.lower())


STRICT = {
    "date_trunc": _date_trunc,
    "extract": _extract,
    "eq": lambda a, _: order(*a) == 0,
    "ne": lambda a, _: order(*a) != 0,
    "lt": lambda a, _: order(*a) < 0,
    "le": lambda a, _: order(*a) <= 0,
    "gt": lambda a, _: order(*a) > 0,
    "ge": lambda a, _: order(*a) >= 0,
    "not": lambda a, _: not a[0],
    "add": _add,
    "sub": lambda a, call: fit(a[0] - a[1], call),
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "neg": lambda a, call: fit(-a[0], call),
    "cast": _cast,
    "concat": lambda a, _: "".join(a),
    "like": lambda a, _: like(*a),
    "ilike": lambda a, _: like(a[0].lower(), a[1].lower()),
    "matches": lambda a, _: re.search(a[1].replace("\\z", "\\Z"), a[0]) is not None,
    "regexp_like": lambda a, _: re.search(a[1], a[0], re.S) is not None,
    "regexp_count": lambda a, _: len(re.findall(a[1], a[0], re.S)),
    "regexp_instr": lambda a, _: found.start() + 1 if (found := re.search(a[1], a[0], re.S)) else 0,
    "regexp_substr": lambda a, _: found[0] if (found := re.search(a[1], a[0], re.S)) else None,
    "regexp_extract": lambda a, _: found[a[2]] if (found := re.search(a[1], a[0], re.S)) else "",
    "regexp_replace": lambda a, _: re.sub(a[1], a[2].replace("\\&", "\\g<0>"), a[0], count=1, flags=re.S),
    "regexp_replace_all": lambda a, _: re.sub(a[1], a[2].replace("\\&", "\\g<0>"), a[0], flags=re.S),
    "abs": lambda a, call: fit(abs(a[0]), call),
    "round": _round,
    "floor": lambda a, call: _cast([float(math.floor(a[0])) if math.isfinite(a[0]) else a[0]], call),
    "ceil": lambda a, call: _cast([float(math.ceil(a[0])) if math.isfinite(a[0]) else a[0]], call),
    "sqrt": lambda a, _: _float(lambda: math.sqrt(a[0])),
    "power": _power,
    "exp": lambda a, _: _near(_float(lambda: math.exp(a[0])), np.exp, a[0]),
    "ln": lambda a, _: None if a[0] <= 0 else _near(math.log(a[0]), np.log, a[0]),
    "log10": lambda a, _: None if a[0] <= 0 else _near(math.log10(a[0]), np.log10, a[0]),
    "trunc": _trunc,
    "sign": _sign,
    "lower": lambda a, _: a[0].lower(),
    "upper": lambda a, _: a[0].upper(),
    "length": lambda a, _: len(a[0]),
    "trim": lambda a, _: a[0].strip(a[1] if len(a) > 1 else " "),
    "substring": _substring,
    "add_us": lambda a, _: wrap(a[0] + a[1], "BIGINT"),
    "diff_us": lambda a, _: wrap(a[0] - a[1], "BIGINT"),
    "get_field": lambda a, _: a[0][a[1]],
    "sampled": lambda a, _: xxhash64(a[0], a[1]) % 1_000_000_000 < a[2],
}


def unpack(words: Words, rows: int) -> npt.NDArray[np.bool_]:
    """The boolean vector of a packed one."""
    return np.unpackbits(words.view(np.uint8), count=rows, bitorder="little").view(np.bool_)
