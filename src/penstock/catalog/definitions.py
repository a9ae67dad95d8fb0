"""What is defined at a journal position: plain dicts by name and number."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from penstock.catalog.model import Function, QueryDefinition, Sink, StreamType, Table
from penstock.catalog.rollup_records import RollupDefinition


@dataclass(slots=True)
class CatalogDefinitions:
    """What is defined. Readers hold on to it, so a change makes a copy and puts that in its place."""

    tables: dict[str, Table] = field(default_factory=dict)
    tables_by_id: dict[int, Table] = field(default_factory=dict)
    stream_types: dict[str, StreamType] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    queries: dict[str, QueryDefinition] = field(default_factory=dict)
    queries_by_id: dict[int, QueryDefinition] = field(default_factory=dict)
    query_positions: dict[int, tuple[int, int]] = field(default_factory=dict)
    rollups: dict[str, RollupDefinition] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)

    def copy(self) -> CatalogDefinitions:
        return CatalogDefinitions(*(dict(getattr(self, f.name)) for f in fields(self)))


class DefinitionLookup:
    """Look-ups of definitions. A dict that one of them gives is never changed again."""

    def __init__(self) -> None:
        self._definitions = CatalogDefinitions()

    @property
    def tables(self) -> dict[str, Table]:
        return self._definitions.tables

    @property
    def tables_by_id(self) -> dict[int, Table]:
        return self._definitions.tables_by_id

    @property
    def stream_types(self) -> dict[str, StreamType]:
        return self._definitions.stream_types

    @property
    def functions(self) -> dict[str, Function]:
        return self._definitions.functions

    @property
    def queries(self) -> dict[str, QueryDefinition]:
        return self._definitions.queries

    @property
    def queries_by_id(self) -> dict[int, QueryDefinition]:
        return self._definitions.queries_by_id

    @property
    def query_positions(self) -> dict[int, tuple[int, int]]:
        """By query id: the entries that registered it and that last changed it."""
        return self._definitions.query_positions

    @property
    def rollups(self) -> dict[str, RollupDefinition]:
        return self._definitions.rollups

    @property
    def sinks(self) -> dict[str, Sink]:
        return self._definitions.sinks
