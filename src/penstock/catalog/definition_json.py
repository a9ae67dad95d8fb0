"""Definitions and static values to JSON and back, for the journal.

Definitions are the fields of a record by name, in the order of its class. The form of values is canonical, so that equal values are
equal JSON: times are microseconds, decimals text with their full scale, binaries lower-case hex, and the three floats that JSON has
no number for are text. For computing they become Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, fields, is_dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache, lru_cache
from typing import Any

import orjson
import pyarrow as pa

from penstock.catalog.model import (
    Deduplicate,
    Entry,
    Function,
    QueryDefinition,
    Sink,
    StreamColumn,
    StreamType,
    Table,
    TableOptions,
    plan_text,
)
from penstock.errors import check_known
from penstock.types import Field, Type, parse_type


def to_json(record: Any) -> dict[str, Any]:
    """A definition as JSON. Records in a tuple are lists of their values, types are spelled as in SQL."""
    return {name: _plain(getattr(record, name)) for name in _fields_of(record.__class__)}


@cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _members_of(kind: type) -> frozenset[str]:
    """The names that a definition may have in the journal."""
    return frozenset("plan" if name == "stored_plan" else name for name in _fields_of(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, Type):
        return str(value)
    if isinstance(value, Deduplicate):
        return [list(value.fields), value.within_us]
    if isinstance(value, tuple | list):
        return [_listed(each) for each in value]
    return to_json(value) if is_dataclass(value) else value


def _listed(value: Any) -> Any:
    if isinstance(value, Field):
        return [value.name, str(value.type), *(["NOT NULL"] if value.required else [])]
    return list(astuple(value)) if is_dataclass(value) and not isinstance(value, type) else value


def known_of(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    """What the data says of the fields of a record: entries of older versions do not have them all.

    A field of a newer version would change what is defined, so the folder is refused.
    """
    check_known(data, _members_of(kind), f'the definition "{data.get("name", kind.__name__)}"')
    return {name: data[name] for name in _fields_of(kind) if name in data}


def fields_from_json(data: list[list[str]]) -> tuple[Field, ...]:
    return tuple(Field(name, parse_type(type_), "NOT NULL" in more) for name, type_, *more in data)


def stream_type_from_json(data: dict[str, Any]) -> StreamType:
    return StreamType(**{**known_of(StreamType, data), "fields": fields_from_json(data["fields"])})


def table_from_json(data: dict[str, Any]) -> Table:
    known_of(Table, data)
    stream, options = data["stream"], known_of(TableOptions, data["options"])
    if stream is not None:
        stream = StreamColumn(**{**known_of(StreamColumn, stream), "fields": fields_from_json(stream["fields"])})
    if options["deduplicate"] is not None:
        names, within_us = options["deduplicate"]
        options["deduplicate"] = Deduplicate(tuple(names), within_us)
    columns = fields_from_json(data["columns"])
    return Table(data["id"], data["name"], columns, tuple(data["key"]), stream, TableOptions(**options))


def function_from_json(data: dict[str, Any]) -> Function:
    types = {"parameters": fields_from_json(data["parameters"]), "returns": parse_type(data["returns"])}
    state = data.get("state")
    return Function(**{**known_of(Function, data), **types, "state": None if state is None else parse_type(state)})


def sink_from_json(data: dict[str, Any]) -> Sink:
    return Sink(**known_of(Sink, data))


def query_entry(query: QueryDefinition) -> dict[str, Any]:
    """The entry for a caller that writes it as text at once. The plan is text already."""
    entry = {name: getattr(query, name) for name in _fields_of(QueryDefinition)}
    entry["plan"] = orjson.Fragment(entry.pop("stored_plan").text)
    del entry["branch_of"]
    for sparse in ("sleeping", "branches"):
        if not entry[sparse]:
            del entry[sparse]
    if query.bounded is None:
        del entry["bounded"]
    if query.priority == "normal":
        del entry["priority"]
    return entry


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One for all that are equal: thousands of queries read the same tables."""
    return names


def query_from_json(data: dict[str, Any]) -> QueryDefinition:
    reads = {name: _names(tuple(data[name])) for name in ("reads_tables", "reads_queries", "reads_functions")}
    reads["branches"] = tuple(data.get("branches", ()))
    return QueryDefinition(**{**known_of(QueryDefinition, data), **reads, "stored_plan": plan_text(data["plan"])})


def changed_by_run_plan(entry: Entry) -> dict[int, bool]:
    """The queries that sleep or are awake from a run plan on: whether they sleep."""
    return dict.fromkeys(entry.body["awake"], False) | dict.fromkeys(entry.body["sleeping"], True)


def quarantined_by(entry: Entry) -> dict[int, str]:
    """The queries that an entry takes out of the cycles, with the reason for each."""
    return {int(query_id): reason for query_id, reason in entry.body["queries"].items()}


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
