"""Tables, windows and queries as the oracle knows them, and their Penstock SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.oracle.expressions import Col, Const, Ex, conjuncts, constant_text, is_static, timestamp_text, write


@dataclass(frozen=True)
class Table:
    """A sensor table. The first static column is the key."""

    name: str
    static: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]
    time: Literal["valid", "transaction"] = "transaction"
    out_of_order: Literal["refuse", "clamp", "accept"] = "refuse"
    max_ahead_us: int = 60_000_000
    stream: str = "reading"

    @property
    def key(self) -> str:
        return self.static[0][0]

    def columns(self) -> list[Col]:
        return [
            *(Col(n, t, "static") for n, t in self.static),
            *(Col(n, t, "stream") for n, t in self.fields),
            Col("ts", "TIMESTAMP", "time"),
        ]

    def create_sql(self) -> str:
        static = [f"{n} {t}{' PRIMARY KEY' if n == self.key else ''}" for n, t in self.static]
        fields = ", ".join(f"{n} {t}" for n, t in self.fields)
        columns = ", ".join([*static, f"{self.stream} STREAM ({fields})"])
        seconds = self.max_ahead_us // 1_000_000
        options = f"time = '{self.time}', out_of_order = '{self.out_of_order}', max_ahead = '{seconds} SECONDS'"
        return f"CREATE TABLE {self.name} ({columns}) WITH ({options})"

    def insert_sql(self, rows: list[tuple[Any, ...]]) -> str:
        """The stream column's value is an address, which pushed data does not need."""
        texts = [
            "(" + ", ".join([*(self._text(v, t) for v, (_, t) in zip(r, self.static, strict=True)), "NULL"]) + ")"
            for r in rows
        ]
        return f"INSERT INTO {self.name} VALUES {', '.join(texts)}"

    def update_sql(self, key: Any, changes: dict[str, Any]) -> str:
        types = dict(self.static)
        changed = ", ".join(f"{n} = {self._text(v, types[n])}" for n, v in changes.items())
        return f"UPDATE {self.name} SET {changed} WHERE {self.key} = {self._text(key, types[self.key])}"

    def delete_sql(self, key: Any) -> str:
        return f"DELETE FROM {self.name} WHERE {self.key} = {self._text(key, dict(self.static)[self.key])}"

    @staticmethod
    def _text(value: Any, type_: str) -> str:
        return constant_text(Const(value, type_), "penstock")


@dataclass(frozen=True)
class Edge:
    """One end of a window: a time, or NOW or START moved by `us`."""

    anchor: Literal["now", "start", "constant"]
    us: int = 0

    def at(self, now_us: float, start_us: float) -> float:
        return self.us if self.anchor == "constant" else (now_us if self.anchor == "now" else start_us) + self.us

    def sql(self) -> str:
        if self.anchor == "constant":
            return f"(TIMESTAMP '{timestamp_text(self.us)}')"
        name = self.anchor.upper()
        if self.us == 0:
            return f"({name})"
        return f"({name} {'-' if self.us < 0 else '+'} {abs(self.us) // 1000} MS)"


@dataclass(frozen=True)
class TimeSpan:
    """begin <= ts <= end."""

    begin: Edge
    end: Edge = Edge("now")

    def sql(self) -> str:
        return f"BEGIN {self.begin.sql()} END {self.end.sql()}"


@dataclass(frozen=True)
class LastRows:
    """The newest rows by (ts, position) among those whose static values pass, of the stream or of each sensor."""

    count: int
    per_sensor: bool = False

    def sql(self) -> str:
        return f"BEGIN (LAST {self.count} ROWS{' PER SENSOR' if self.per_sensor else ''})"


WindowSpec = TimeSpan | LastRows
FROM_REGISTRATION = TimeSpan(Edge("start"))


@dataclass(frozen=True)
class Aggregate:
    """count, sum, min, max or avg of an expression; None for count(*)."""

    function: Literal["count", "sum", "min", "max", "avg"]
    of: Ex | None


@dataclass(frozen=True)
class Query:
    """SELECT outputs FROM table WHERE ... window; with aggregates, the outputs are what it groups by."""

    table: Table
    outputs: tuple[Ex, ...]
    where: Ex | None = None
    window: WindowSpec | None = None
    aggregates: tuple[Aggregate, ...] = ()
    style: Literal["full", "alias", "bare"] = "full"

    @property
    def static_factors(self) -> list[Ex]:
        return [f for f in conjuncts(self.where) if is_static(f)]

    @property
    def stream_factors(self) -> list[Ex]:
        return [f for f in conjuncts(self.where) if not is_static(f)]

    def with_window(self, window: WindowSpec) -> Query:
        return replace(self, window=window)

    def select_sql(self) -> str:
        """The text without CREATE QUERY."""
        texts = [write(o, self._name, "penstock") for o in self.outputs]
        aggregates = [
            f"{a.function}({'*' if a.of is None else write(a.of, self._name, 'penstock')})" for a in self.aggregates
        ]
        named = ", ".join(f"{text} AS c{i}" for i, text in enumerate([*texts, *aggregates]))
        parts = [f"SELECT {named} FROM {self.table.name}{'' if self.style == 'bare' else ' s'}"]
        if self.where is not None:
            parts.append(f"WHERE {write(self.where, self._name, 'penstock')}")
        if self.aggregates and texts:
            parts.append(f"GROUP BY {', '.join(texts)}")
        if self.window is not None:
            parts.append(self.window.sql())
        return " ".join(parts)

    def _name(self, column: Col) -> str:
        if self.style == "bare":
            return column.name
        if self.style == "full" and column.origin == "stream":
            return f"s.{self.table.stream}.{column.name}"
        return f"s.{column.name}"
