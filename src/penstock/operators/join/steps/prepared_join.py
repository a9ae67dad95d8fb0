"""A prepared join: the columns that each stream's rows need, and the name under which their buffers are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import orjson

from penstock.catalog.model import TIME_COLUMN, Function
from penstock.expr.expression import Call, Expr, UserCall, calls_user, columns_of, to_json, walk, with_columns
from penstock.operators.join.kernels.bounds import Bounds, stated
from penstock.operators.join.kernels.keys import is_exact
from penstock.operators.join.kernels.probe import Link
from penstock.operators.join.kernels.step import Join
from penstock.operators.join.papers.registry import covers
from penstock.sql.plan import JoinPlan, JoinTable, Output
from penstock.sql.planning.join.keys import PartialKey, partial_keys
from penstock.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class BufferedStream:
    """The buffered content of one input: its rows, keys and columns. Equal inputs share buffers.

    `linked` are keys that only some of the inputs share; each is a column of numbers, `link_column`.
    """

    table_id: int
    static_predicate: Expr | None
    stream_predicate: Expr | None
    keys: tuple[Expr, ...]
    columns: tuple[str, ...]
    linked: tuple[tuple[Expr, ...], ...] = ()

    @property
    def looked_up(self) -> tuple[Expr, ...]:
        """Everything that rows are looked up by."""
        return (*self.keys, *(part for key in self.linked for part in key))

    @property
    def reads(self) -> set[str]:
        """The columns to read from the log."""
        wanted = set(self.columns)
        for expr in (self.stream_predicate, *self.looked_up):
            wanted |= columns_of(expr) if expr is not None else set()
        return wanted

    def signature(self, functions: Mapping[str, Function]) -> str:
        """A name that no other meaning has."""
        called = {
            node.function
            for e in (self.stream_predicate, *self.looked_up)
            if e is not None
            for node in walk(e)
            if isinstance(node, UserCall)
        }
        parts = [
            self.table_id,
            [repr(functions[name]) for name in sorted(called)],
            *(to_json(e) if e is not None else None for e in (self.static_predicate, self.stream_predicate)),
            [to_json(k) for k in self.keys],
            list(self.columns),
            [[to_json(part) for part in key] for key in self.linked],
        ]
        return blake2b(orjson.dumps(parts), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class OrdinaryTable(JoinTable):
    """One ordinary table of a join, with the columns that are needed of it."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedJoin:
    """A join plan as a step runs it."""

    plan: JoinPlan
    join: Join
    streams: tuple[BufferedStream, ...]
    computed: tuple[Output, ...]  # outputs that call a user's function: computed here, never in the server
    stated: Bounds
    tables: tuple[OrdinaryTable, ...] = ()

    @property
    def keyed(self) -> bool:
        return bool(self.streams[0].keys)

    @property
    def is_rich(self) -> bool:
        """Whether results are more than positions and times."""
        return bool(self.tables or self.computed)

    @property
    def uniform(self) -> bool:
        """Whether the forward algorithms can do it without testing windows again."""
        return covers(self.stated)

    def reach(self) -> int:
        return max(max(row) for row in self.join.bounds)


def prepare(plan: JoinPlan) -> PreparedJoin:
    aliases = tuple(i.alias for i in plan.inputs)
    scanned = plan.algorithm == "scan"  # the hint says to leave keys alone
    partial = partial_keys(plan)
    implied = {c for key in partial if _is_exact(key) for c in key.implied}
    conditions = [*(c for c in plan.conditions if c not in implied), *_key_conditions(plan, scanned)]
    computed = tuple(o for o in plan.outputs if calls_user(o.expr))
    at_tables = [e for t in plan.tables for e in (*(value for value, _ in t.keys), *_table_conditions(t))]
    named = {c for e in (*conditions, *(o.expr for o in computed), *at_tables) for c in columns_of(e)}
    streams = []
    for place, given in enumerate(plan.inputs):
        columns = tuple(sorted(_own_names(named, given.alias) - {TIME_COLUMN}))
        streams.append(
            BufferedStream(
                given.table_id,
                given.static_predicate,
                given.stream_predicate,
                () if scanned else given.keys,
                columns,
                tuple(key.by_input[place] for key in partial if key.by_input[place]),
            )
        )
    bounds = tuple(tuple(_bound(b) for b in row) for row in plan.bounds)
    join = Join(aliases, bounds, tuple(conditions), _links(partial, len(aliases)))
    tables = []
    for each in plan.tables:
        known = (each.alias, each.table_id, each.predicate, each.keys, _table_conditions(each), each.use)
        tables.append(OrdinaryTable(*known, tuple(sorted(_own_names(named, each.alias)))))
    return PreparedJoin(plan, join, tuple(streams), computed, stated(plan.bounds), tuple(tables))


def _own_names(named: set[str], alias: str) -> set[str]:
    return {name.partition(".")[2] for name in named if name.partition(".")[0] == alias}


def _table_conditions(table: JoinTable) -> tuple[Expr, ...]:
    if not table.keys or is_exact([own.type.to_arrow() for _, own in table.keys]):
        return table.conditions
    equal = (Call("eq", (value, qualified(own, table.alias)), BOOLEAN) for value, own in table.keys)
    return (*equal, *table.conditions)


def link_column(number: int) -> str:
    """Where a stream's rows carry the key of its n-th link."""
    return f"#link{number}"


def _links(partial: Sequence[PartialKey], inputs: int) -> tuple[Link, ...]:
    """Each partial key by the columns that streams give it, every stream counting its own."""
    seen = [0] * inputs
    links = []
    for key in partial:
        columns: list[str | None] = [None] * inputs
        for place in range(inputs):
            if key.by_input[place]:
                columns[place] = link_column(seen[place])
                seen[place] += 1
        links.append(Link(tuple(columns)))
    return tuple(links)


def _is_exact(key: PartialKey) -> bool:
    return all(is_exact([part.type.to_arrow() for part in parts]) for parts in key.by_input if parts)


def _bound(value: int | None) -> int:
    assert value is not None, "streams that no window connects are not joined here"
    return value


def _key_conditions(plan: JoinPlan, always: bool) -> list[Expr]:
    """Keys are looked up by a number; where two keys can share one, they are compared as well."""
    first = plan.inputs[0]
    if not first.keys or (not always and is_exact([k.type.to_arrow() for k in first.keys])):
        return []
    return [
        Call("eq", (qualified(a, first.alias), qualified(b, other.alias)), BOOLEAN)
        for other in plan.inputs[1:]
        for a, b in zip(first.keys, other.keys, strict=True)
    ]


def qualified(expr: Expr, alias: str) -> Expr:
    """An expression of one stream or table as conditions write it."""
    return with_columns(expr, lambda column: replace(column, name=f"{alias}.{column.name}"))
