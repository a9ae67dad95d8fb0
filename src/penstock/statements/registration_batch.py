"""Queries of one call that read each other: each is planned as if those before it stood already."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from penstock.catalog.model import NewQuery, QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error
from penstock.sql import statements as st
from penstock.sql.scope import fold


def named_in(select: st.Select) -> set[str]:
    """Every name that stands where a table or a query may stand."""
    return {fold(t.this) for t in select.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier)}


class RegistrationBatch:
    """The queries that a call has planned so far, and the errors of those that it refused."""

    def __init__(self, state: CatalogState) -> None:
        self.made: dict[str, NewQuery] = {}
        self.coming: tuple[QueryDefinition, ...] = ()  # those of them that others read
        self._state = state
        self._refused: dict[str, tuple[str, str]] = {}  # by name: which query is the cause, and what it fails with
        self._missing: list[tuple[PenstockError, set[str]]] = []

    def state_for(self, reads: Collection[str]) -> CatalogState:
        """The catalog that a query is planned with; the queries of this call that it reads are there."""
        new = [self.made[name] for name in reads if name in self.made and name not in self._state.queries]
        if new:
            # The catalog numbers them when they are all planned; until then they have numbers that no query has.
            numbered = tuple(query.numbered(-1 - len(self.coming) - i) for i, query in enumerate(new))
            self.coming += numbered
            self._state = self._state.expecting(numbered)
        return self._state

    def refuse(self, name: str, reads: set[str], failure: PenstockError) -> None:
        """Record a refused query. Its error names the refused query that caused it; queries that read it will name it, too."""
        cause, why = name, str(failure)
        for read in sorted(reads & self._refused.keys()):
            if _is_about(failure, read):
                cause, why = self._refused[read]
                through = "" if cause == read else f' because of query "{cause}"'
                failure.hint = f'query "{read}" was refused{through}: {why}'
        self._refused[name] = cause, why
        self._missing.append((failure, reads))

    def explain_order(self) -> None:
        """Add a hint to errors of queries that read a later one: a query can read only queries before it."""
        for failure, reads in self._missing:
            for read in sorted(reads & self.made.keys()):
                if _is_about(failure, read):
                    failure.hint = f'query "{read}" comes later; put it before those that read it'


def _is_about(failure: PenstockError, name: str) -> bool:
    return failure.condition == "table_not_found" and str(failure) == str(error("table_not_found", table=name))
