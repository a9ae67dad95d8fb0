"""What statements are made of: options, columns, assignments and clauses, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql.positions import Span
from penstock.types import Field, Type

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class StatementOption:
    """`name = value` of WITH or `name 'value'` of OPTIONS."""

    name: str
    value: str
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column: a static one has a type; the dynamic one names a stream type or lists its fields."""

    name: str
    type: Type | None = None
    primary_key: bool = False
    not_null: bool = False
    stream_type: str | None = None
    stream_fields: tuple[Field, ...] | None = None
    at: Span = field(repr=False, compare=False, default=NOWHERE)
    type_at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class DeduplicateClause:
    fields: tuple[str, ...]
    within_us: int
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: exp.Expr
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A past moment: a committed cycle, a time, or so many microseconds (0 or less) from NOW."""

    cycle: int | None = None
    time_us: int | None = None
    offset_us: int | None = None
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class TierClause:
    """`EVERY 1 MINUTE KEEP 30 DAYS`; None: for ever."""

    every_us: int
    keep_us: int | None = None
    every_at: Span = field(repr=False, compare=False, default=NOWHERE)
    keep_at: Span = field(repr=False, compare=False, default=NOWHERE)
