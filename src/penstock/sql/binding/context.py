"""What binding a question collects on its way: its SELECTs, nested as they stand, and what they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.operators.join.kernels.bounds import Bounds
from penstock.sql.positions import point, span_of
from penstock.sql.scope import BoundSource, Scope
from penstock.sql.window_clauses import Windows
from penstock.types import Field

SystemTables = Mapping[str, tuple[Field, ...]]
# Common table expressions by name: the query, those that it can name itself, and new names of its columns.
Ctes = Mapping[str, tuple[exp.Query, "Ctes", list[str]]]
# Where a SELECT stands: alone, in FROM, in IN or EXISTS, or as a value.
Role = Literal["top", "derived", "in", "exists", "scalar"]


@dataclass(frozen=True, slots=True, eq=False)
class WindowGraph:
    """The windows between streams that one SELECT states. `bounds` numbers the streams as they stand here.

    In EXISTS the streams of the SELECT around it that a clause names come first. With BOTH WAYS `ways` are the bounds of either
    direction, which have no combination in common, and `bounds` those that hold for both.
    """

    streams: tuple[BoundSource, ...]
    bounds: Bounds
    ways: tuple[Bounds, ...] = ()


@dataclass(slots=True, eq=False)
class SelectContext:
    """One bound SELECT. Which of its sources are streams is known only when the whole question is bound."""

    select: exp.Select
    scope: Scope
    windows: Windows
    role: Role
    parent: SelectContext | None
    text: str
    ctes: Ctes
    start_us: int | None = None
    inlined: bool = False
    aggregated: bool = False
    graph: WindowGraph | None = None
    # What a hint asks for, as it was written.
    algorithm: exp.Expr | None = None
    in_from: list[SelectContext] = field(default_factory=list)
    samples: list[tuple[BoundSource, exp.TableSample]] = field(default_factory=list)

    @property
    def sources(self) -> list[BoundSource]:
        return self.scope.sources

    @property
    def own_streams(self) -> list[BoundSource]:
        return [source for source in self.sources if source.is_stream]

    def fail(self, node: exp.Expr | None, failure: PenstockError) -> NoReturn:
        """Raise an error with a caret at a part of the text."""
        raise point(failure, self.text, span_of(node) if node is not None else None) from None

    def reads_streams(self) -> bool:
        """Whether its FROM holds a stream, also inside a subquery there."""
        return bool(self.own_streams) or any(inner.reads_streams() for inner in self.in_from)


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where a question stands: its windows unless it says others, the SELECT around it, and what WITH has named."""

    windows: Windows
    role: Role
    outer: Scope | None = None
    parent: SelectContext | None = None
    ctes: Ctes = field(default_factory=dict)


@dataclass(slots=True)
class Collected:
    """Everything the SELECTs of one question share."""

    contexts: list[SelectContext] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    mines: bool = False
    queries: set[str] = field(default_factory=set)
    reading: tuple[str, ...] = ()
    names: int = 0


@dataclass(frozen=True, slots=True)
class BindingInput:
    """What a question is bound against, and where its binders collect what they find.

    `standing`: the question is, or is read by, a standing query.
    """

    state: CatalogState
    standing: bool
    system_tables: SystemTables
    collected: Collected


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A bound question: the tree with names and types resolved, and the columns it answers."""

    query: exp.Query
    fields: tuple[Field, ...]
    collected: Collected
