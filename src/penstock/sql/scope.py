"""Names in reach: which sources a FROM brings, and what a column's name means among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from penstock.catalog.model import Table
from penstock.errors import PenstockError, error, suggest
from penstock.expr.windows import Window
from penstock.types import Type

# core: the rows of a window join that runs in the cycle, where its streams stood (planning.join.extraction).
# state: the answer of a LATCH query, as it is when a query reads it.
SourceKind = Literal["sensors", "ordinary", "system", "state", "query", "derived", "core"]
Origin = Literal["static", "stream", "time", "other"]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """`field` is the name inside the stream, where it has one."""

    name: str
    type: Type
    origin: Origin = "other"
    field: str | None = None


@dataclass(slots=True, eq=False)
class BoundSource:
    """One item of a FROM list. `needs_stream` turns true when anything asks for a reading of it."""

    alias: str
    kind: SourceKind
    columns: tuple[SourceColumn, ...]
    node: exp.Expr
    table: Table | None = None
    name: str = ""
    needs_stream: bool = False
    nullable: bool = False
    window: Window | None = None
    relation: str = ""

    def __deepcopy__(self, memo: object) -> BoundSource:
        # Bound columns carry their source in sqlglot's meta, which copies deeply; a source is one of a kind.
        return self

    @property
    def is_stream(self) -> bool:
        if self.kind == "sensors":
            return self.needs_stream
        return self.kind in ("query", "core")

    @property
    def stream_name(self) -> str | None:
        return self.table.stream.name if self.table is not None and self.table.stream is not None else None

    def find(self, path: list[str]) -> tuple[SourceColumn, list[str]] | None:
        """The column that a path inside this source names, and what is left of the path (fields of a STRUCT)."""
        if self.stream_name is not None and path[0] == self.stream_name and len(path) > 1:
            for column in self.columns:
                if column.origin == "stream" and column.field == path[1]:
                    return column, path[2:]
            return None
        for column in self.columns:
            if column.name == path[0]:
                return column, path[1:]
        for column in self.columns:
            if column.origin == "stream" and column.field == path[0]:
                return column, path[1:]
        return None


@dataclass(frozen=True, slots=True, eq=False)
class PaneEdges:
    """TUMBLE, SLIDE or SESSION of a SELECT: what stands for both edges of a row's window, and its measures in microseconds.

    `key` stands in GROUP BY. With `session_us` the window is a session, and width and step are those of the pieces that it consists of.
    Windows of LANDMARK have none of that: they begin at readings that satisfy a condition.
    """

    start: exp.Expr
    end: exp.Expr
    width_us: int
    step_us: int
    key: exp.Expr
    session_us: int = 0
    landmark: exp.Expr | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """The sources of one SELECT, inside those of the SELECT around it."""

    outer: Scope | None = None
    sources: list[BoundSource] = field(default_factory=list)
    # USING (x): the bare name means one of the two columns.
    merged: dict[str, BoundSource] = field(default_factory=dict)
    # Names of bound expressions: window_start of TUMBLE, and output names where HAVING or ORDER BY may use them.
    named: dict[str, exp.Expr] = field(default_factory=dict)
    panes: PaneEdges | None = None
    latch: exp.Expr | None = None  # LATCH, as it stood in GROUP BY
    # Bare names that mean the whole combination of a W-join, although each of its streams has such a column.
    combination: dict[str, exp.Expr] = field(default_factory=dict)

    def find(self, parts: list[str]) -> tuple[BoundSource, SourceColumn, list[str]] | None:
        """Resolve a name, here first and then further out. Raises ambiguous_column."""
        return next((found for scope in self._outwards() if (found := scope._find_here(parts)) is not None), None)

    def _outwards(self) -> Iterator[Scope]:
        yield self
        if self.outer is not None:
            yield from self.outer._outwards()

    def _find_here(self, parts: list[str]) -> tuple[BoundSource, SourceColumn, list[str]] | None:
        if len(parts) > 1:
            for source in self.sources:
                if source.alias == parts[0]:
                    inside = source.find(parts[1:])
                    if inside is not None:
                        return source, *inside
        if len(parts) == 1 and parts[0] in self.merged:
            source = self.merged[parts[0]]
            inside = source.find(parts)
            return (source, *inside) if inside is not None else None
        found = [(source, *inside) for source in self.sources if (inside := source.find(parts)) is not None]
        found = [f for f in found if not f[2] or f[1].type.kind == "STRUCT"]
        if len(found) > 1:
            names = [f"{source.alias}.{'.'.join(parts)}" for source, _, _ in found]
            raise error(
                "ambiguous_column", column=".".join(parts), candidates=" or ".join(names), hint=f"write {names[0]}"
            )
        return found[0] if found else None

    def missing(self, parts: list[str]) -> PenstockError:
        """The error for a name that means nothing here, with the nearest one that does."""
        sources = [source for scope in self._outwards() for source in scope.sources]
        for source in sources:
            if len(parts) > 1 and source.alias == parts[0]:
                return _column_missing(source, parts[1:])
        if len(parts) > 1:
            for source in sources:
                if source.stream_name == parts[0]:
                    return _column_missing(source, parts)
            known = [s.alias for s in sources] + [s.stream_name for s in sources if s.stream_name]
            return error("table_not_found", table=parts[0], hint=suggest(parts[0], known) or _in_from(sources))
        for source in sources:
            if source.stream_name == parts[0] and source.table is not None and source.table.stream is not None:
                fields = source.table.stream.fields
                example = f"{parts[0]}.{fields[0].name}" if fields else parts[0]
                hint = f'"{parts[0]}" is the stream itself; name one of its fields, such as {example}'
                return error("column_not_found", table=source.name or source.alias, column=parts[0], hint=hint)
        if len(sources) == 1:
            return _column_missing(sources[0], parts)
        names = [name for source in sources for name in _names(source)]
        if not sources:
            return PenstockError("column_not_found", f'there is no FROM that could have a column "{parts[0]}"')
        where = ", ".join(f'"{source.alias}"' for source in sources)
        return PenstockError(
            "column_not_found", f'none of {where} has a column "{parts[0]}"', hint=suggest(parts[0], names)
        )


def _column_missing(source: BoundSource, path: list[str]) -> PenstockError:
    return error(
        "column_not_found",
        table=source.name or source.alias,
        column=path[-1],
        hint=suggest(path[-1], _names(source)) or "it has " + ", ".join(_names(source)[:12]),
    )


def _names(source: BoundSource) -> list[str]:
    return [c.field or c.name for c in source.columns if not c.name.startswith("_")]


def _in_from(sources: list[BoundSource]) -> str | None:
    return "FROM has " + ", ".join(f'"{s.alias}"' for s in sources) if sources else None


def fold(identifier: Any) -> str:
    """An identifier's name: lower case unless it was quoted."""
    name = str(identifier.name)
    return name if isinstance(identifier, exp.Identifier) and identifier.args.get("quoted") else name.lower()
