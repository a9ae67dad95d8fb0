"""The catalog at a journal position: a pure fold over entries.

The server, Spark's planner and Spark's workers each fold the same entries and so hold the same definitions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from penstock.catalog.branches import branch_definitions
from penstock.catalog.definition_json import (
    changed_by_run_plan,
    function_from_json,
    quarantined_by,
    query_entry,
    query_from_json,
    sink_from_json,
    stream_type_from_json,
    table_from_json,
    to_json,
)
from penstock.catalog.histories import LogHeads, ObservationHistory, Observations
from penstock.catalog.journal import SNAPSHOT, JournalReader
from penstock.catalog.model import Entry, Function, QueryDefinition, Sink, StreamType, Table
from penstock.catalog.priorities import deferrable
from penstock.catalog.rollup_records import (
    RollupDefinition,
    RollupState,
    closed,
    rolled_up_from_json,
    rollup_from_json,
    rollup_to_json,
)
from penstock.catalog.rows import Int64s, StaticRows
from penstock.catalog.snapshot import read_snapshot
from penstock.errors import check_known, error, too_new


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

    def named(self, kind: str) -> dict[str, Any]:
        """What is defined of one kind, in the words of DROP: table, stream_type, function, query, rollup or sink."""
        found: dict[str, Any] = getattr(self, "queries" if kind == "query" else f"{kind}s")
        return found

    def put_query(self, query: QueryDefinition, changed_at: int | None = None) -> None:
        """Put in a query with its branches, in place of what they were before. `changed_at`: the entry that changes its answer."""
        known = self.queries_by_id.get(query.id)
        for gone in known.branches if known is not None else ():
            if gone not in query.branches:
                del self.queries_by_id[gone], self.query_positions[gone]
        self.queries[query.name] = self.queries_by_id[query.id] = query
        for branch in branch_definitions(query):
            self.queries_by_id[branch.id] = branch
        if changed_at is not None:
            for number in query.numbers:
                came, _ = self.query_positions.get(number, (changed_at, changed_at))
                self.query_positions[number] = (came, changed_at)

    def drop_query(self, query: QueryDefinition) -> None:
        """Take out what `put_query` put in, but for the name."""
        for number in query.numbers:
            del self.queries_by_id[number], self.query_positions[number]

    def copy(self) -> CatalogDefinitions:
        return CatalogDefinitions(*(dict(getattr(self, f.name)) for f in fields(self)))


class CatalogState:
    """Everything that is defined, as of `position`.

    One thread applies entries, any thread reads: a dict that a property hands out is never changed again, and
    static rows look after themselves. Several look-ups are of one moment only if no entry came in between.
    """

    def __init__(self, beside: Callable[[], CatalogState] | None = None, texts: bool = True) -> None:
        """`beside`: another one in this process, which may be ahead; queries that are the same there are kept once.

        Without `texts` it has the plans of queries only: the text that they were made from is needed in the server alone.
        """
        self._texts = texts
        self._definitions = CatalogDefinitions()
        self._beside = beside
        self.position = 0
        self.at_us = 0  # when the last entry was made
        self.next_table_id = 1
        self.next_query_id = 1
        self.next_rollup_id = 1
        self.next_sink_id = 1
        self._rows: dict[int, StaticRows] = {}
        self._observed = ObservationHistory()
        self._retained: dict[int, int] = {}
        self._rolled_up: dict[int, RollupState] = {}
        self._heads = LogHeads()
        self.run_plan = 0  # the number of the last one
        self._deferrable: tuple[CatalogDefinitions, frozenset[int]] | None = None

    def apply_many(self, entries: Iterable[Entry]) -> None:
        """Take in the next entries; thousands cost no more than each for itself. Readers see them all at once.

        Where one cannot be read, those before it are taken in: static rows know them already.
        """
        known = draft = self._definitions
        last: Entry | None = None
        try:
            for entry in entries:
                if entry.kind not in _CHANGES and entry.kind != SNAPSHOT:
                    raise too_new(f'journal entry {entry.pos} is of the kind "{entry.kind}"')
                assert last is not None or entry.kind == SNAPSHOT or entry.pos == self.position + 1, entry.pos
                if entry.kind == SNAPSHOT:
                    self.restore(read_snapshot(Path(entry.body["path"])))
                    known = draft = self._definitions
                    last = entry
                    continue
                if draft is known and entry.kind in _DEFINING:
                    draft = known.copy()
                _CHANGES[entry.kind](self, draft, entry)
                self._heads.take(entry.heads, entry.pos)
                last = entry
        finally:
            if last is not None:
                self._definitions = draft
                self.at_us = last.at_us
                # Last: a cache by position must not find the old under the new one.
                self.position = last.pos

    def restore(self, data: dict[str, Any]) -> None:
        """Make a state what a snapshot says, whatever it was before."""
        check_known(data, _SNAPSHOT, "a snapshot of the catalog")
        draft = CatalogDefinitions()
        draft.stream_types = {found.name: found for found in map(stream_type_from_json, data["stream_types"])}
        for table in map(table_from_json, data["tables"]):
            draft.tables[table.name] = draft.tables_by_id[table.id] = table
        draft.functions = {found.name: found for found in map(function_from_json, data["functions"])}
        for query in map(self._shared, map(query_from_json, data["queries"])):
            draft.put_query(query)
        draft.query_positions = {query: (came, changed) for query, came, changed in data["query_positions"]}
        draft.rollups = {found.name: found for found in map(rollup_from_json, data["rollups"])}
        draft.sinks = {found.name: found for found in map(sink_from_json, data["sinks"])}
        self.next_table_id, self.next_query_id, self.next_rollup_id, self.next_sink_id = data["next"]
        self._rows = {
            int(t): StaticRows.from_json(draft.tables_by_id[int(t)], rows) for t, rows in data["rows"].items()
        }
        self._observed.restore(data["observed"])
        self._retained = {int(t): position for t, position in data["retained"].items()}
        self._rolled_up = {int(r): rolled_up_from_json(known) for r, known in data["rolled_up"].items()}
        self._heads.restore(data["heads"])
        self._definitions = draft
        self.run_plan = data.get("run_plan", 0)  # snapshots of older versions do not know it
        self.at_us, self.position = data["at_us"], data["position"]

    def take_over(self, other: CatalogState) -> None:
        """Make an empty state what another one is: definitions, which never change, are shared."""
        self.restore({**_beside_queries(other), "queries": []})
        self._definitions = other._definitions.copy()

    def frozen(self) -> CatalogState:
        """The definitions and floors as they are now, for a reader that outlasts the next entry. Not to be applied to."""
        still = copy.copy(self)
        still._rows, still._retained, still._rolled_up = dict(self._rows), dict(self._retained), dict(self._rolled_up)
        still._observed, still._heads = self._observed.copy(), copy.copy(self._heads)
        return still

    def expecting(self, coming: Iterable[QueryDefinition]) -> CatalogState:
        """The same with queries that are not there yet, for planning others that read them. Not to be applied to."""
        still = self.frozen()
        draft = still._definitions = self._definitions.copy()
        for query in coming:
            draft.queries[query.name] = draft.queries_by_id[query.id] = query
            draft.query_positions[query.id] = (self.position, self.position)
        return still

    # -- looking up

    def deferrable(self) -> frozenset[int]:
        """The queries that may stand behind the cycles by their class."""
        if self._deferrable is None or self._deferrable[0] is not self._definitions:
            self._deferrable = (self._definitions, deferrable(self._definitions.queries.values()))
        return self._deferrable[1]

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
    def aggregate_names(self) -> set[str]:
        """The functions that are aggregates."""
        return {function.name for function in self.functions.values() if function.state is not None}

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

    def named(self, kind: str) -> Mapping[str, object]:
        """What is defined of one kind, by name, as `CatalogDefinitions.named`."""
        return self._definitions.named(kind)

    def rows(self, table_id: int) -> StaticRows:
        found = self._rows.get(table_id)
        if found is None:
            raise error("table_not_found", table=f"number {table_id}", hint="it was dropped a moment ago")
        return found

    def retention(self, table_id: int) -> int:
        """The log position below which rows are gone."""
        return self._retained.get(table_id, 0)

    def rollups_of(self, table_id: int) -> list[RollupDefinition]:
        return [rollup for rollup in self.rollups.values() if rollup.table_id == table_id]

    def rolled_up(self, rollup_id: int) -> RollupState | None:
        """What a rollup holds; None where there is none of this number."""
        return self._rolled_up.get(rollup_id)

    def observations(self, table_id: int) -> Observations:
        """Per sid: (opened at, closed at or None). Sensors of pushed tables are observed from their INSERT on."""
        return self._observed.spans(table_id)

    def ended(self, table_id: int) -> frozenset[int]:
        """Sids that said END: nothing comes of them any more, unless they are reached in another way."""
        return self._observed.ended(table_id)

    def heads(self) -> dict[int, int]:
        """How far each table's log had come at the last entry."""
        return {t: head for t, head in self._heads.last.items() if t in self.tables_by_id}

    def journal_positions(self, table_id: int) -> tuple[Int64s, Int64s]:
        """Log heads, ascending, and for each the last entry that was written before the log grew past it.

        A row at log position p came after the entry of the last head that is not beyond p.
        """
        return self._heads.steps(table_id, self.position)

    # -- changes, one per kind of entry

    def _create_stream_type(self, draft: CatalogDefinitions, entry: Entry) -> None:
        found = stream_type_from_json(entry.body)
        draft.stream_types[found.name] = found

    def _put_table(self, draft: CatalogDefinitions, entry: Entry) -> None:
        table = table_from_json(entry.body)
        before = draft.tables_by_id.get(table.id)
        if before is not None and before.stream != table.stream:
            self._observed.all_begin_anew(table.id)
        draft.tables[table.name] = draft.tables_by_id[table.id] = table
        self.next_table_id = max(self.next_table_id, table.id + 1)
        if table.id in self._rows:
            self._rows[table.id].retable(table)
        else:
            self._rows[table.id] = StaticRows(table)
            self._heads.begin(table.id)

    def _insert_rows(self, draft: CatalogDefinitions, entry: Entry) -> None:
        table_id = entry.body["table"]
        rows = self._rows[table_id]
        vids = rows.insert(entry.body["rows"], entry.pos)
        stream = draft.tables_by_id[table_id].stream
        if stream is not None and stream.connector is None:
            self._observed.open(table_id, rows.sids[vids.start : vids.stop].tolist(), entry.at_us)

    def _update_rows(self, draft: CatalogDefinitions, entry: Entry) -> None:
        table_id, rows = entry.body["table"], self._rows[entry.body["table"]]
        ended = self.ended(table_id)
        moved = [s for s, values in entry.body["rows"] if s in ended and rows.current_values(s)[-1] != values[-1]]
        self._observed.begin_anew(table_id, moved)
        rows.update(entry.body["rows"], entry.pos)

    def _delete_rows(self, draft: CatalogDefinitions, entry: Entry) -> None:
        self._rows[entry.body["table"]].delete(entry.body["sids"], entry.pos)
        self._observed.close(entry.body["table"], entry.body["sids"], entry.at_us)
        self._observed.begin_anew(entry.body["table"], entry.body["sids"])

    def _create_function(self, draft: CatalogDefinitions, entry: Entry) -> None:
        found = function_from_json(entry.body)
        draft.functions[found.name] = found

    def _put_query(self, draft: CatalogDefinitions, entry: Entry) -> None:
        found = self._shared(query_from_json(entry.body))
        draft.put_query(found, entry.pos)
        self.next_query_id = max(self.next_query_id, *(number + 1 for number in found.numbers))

    def _shared(self, found: QueryDefinition) -> QueryDefinition:
        if not self._texts:
            return replace(found, sql="", description=None)
        known = self._beside().queries_by_id.get(found.id) if self._beside is not None else None
        return known if known is not None and known == found else found

    def _describe_query(self, draft: CatalogDefinitions, entry: Entry) -> None:
        # Not a change of what it answers: its history is not read again, so its positions stay.
        facts = {fact: entry.body[fact] for fact in ("owner", "description", "strategy")}
        facts["priority"] = entry.body.get("priority", "normal")  # entries of older versions do not know it
        draft.put_query(replace(draft.queries[entry.body["name"]], **facts))

    def _quarantine(self, draft: CatalogDefinitions, entry: Entry) -> None:
        for query_id, reason in quarantined_by(entry).items():
            known = draft.queries_by_id.get(query_id)
            if known is not None:  # it may have been dropped while its cycle was looked into
                draft.put_query(replace(known, paused=True, quarantined=reason), entry.pos)

    def _take_run_plan(self, draft: CatalogDefinitions, entry: Entry) -> None:
        # Not a change of what they answer: positions stay, as with a strategy.
        self.run_plan = entry.body["number"]
        for query_id, sleeping in changed_by_run_plan(entry).items():
            known = draft.queries_by_id.get(query_id)
            if known is not None:
                draft.put_query(replace(known, sleeping=sleeping))

    def _put_sink(self, draft: CatalogDefinitions, entry: Entry) -> None:
        found = sink_from_json(entry.body)
        draft.sinks[found.name] = found
        self.next_sink_id = max(self.next_sink_id, found.id + 1)

    def _drop(self, draft: CatalogDefinitions, entry: Entry) -> None:
        for kind, name in entry.body["names"]:
            gone = draft.named(kind).pop(name)
            if kind == "table":
                del draft.tables_by_id[gone.id], self._rows[gone.id]
                self._heads.forget(gone.id)
                self._observed.forget(gone.id)
                self._retained.pop(gone.id, None)
            elif kind == "rollup":
                del self._rolled_up[gone.id]
            elif kind == "query":
                draft.drop_query(gone)

    def _observe(self, draft: CatalogDefinitions, entry: Entry) -> None:
        if entry.body["table"] in draft.tables_by_id:
            table_id = entry.body["table"]
            self._observed.open(table_id, entry.body["opened"], entry.at_us)
            self._observed.close(table_id, entry.body["closed"], entry.at_us)
            self._observed.begin_anew(table_id, entry.body["opened"])
            # Entries of older versions do not know it.
            ended = [sid for sid in entry.body.get("ended", ()) if self._rows[table_id].is_live(sid)]
            if ended:
                self._observed.end(table_id, ended)

    def _retain(self, draft: CatalogDefinitions, entry: Entry) -> None:
        table_id = entry.body["table"]
        if table_id in draft.tables_by_id:
            self._retained[table_id] = max(self._retained.get(table_id, 0), entry.body["position"])

    def _lose(self, draft: CatalogDefinitions, entry: Entry) -> None:
        """Entries that were acknowledged are gone: what they may have numbered is not given again."""
        for table_id, count in entry.body["versions"].items():
            if int(table_id) in self._rows:
                self._rows[int(table_id)].lose(count, entry.pos)
        above = entry.body["above"]
        self.next_table_id = max(self.next_table_id, above.get("table", 0))
        self.next_rollup_id = max(self.next_rollup_id, above.get("rollup", 0))
        self.next_sink_id = max(self.next_sink_id, above.get("sink", 0))

    def _create_rollup(self, draft: CatalogDefinitions, entry: Entry) -> None:
        found = rollup_from_json(entry.body)
        draft.rollups[found.name] = found
        self._rolled_up[found.id] = RollupState(found.begin)
        self.next_rollup_id = max(self.next_rollup_id, found.id + 1)

    def _close_rollup(self, draft: CatalogDefinitions, entry: Entry) -> None:
        known = self._rolled_up.get(entry.body["rollup"])
        if known is not None:
            self._rolled_up[entry.body["rollup"]] = closed(known, entry.body)


_CHANGES: dict[str, Callable[[CatalogState, CatalogDefinitions, Entry], None]] = {
    "create_stream_type": CatalogState._create_stream_type,
    "create_table": CatalogState._put_table,
    "alter_table": CatalogState._put_table,
    "insert_rows": CatalogState._insert_rows,
    "update_rows": CatalogState._update_rows,
    "delete_rows": CatalogState._delete_rows,
    "create_function": CatalogState._create_function,
    "create_query": CatalogState._put_query,
    "change_query": CatalogState._put_query,
    "describe_query": CatalogState._describe_query,
    "quarantine": CatalogState._quarantine,
    "run_plan": CatalogState._take_run_plan,
    "create_sink": CatalogState._put_sink,
    "change_sink": CatalogState._put_sink,
    "drop": CatalogState._drop,
    "observe": CatalogState._observe,
    "retain": CatalogState._retain,
    "create_rollup": CatalogState._create_rollup,
    "close_rollup": CatalogState._close_rollup,
    "lost": CatalogState._lose,
}
_DEFINING = _CHANGES.keys() - {"insert_rows", "update_rows", "delete_rows", "observe", "retain", "close_rollup", "lost"}


def snapshot_of(state: CatalogState, chain: str) -> dict[str, Any]:
    """Everything that a state holds, as plain values; `chain` is the journal's hash at its position."""
    return {
        **_beside_queries(state),
        "chain": chain,
        "queries": [query_entry(query) for query in state.queries.values()],
    }


def _beside_queries(state: CatalogState) -> dict[str, Any]:
    return {
        "position": state.position,
        "at_us": state.at_us,
        "next": [state.next_table_id, state.next_query_id, state.next_rollup_id, state.next_sink_id],
        "stream_types": [to_json(found) for found in state.stream_types.values()],
        "tables": [to_json(table) for table in state.tables.values()],
        "functions": [to_json(function) for function in state.functions.values()],
        "query_positions": [[query, *positions] for query, positions in state.query_positions.items()],
        "rollups": [rollup_to_json(rollup) for rollup in state.rollups.values()],
        "sinks": [to_json(sink) for sink in state.sinks.values()],
        "rows": {table_id: rows.to_json() for table_id, rows in state._rows.items()},
        "observed": state._observed.to_json(),
        "retained": state._retained,
        "rolled_up": {rollup: to_json(known) for rollup, known in state._rolled_up.items()},
        "heads": state._heads.to_json(),
        "run_plan": state.run_plan,
    }


_SNAPSHOT = snapshot_of(CatalogState(), "").keys()  # what a snapshot may have


def load_state(folder: Path, upto: int | None = None) -> CatalogState:
    """The catalog of a data folder, from its journal."""
    state = CatalogState()
    state.apply_many(JournalReader(folder).entries(upto))
    return state
