"""Random worlds: tables, static rows and their changes, readings, queries, window changes and drops.

`script(chooser)` gives a list of commands; a command (`commands`) says what to do to the database (`sql`, or `readings`
to push) and does the same to the model (`apply`). Choices come from hypothesis (`scripts()`, which shrinks) or from a
seed (`seeded_script`, for soak and kill tests).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.oracle.choosing import Chooser, Drawn, Seeded
from tests.oracle.commands import (
    Advance,
    AlterWindow,
    Command,
    CreateQuery,
    CreateTable,
    Cycle,
    Delete,
    DropQuery,
    Insert,
    Push,
    Update,
)
from tests.oracle.making import CONSTANTS, EPOCH_US, make_query, make_window
from tests.oracle.questions import Query, Table


@dataclass
class _Maker:
    """Knows what lives, so that every command is one the database takes."""

    choose: Chooser
    aggregates: bool
    now_us: int = EPOCH_US
    tables: list[Table] = field(default_factory=list)
    keys: dict[str, list[int]] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    named: int = 0

    def table(self) -> Table:
        choose = self.choose
        number = len(self.tables)
        static = (("sensor_id", "INT"), ("place", "TEXT"), ("height", "DOUBLE"), ("active", "BOOLEAN"))
        fields = (("ppm", "DOUBLE"), ("code", "INT"), ("total", "BIGINT"), ("label", "TEXT"), ("alarm", "BOOLEAN"))
        table = Table(
            f"probes{number}",
            static[: choose.integer(1, 4)],
            fields[: choose.integer(1, 5)],
            choose.pick(["valid", "valid", "transaction"]),
            choose.pick(["refuse", "clamp", "accept"]),
        )
        self.tables.append(table)
        self.keys[table.name] = []
        return table

    def row(self, table: Table, key: int) -> tuple[Any, ...]:
        return (key, *(self._value(type_) for _, type_ in table.static[1:]))

    def _value(self, type_: str) -> Any:
        return None if self.choose.integer(0, 7) == 0 else self.choose.pick(CONSTANTS[type_])

    def insert(self, table: Table) -> Insert:
        free = [k for k in range(12) if k not in self.keys[table.name]]
        keys = free[: self.choose.integer(1, 3)]
        self.keys[table.name] += keys
        return Insert(table, [self.row(table, key) for key in keys])

    def push(self, table: Table) -> Push:
        readings = [self._reading(table) for _ in range(self.choose.integer(1, 12))]
        if self.choose.integer(0, 3) == 0:
            readings.append(dict(self.choose.pick(readings)))  # a sender that repeats itself
        return Push(table, readings)

    def _reading(self, table: Table) -> dict[str, Any]:
        choose = self.choose
        live = self.keys[table.name]
        key = choose.pick(live) if live and choose.integer(0, 19) else 99
        reading = {table.key: key, **{name: self._value(type_) for name, type_ in table.fields}}
        if table.time == "valid":
            # Mostly just behind the wall clock, sometimes far behind, now and then from the future.
            back = choose.pick([0, 0, 1, 250, 1000, 3000, 10_000, 30_000, -500, -120_000])
            reading["ts"] = self.now_us - 1000 * back
        return reading

    def query(self) -> CreateQuery:
        query = make_query(self.choose, self.choose.pick(self.tables), self.aggregates)
        name = f"q{self.named}"
        self.named += 1
        self.queries[name] = query
        return CreateQuery(name, query)

    def step(self) -> Command:
        choose = self.choose
        kind = choose.pick(
            ["push"] * 8
            + ["query"] * 3
            + ["advance"] * 3
            + ["cycle"] * 4
            + ["update", "insert", "delete", "alter", "alter", "drop"]
        )
        table = choose.pick(self.tables)
        keys = self.keys[table.name]
        if kind == "query":
            return self.query()
        if kind == "advance":
            us = 1000 * choose.pick([1, 100, 1000, 5000, 20_000, -500])
            self.now_us += us
            return Advance(us)
        if kind == "cycle":
            return Cycle()
        if kind == "insert" and len(keys) < 10:
            return self.insert(table)
        if kind == "update" and keys and len(table.static) > 1:
            name, type_ = choose.pick(table.static[1:])
            return Update(table, choose.pick(keys), {name: self._value(type_)})
        if kind == "delete" and len(keys) > 1:
            key = choose.pick(keys)
            keys.remove(key)
            return Delete(table, key)
        if kind == "alter" and self.queries:
            return AlterWindow(choose.pick(sorted(self.queries)), make_window(choose))
        if kind == "drop" and len(self.queries) > 1:
            name = choose.pick(sorted(self.queries))
            del self.queries[name]
            return DropQuery(name)
        return self.push(table)


def script(choose: Chooser, steps: int, aggregates: bool = False) -> list[Command]:
    """A whole story. It begins with one or two tables and their sensors, and ends with a cycle."""
    maker = _Maker(choose, aggregates)
    commands: list[Command] = []
    for _ in range(choose.integer(1, 2)):
        table = maker.table()
        commands += [CreateTable(table), maker.insert(table)]
    commands.append(maker.query())
    commands += [maker.step() for _ in range(steps)]
    return [*commands, Cycle()]


@st.composite
def scripts(draw: st.DrawFn, min_steps: int = 1, max_steps: int = 30, aggregates: bool = False) -> list[Command]:
    return script(Drawn(draw), draw(st.integers(min_steps, max_steps)), aggregates)


def seeded_script(seed: int, steps: int = 60, aggregates: bool = False) -> list[Command]:
    return script(Seeded(seed), steps, aggregates)
