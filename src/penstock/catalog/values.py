"""Static values in their two forms: plain JSON in the journal, and Arrow for computing.

The journal's form is canonical, so that equal values are equal JSON: times are microseconds, decimals text with
their full scale, binaries lower-case hex, and the three floats that JSON has no number for are text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from penstock.types import Type

Form = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def journal_form(type_: Type) -> Form:
    """A function from a value of this type to its JSON. It raises ValueError where the value is of another type."""
    inside = _JOURNAL.get(type_.kind)
    convert = inside if inside is not None else _composed(type_)

    def or_null(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except (TypeError, ArithmeticError) as failure:
            raise ValueError(value) from failure

    return or_null


def _composed(type_: Type) -> Form:
    if type_.kind == "DECIMAL":
        return lambda value: _decimal(value, type_)
    if type_.kind == "ARRAY":
        assert type_.element is not None
        element = journal_form(type_.element)
        return lambda value: [element(v) for v in _of(value, list, tuple)]
    fields = {f.name: journal_form(f.type) for f in type_.fields}
    return lambda value: _struct(value, fields)


def _of(value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise ValueError(value)
    return value


def _integer(bits: int) -> Form:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or int(value) != value or not -(2**bits) <= value < 2**bits:
            raise ValueError(value)
        return int(value)

    return convert


def _double(value: Any) -> float | str:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _timestamp(value: Any) -> int:
    if isinstance(value, datetime):
        delta = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return int(_integer(63)(value))


def _decimal(value: Any, type_: Type) -> str:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise ValueError(value)
    rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if abs(rounded) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ValueError(value)
    return format(rounded if rounded else abs(rounded), "f")


def _binary(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else bytes.fromhex(_of(value, str)).hex()


def _struct(value: Any, fields: dict[str, Form]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        value = dict(zip(fields, _of(value, list, tuple), strict=True))
    if not fields.keys() >= value.keys():
        raise ValueError(value)
    return {name: convert(value.get(name)) for name, convert in fields.items()}


_JOURNAL: dict[str, Form] = {
    "INT": _integer(31),
    "BIGINT": _integer(63),
    "DOUBLE": _double,
    "BOOLEAN": lambda value: _of(value, bool),
    "TEXT": lambda value: _of(value, str),
    "TIMESTAMP": _timestamp,
    "BINARY": _binary,
}


def arrow_array(values: Iterable[Any], type_: Type) -> pa.Array:
    """An Arrow array of values in the journal's form."""
    convert = _from_journal(type_)
    return pa.array([v if v is None else convert(v) for v in values] if convert else list(values), type_.to_arrow())


def _from_journal(type_: Type) -> Form | None:
    """What Arrow wants in place of the journal's form; None where it takes it as it is."""
    if type_.kind == "ARRAY":
        assert type_.element is not None
        element = _from_journal(type_.element)
        return None if element is None else lambda value: [v if v is None else element(v) for v in value]
    if type_.kind == "STRUCT":
        fields = {f.name: convert for f in type_.fields if (convert := _from_journal(f.type)) is not None}
        if not fields:
            return None
        return lambda value: {n: fields[n](v) if n in fields and v is not None else v for n, v in value.items()}
    return _ARROW.get(type_.kind)


_ARROW: dict[str, Form] = {"DOUBLE": float, "DECIMAL": Decimal, "BINARY": bytes.fromhex}
