"""Random questions: well-typed expressions, windows of every form, and queries of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.choosing import Chooser
from tests.oracle.expressions import Col, Const, Ex, Op
from tests.oracle.questions import Aggregate, Edge, LastRows, Query, Table, TimeSpan, WindowSpec

EPOCH_US = 1_763_190_000_000_000
SECOND = 1_000_000
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
