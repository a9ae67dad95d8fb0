"""The catalog's one writer: checks a definition, writes it to the journal, applies it and tells its listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.catalog.dependents import Name, users_by_name, with_all_users
from penstock.catalog.query_definitions import QueryDefinitions
from penstock.catalog.rollup_definitions import RollupDefinitions
from penstock.catalog.row_changes import RowChanges
from penstock.catalog.sink_definitions import SinkDefinitions
from penstock.catalog.table_definitions import TableDefinitions


class Catalog(TableDefinitions, QueryDefinitions, RollupDefinitions, SinkDefinitions, RowChanges):
    """Definitions of one data folder. Thread-safe; `state` is only ever changed here."""

    def drop(self, kind: str, name: str, cascade: bool = False, if_exists: bool = False) -> list[str]:
        """Drop a table, stream_type, function, query, rollup or sink; with CASCADE also what uses it. What was dropped."""
        return self.drop_many(kind, [name], cascade, if_exists)

    def drop_many(self, kind: str, names: Sequence[str], cascade: bool = False, if_exists: bool = False) -> list[str]:
        """All of them with one sync, or none; users that are dropped themselves hold nothing up."""
        with self._lock:
            known: Mapping[str, Mapping[str, object]] = {
                "table": self.state.tables,
                "stream_type": self.state.stream_types,
                "function": self.state.functions,
                "query": self.state.queries,
                "rollup": self.state.rollups,
                "sink": self.state.sinks,
            }
            for name in names:
                if name not in known[kind] and not if_exists:
                    raise self._missing(kind, name, known[kind])
            wanted = {(kind, name): None for name in names if name in known[kind]}
            gone = with_all_users(wanted, self._users(kind), cascade)
            if gone:
                self._write("drop", {"names": [list(n) for n in gone]})
            return [f'{k.replace("_", " ")} "{n}"' for k, n in gone]

    def _users(self, kind: str) -> Mapping[Name, list[Name]]:
        queries, sinks = self.state.queries.values(), self.state.sinks.values()
        if kind == "query":
            # Of what uses queries most are sinks: few of ten thousand queries read another.
            return users_by_name((), (q for q in queries if q.reads_queries), (), sinks)
        return users_by_name(self.state.tables.values(), queries, self.state.rollups.values(), sinks)

    def observe(self, table_id: int, opened: Sequence[int], closed: Sequence[int], ended: Sequence[int] = ()) -> None:
        """Sensors were opened or closed: from then on, or up to then, an answer is complete.

        `ended` names those of the closed ones that said END.
        """
        with self._lock:
            if table_id in self.state.tables_by_id and (opened or closed or ended):
                body: dict[str, Any] = {"table": table_id}
                for what, sids in (("opened", opened), ("closed", closed), ("ended", ended)):
                    body[what] = [int(s) for s in sids]
                self._write("observe", body)

    def retain(self, table_id: int, position: int) -> None:
        """Rows below the position are gone from now on; of rows that a rollup still needs, none."""
        with self._lock:
            needed = self.closed_below(table_id)
            position = position if needed is None else min(position, needed)
            if table_id in self.state.tables_by_id and position > self.state.retention(table_id):
                self._write("retain", {"table": table_id, "position": position})
