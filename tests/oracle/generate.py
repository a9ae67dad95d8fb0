"""Random worlds: tables, static rows and their changes, readings, queries, window changes and drops.

`script(chooser)` gives a list of commands; a command says what to do to the database (`sql`, or `readings` to push)
and does the same to the model (`apply`). Choices come from hypothesis (`scripts()`, which shrinks) or from a seed
(`seeded_script`, for soak and kill tests).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from tests.oracle.expressions import Col, Const, Ex, Op
from tests.oracle.model import Pushed, World
from tests.oracle.questions import Aggregate, Edge, LastRows, Query, Table, TimeSpan, WindowSpec

T = TypeVar("T")
EPOCH_US = 1_763_190_000_000_000
SECOND = 1_000_000


class Chooser(Protocol):
    """Where randomness comes from."""

    def integer(self, low: int, high: int) -> int: ...
    def pick(self, options: Sequence[T]) -> T: ...


class Seeded:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


class Drawn:
    """Choices that hypothesis makes, so that a failure shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))


# -- commands: `sql` is what to execute, where there is something to execute


@dataclass(frozen=True)
class CreateTable:
    table: Table

    @property
    def sql(self) -> str:
        return self.table.create_sql()

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.create_table(self.table, pos)


@dataclass(frozen=True)
class Insert:
    table: Table
    rows: list[tuple[Any, ...]]

    @property
    def sql(self) -> str:
        return self.table.insert_sql(self.rows)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.insert(self.table.name, self.rows, pos)


@dataclass(frozen=True)
class Update:
    table: Table
    key: Any
    changes: dict[str, Any]

    @property
    def sql(self) -> str:
        return self.table.update_sql(self.key, self.changes)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.update(self.table.name, self.key, self.changes, pos)


@dataclass(frozen=True)
class Delete:
    table: Table
    key: Any

    @property
    def sql(self) -> str:
        return self.table.delete_sql(self.key)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.delete(self.table.name, self.key, pos)


@dataclass(frozen=True)
class Push:
    """Readings as JSON would carry them; `ts` in microseconds."""

    table: Table
    readings: list[dict[str, Any]]

    def apply(self, world: World, now_us: int, pos: int | None = None) -> Pushed:
        return world.push(self.table.name, self.readings, now_us)


@dataclass(frozen=True)
class CreateQuery:
    name: str
    query: Query

    @property
    def sql(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.query.select_sql()}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.create_query(self.name, self.query, now_us, pos)


@dataclass(frozen=True)
class AlterWindow:
    name: str
    window: WindowSpec

    @property
    def sql(self) -> str:
        return f"ALTER QUERY {self.name} SET {self.window.sql()}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.alter_window(self.name, self.window, pos)


@dataclass(frozen=True)
class DropQuery:
    name: str

    @property
    def sql(self) -> str:
        return f"DROP QUERY {self.name}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.drop_query(self.name, pos)


@dataclass(frozen=True)
class Advance:
    """The wall clock moves, perhaps back."""

    us: int


@dataclass(frozen=True)
class Cycle:
    """A cycle may end here, and answers are compared if it does."""


Command = CreateTable | Insert | Update | Delete | Push | CreateQuery | AlterWindow | DropQuery | Advance | Cycle


# -- expressions

CONSTANTS: dict[str, Sequence[Any]] = {
    "INT": (0, 1, 2, 3, 7, -1, -7, 2**31 - 1),
    "BIGINT": (0, 1, 5, -3, 2**40),
    "DOUBLE": (0.0, 0.5, 1.5, 35.0, -2.25, 1e6),
    "BOOLEAN": (True, False),
    "TEXT": ("north", "south", "", "a%b", "it's", "Ärger", "n_"),
    "TIMESTAMP": tuple(EPOCH_US + s * SECOND for s in (0, 3, 10)),
}
PATTERNS = ("n%", "%th", "%o%", "_orth", "a\\%b", "%", "")
NUMBERS = ("INT", "BIGINT", "DOUBLE")


class ExpressionMaker:
    """Well-typed expressions over a table's columns. Every call has a column below it, so that no dialect folds
    constants its own way."""

    def __init__(self, choose: Chooser, table: Table) -> None:
        self._choose = choose
        self._columns = table.columns()

    def predicate(self, depth: int = 2) -> Ex:
        kind = self._choose.pick(
            ["compare"] * 5 + ["static"] * 3 + ["and", "and", "or", "not", "null", "like", "in", "between"]
        )
        if depth > 0 and kind in ("and", "or"):
            parts = tuple(self.predicate(depth - 1) for _ in range(self._choose.integer(2, 3)))
            return Op(kind, parts, "BOOLEAN")
        if depth > 0 and kind == "not":
            return Op("not", (self.predicate(depth - 1),), "BOOLEAN")
        if kind == "like":
            texts = [c for c in self._columns if c.type == "TEXT"]
            if texts:
                name = self._choose.pick(["like", "not_like", "ilike"])
                return Op(name, (self._choose.pick(texts), Const(self._choose.pick(PATTERNS), "TEXT")), "BOOLEAN")
        column = self._choose.pick([c for c in self._columns if kind != "static" or c.origin == "static"])
        if kind == "null":
            return Op(self._choose.pick(["is_null", "is_not_null"]), (column,), "BOOLEAN")
        if kind == "in":
            options = tuple(self._constant(column.type) for _ in range(self._choose.integer(1, 3)))
            return Op(self._choose.pick(["in", "not_in"]), (column, *options), "BOOLEAN")
        if kind == "between":
            return Op("between", (column, self._constant(column.type), self._constant(column.type)), "BOOLEAN")
        side = column if kind == "static" else self.of_type(column.type, 1)
        name = self._choose.pick(["eq", "ne", "lt", "le", "gt", "ge"])
        if self._choose.integer(0, 4) == 0:
            return Op(name, (side, self.of_type(column.type, 0)), "BOOLEAN")
        return Op(name, (side, self._constant(column.type)), "BOOLEAN")

    def of_type(self, type_: str, depth: int) -> Ex:
        """A column of the type, or a call on one."""
        own = [c for c in self._columns if c.type == type_]
        if not own:
            return self._from_other(type_)
        column = self._choose.pick(own)
        if depth == 0 or self._choose.integer(0, 1):
            return column
        other = self.of_type(type_, depth - 1) if self._choose.integer(0, 1) else self._constant(type_)
        general = [
            Op("coalesce", (column, other), type_),
            Op("nullif", (column, other), type_),
            Op("case", (self.predicate(0), column, other), type_),
            Op("greatest", (column, other), type_),
            Op("least", (column, other), type_),
        ]
        if type_ in NUMBERS:
            general += [Op(name, (column, other), type_) for name in ("add", "sub", "mul", "div", "mod")]
            general += [Op(name, (column,), type_) for name in ("neg", "abs")]
        if type_ == "TEXT":
            general += [
                Op("lower", (column,), type_),
                Op("upper", (column,), type_),
                Op("concat", (column, other), type_),
            ]
            start, length = self._choose.integer(1, 4), self._choose.integer(0, 3)
            general += [Op("substring", (column, Const(start, "INT"), Const(length, "INT")), type_)]
        return self._choose.pick(general)

    def _from_other(self, type_: str) -> Ex:
        for source in self._columns:
            if type_ == "DOUBLE" and source.type in ("INT", "BIGINT"):
                return Op("to_double", (source,), "DOUBLE")
            if type_ == "INT" and source.type == "TEXT":
                return Op("length", (source,), "INT")
        return self._constant(type_)

    def _constant(self, type_: str) -> Const:
        return Const(self._choose.pick(CONSTANTS[type_]), type_)


def make_window(choose: Chooser) -> WindowSpec:
    """Every form of the table in language.md."""
    kind = choose.pick(
        ["sliding", "sliding", "delayed", "landmark", "start", "snapshot", "until", "rows", "rows", "per sensor"]
    )
    far, near = 1000 * choose.integer(1, 20_000), 1000 * choose.integer(0, 5_000)
    moment = EPOCH_US + SECOND * choose.integer(-5, 30)
    match kind:
        case "sliding":
            return TimeSpan(Edge("now", -far))
        case "delayed":
            return TimeSpan(Edge("now", -far - near), Edge("now", -near))
        case "landmark":
            return TimeSpan(Edge("constant", moment))
        case "start":
            return TimeSpan(Edge("start", -near))
        case "snapshot":
            return TimeSpan(Edge("constant", moment), Edge("constant", moment + far))
        case "until":
            return TimeSpan(Edge("start"), Edge("constant", EPOCH_US + 3600 * SECOND))
        case "rows":
            return LastRows(choose.integer(1, 12))
    return LastRows(choose.integer(1, 4), per_sensor=True)


def make_query(choose: Chooser, table: Table, aggregates: bool = False) -> Query:
    make = ExpressionMaker(choose, table)
    types = [c.type for c in table.columns()]
    where = make.predicate() if choose.integer(0, 9) else None
    window = make_window(choose) if choose.integer(0, 5) else None
    style = choose.pick(["full", "alias", "bare"])
    if aggregates and choose.integer(0, 2) == 0:
        keys = tuple(
            choose.pick([c for c in table.columns() if c.type != "DOUBLE"]) for _ in range(choose.integer(0, 1))
        )
        return Query(table, keys, where, window, _make_aggregates(choose, table), style)
    outputs = tuple(make.of_type(choose.pick(types), 2) for _ in range(choose.integer(1, 3)))
    return Query(table, (Col(table.key, "INT", "static"), *outputs), where, window, (), style)


def _make_aggregates(choose: Chooser, table: Table) -> tuple[Aggregate, ...]:
    numbers = [c for c in table.columns() if c.type in NUMBERS]
    some = [Aggregate(choose.pick(["sum", "min", "max", "avg", "count"]), choose.pick(numbers)) for _ in range(2)]
    return (Aggregate("count", None), *some)


# -- worlds


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
