"""The catalog at a journal position: a pure fold over entries.

The server, Spark's planner and Spark's workers each fold the same entries and so hold the same definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.catalog.encoding import (
    function_from_json,
    query_from_json,
    stream_type_from_json,
    table_from_json,
)
from penstock.catalog.journal import Entry, JournalReader
from penstock.catalog.model import Function, QueryDefinition, StreamType, Table
from penstock.catalog.rows import StaticRows
from penstock.errors import error

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Observations = dict[int, list[tuple[int, int | None]]]


class CatalogState:
    """Everything that is defined, as of `position`."""

    def __init__(self) -> None:
        self.position = 0
        self.tables: dict[str, Table] = {}
        self.tables_by_id: dict[int, Table] = {}
        self.stream_types: dict[str, StreamType] = {}
        self.functions: dict[str, Function] = {}
        self.queries: dict[str, QueryDefinition] = {}
        self.queries_by_id: dict[int, QueryDefinition] = {}
        self.query_positions: dict[int, tuple[int, int]] = {}  # registered at, last changed at
        self.next_table_id = 1
        self.next_query_id = 1
        self._rows: dict[int, StaticRows] = {}
        self._observed: dict[int, Observations] = {}
        self._retained: dict[int, int] = {}
        self._heads: dict[int, tuple[list[int], list[int]]] = {}  # per table: heads, journal positions

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        change = _CHANGES.get(entry.kind)
        if change is None:
            raise error(
                "corrupt_journal",
                position=entry.pos,
                detail=f'it is of a kind this version does not know ("{entry.kind}")',
                hint="the data folder was written by a newer Penstock",
            )
        assert entry.pos == self.position + 1, (entry.pos, self.position)
        change(self, entry)
        self.position = entry.pos
        for table_id in self.tables_by_id:
            heads, positions = self._heads.setdefault(table_id, ([], []))
            heads.append(entry.heads.get(table_id, 0))
            positions.append(entry.pos)

    # -- looking up

    def rows(self, table_id: int) -> StaticRows:
        return self._rows[table_id]

    def retention(self, table_id: int) -> int:
        """The log position below which rows are gone."""
        return self._retained.get(table_id, 0)

    def observations(self, table_id: int) -> Observations:
        """Per sid: (opened at, closed at or None). Sensors of pushed tables are observed from their INSERT on."""
        return self._observed.get(table_id, {})

    def journal_positions(self, table_id: int) -> tuple[Int64s, Int64s]:
        """Heads and journal positions of all entries since the table came, both ascending."""
        heads, positions = self._heads.get(table_id, ([], []))
        return np.asarray(heads, np.int64), np.asarray(positions, np.int64)

    def dependents(self, kind: str, name: str) -> list[str]:
        """What could not live without this, named as an error shows it."""
        return [f'{k} "{n}"' for k, n in self.dependent_names(kind, name)]

    def dependent_names(self, kind: str, name: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if kind == "stream_type":
            found = [("table", t.name) for t in self.tables.values() if t.stream and t.stream.stream_type == name]
        reads: dict[str, Callable[[QueryDefinition], tuple[str, ...]]] = {
            "table": lambda q: q.reads_tables,
            "query": lambda q: q.reads_queries,
            "function": lambda q: q.reads_functions,
        }
        if kind in reads:
            found += [("query", q.name) for q in self.queries.values() if name in reads[kind](q)]
        return found

    # -- changes, one per kind of entry

    def _create_stream_type(self, entry: Entry) -> None:
        found = stream_type_from_json(entry.body)
        self.stream_types[found.name] = found

    def _put_table(self, entry: Entry) -> None:
        table = table_from_json(entry.body)
        self.tables[table.name] = self.tables_by_id[table.id] = table
        self.next_table_id = max(self.next_table_id, table.id + 1)
        if table.id in self._rows:
            self._rows[table.id].retable(table)
        else:
            self._rows[table.id] = StaticRows(table)

    def _insert_rows(self, entry: Entry) -> None:
        table_id = entry.body["table"]
        vids = self._rows[table_id].insert(entry.body["rows"], entry.pos)
        stream = self.tables_by_id[table_id].stream
        if stream is not None and stream.connector is None:
            observed = self._observed.setdefault(table_id, {})
            sids = self._rows[table_id].sids
            for vid in vids:
                observed.setdefault(int(sids[vid]), []).append((entry.at_us, None))

    def _update_rows(self, entry: Entry) -> None:
        self._rows[entry.body["table"]].update(entry.body["rows"], entry.pos)

    def _delete_rows(self, entry: Entry) -> None:
        self._rows[entry.body["table"]].delete(entry.body["sids"], entry.pos)
        for sid in entry.body["sids"]:
            self._close(entry.body["table"], sid, entry.at_us)

    def _create_function(self, entry: Entry) -> None:
        found = function_from_json(entry.body)
        self.functions[found.name] = found

    def _create_query(self, entry: Entry) -> None:
        found = query_from_json(entry.body)
        self.queries[found.name] = self.queries_by_id[found.id] = found
        self.next_query_id = max(self.next_query_id, found.id + 1)
        self.query_positions[found.id] = (entry.pos, entry.pos)

    def _change_query(self, entry: Entry) -> None:
        found = query_from_json(entry.body)
        self.queries[found.name] = self.queries_by_id[found.id] = found
        self.query_positions[found.id] = (self.query_positions[found.id][0], entry.pos)

    def _drop(self, entry: Entry) -> None:
        for kind, name in entry.body["names"]:
            if kind == "table":
                table = self.tables.pop(name)
                del self.tables_by_id[table.id]
                for known in (self._rows, self._observed, self._retained, self._heads):
                    known.pop(table.id, None)  # type: ignore[attr-defined]
            elif kind == "stream_type":
                del self.stream_types[name]
            elif kind == "function":
                del self.functions[name]
            else:
                query = self.queries.pop(name)
                del self.queries_by_id[query.id]
                del self.query_positions[query.id]

    def _observe(self, entry: Entry) -> None:
        table_id = entry.body["table"]
        if table_id not in self.tables_by_id:
            return
        for sid in entry.body["opened"]:
            self._observed.setdefault(table_id, {}).setdefault(sid, []).append((entry.at_us, None))
        for sid in entry.body["closed"]:
            self._close(table_id, sid, entry.at_us)

    def _close(self, table_id: int, sid: int, at_us: int) -> None:
        spans = self._observed.get(table_id, {}).get(sid)
        if spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], at_us)

    def _retain(self, entry: Entry) -> None:
        table_id = entry.body["table"]
        if table_id in self.tables_by_id:
            self._retained[table_id] = max(self._retained.get(table_id, 0), entry.body["position"])


_CHANGES: dict[str, Callable[[CatalogState, Entry], None]] = {
    "create_stream_type": CatalogState._create_stream_type,
    "create_table": CatalogState._put_table,
    "alter_table": CatalogState._put_table,
    "insert_rows": CatalogState._insert_rows,
    "update_rows": CatalogState._update_rows,
    "delete_rows": CatalogState._delete_rows,
    "create_function": CatalogState._create_function,
    "create_query": CatalogState._create_query,
    "change_query": CatalogState._change_query,
    "drop": CatalogState._drop,
    "observe": CatalogState._observe,
    "retain": CatalogState._retain,
}


def load_state(folder: Path, upto: int | None = None) -> CatalogState:
    """The catalog of a data folder, from its journal."""
    state = CatalogState()
    for entry in JournalReader(folder).read(upto):
        state.apply(entry)
    return state
