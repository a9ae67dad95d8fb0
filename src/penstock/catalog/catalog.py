"""The catalog's one writer: checks a definition, writes it to the journal, applies it and tells its listeners."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.catalog.definition_checks import (
    Name,
    check_added,
    check_reads,
    check_shape,
    checked_rows,
    duplicate,
    identity_of,
    missing,
    users_by_name,
    with_all_users,
)
from penstock.catalog.definition_json import query_entry, to_json
from penstock.catalog.journal import Entries, JournalWriter, remove_covered
from penstock.catalog.model import (
    Entry,
    Function,
    QueryDefinition,
    Sink,
    StreamType,
    Table,
    plan_text,
)
from penstock.catalog.priorities import needed_by, raised_by_readers, reader_above
from penstock.catalog.rollup_records import RollupDefinition, RollupState, RollupStep, closing_to_json, rollup_to_json
from penstock.catalog.snapshot import list_snapshots, write_snapshot
from penstock.catalog.state import CatalogState, load_state, snapshot_of
from penstock.catalog.watermark import watermark_of
from penstock.clock import Clock
from penstock.errors import PenstockError, error
from penstock.types import Field

_log = logging.getLogger("penstock.catalog")
SNAPSHOT_ENTRIES = 10_000  # so many entries after a snapshot the next one is written
# Version 0.1 kept a copy of the catalog there. Nothing writes it any more, so a reader would find old definitions.
_REMOVED_FILES = ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm")
_RELATIONS = ("table", "query", "rollup")  # what a FROM can name
T = TypeVar("T")
Still = Callable[[], AbstractContextManager[dict[int, int]]]
NewestTime = Callable[[Iterable[int]], int | None]  # of the readings that tables have


class Catalog:
    """Definitions of one data folder. Thread-safe; `state` is only ever changed here."""

    def __init__(self, folder: Path, still: Still, clock: Clock) -> None:
        self._folder = folder
        self._still = still
        self._clock = clock
        self._lock = threading.RLock()
        self._writer = JournalWriter(folder)
        self.state: CatalogState = load_state(folder)
        self._covered = max(list_snapshots(folder), default=0)  # the entry of the newest snapshot
        self.listeners: list[Callable[[Entry], None]] = []
        for name in _REMOVED_FILES:
            (folder / name).unlink(missing_ok=True)
        self._cover_new()

    def close(self) -> None:
        with self._lock:
            self._cover_new()
            self._writer.close()

    def write_snapshot(self) -> None:
        """Cover all lines up to now, also where a snapshot did that already.

        Soft: without it the next start reads more lines, and damage among them is not covered.
        """
        with self._lock:
            try:
                write_snapshot(self._folder, snapshot_of(self.state, self._writer.chain))
                self._writer.rotate()
            except (OSError, PenstockError) as failure:
                _log.warning("the catalog's snapshot could not be written: %s", failure)
                return
            self._covered = self._writer.position

    def forget_before(self, needed: int) -> None:
        """Remove journal lines that snapshots cover and no state from position `needed` on depends on."""
        with self._lock:
            remove_covered(self._folder, needed)

    def _cover_new(self) -> None:
        """Write a snapshot where there are lines that none covers: after a kill, and before a stop."""
        if self._writer.position != self._covered:
            self.write_snapshot()

    def lose(self, count: int, versions: Mapping[int, int], above: Mapping[str, int]) -> None:
        """Take the numbers of so many lost entries, and of what they numbered: versions by table, next ids by kind."""
        body = {"versions": {str(t): n for t, n in versions.items()}, "above": dict(above)}
        with self._lock:
            self._write_many([("lost", body)] * count)

    def _write(self, kind: str, body: dict[str, Any]) -> None:
        self._write_many([(kind, body)])

    def _write_many(self, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        if not entries:
            return
        with self._still() as heads:
            made = self._append(entries, heads)
        self._tell(made)

    def _append(self, entries: Sequence[tuple[str, dict[str, Any]]], heads: dict[int, int]) -> Entries:
        made = self._writer.append(entries, heads, self._clock.now_us())
        self.state.apply_many(made)
        return made

    def _tell(self, made: Iterable[Entry]) -> None:
        if self._writer.position - self._covered >= SNAPSHOT_ENTRIES:
            self.write_snapshot()
        for entry in made:
            for listener in list(self.listeners):
                try:
                    listener(entry)
                except Exception:
                    # The definition stands; a listener that fails must not make it look as if it did not.
                    _log.exception("after journal entry %s", entry.pos)

    def _find(self, kind: str, known: Mapping[str, T], name: str) -> T:
        found = known.get(name)
        if found is None:
            raise missing(kind, name, known)
        return found

    def _exists(self, kind: str, name: str, tolerated: bool = False) -> bool:
        """Whether there is one of that kind and name already, if that is tolerated. Relations share their names."""
        for other in (kind, *(_RELATIONS if kind in _RELATIONS else ())):
            if name in self.state.named(other):
                if tolerated and other == kind:
                    return True
                raise error("already_exists", kind=other.replace("_", " "), name=name)
        return False

    # -- tables, their stream types and functions

    def create_stream_type(self, found: StreamType, if_not_exists: bool = False) -> None:
        with self._lock:
            if self._exists("stream_type", found.name, if_not_exists):
                return
            self._write("create_stream_type", to_json(found))

    def create_table(self, found: Table, if_not_exists: bool = False) -> Table:
        """Journal a table; its id is given here."""
        with self._lock:
            if self._exists("table", found.name, if_not_exists):
                return self.state.tables[found.name]
            if found.stream is not None and found.stream.stream_type is not None:
                self._find("stream_type", self.state.stream_types, found.stream.stream_type)
            check_shape(found)
            table = replace(found, id=self.state.next_table_id)
            entries = [("create_table", to_json(table))]
            if table.stream is not None and not table.columns:
                # Without static columns there is nothing to tell sensors apart by: the table is one sensor.
                entries.append(("insert_rows", {"table": table.id, "rows": [[None]]}))
            self._write_many(entries)
            return table

    def add_column(self, table: str, column: Field, to_stream: bool) -> Table:
        """A static column, or a field of the stream; older rows and readings have NULL there."""
        if column.required:
            raise error("not_supported", feature="NOT NULL on an added column", hint="older rows have NULL there")
        with self._lock:
            found = self._find("table", self.state.tables, table)
            if to_stream:
                if found.stream is None:
                    raise error("invalid_definition", detail=f'table "{table}" has no stream column')
                if column.name in {f.name for f in found.stream.fields}:
                    raise error("already_exists", kind="field", name=column.name)
                changed = replace(found, stream=replace(found.stream, fields=(*found.stream.fields, column)))
            else:
                if found.stream is not None and not found.key:
                    raise error(
                        "invalid_definition",
                        detail=f'table "{table}" has no static columns, so its one row has no key to be found by',
                    )
                taken = {c.name for c in found.columns} | ({found.stream.name} if found.stream is not None else set())
                if column.name in taken:
                    raise error("already_exists", kind="column", name=column.name)
                changed = replace(found, columns=(*found.columns, column))
            check_added(found, changed, column)
            self._write("alter_table", to_json(changed))
            return changed

    def change_lateness(self, table: str, lateness_us: int, newest_us: NewestTime) -> Table:
        """How late a reading may come from now on. The watermark stays where it is at this moment, or goes on."""
        with self._lock:
            with self._still() as heads:  # so that no reading comes between a look at the newest one and the entry
                found = self._find("table", self.state.tables, table)
                watermark_us = watermark_of(found.options, newest_us([found.id]))
                options = replace(found.options, lateness_us=lateness_us, watermark_us=watermark_us)
                changed = replace(found, options=options)
                made = self._append([("alter_table", to_json(changed))], heads)
            self._tell(made)
            return changed

    def replace_function(self, function: Function) -> bool:
        """Another body for a function, if all its callers are out of the cycles; False where some are not.

        A quarantined query has no answers that could come to mean something else. Its plan knows the types.
        """
        with self._lock:
            known = self.state.functions.get(function.name)
            callers = [q for q in self.state.queries.values() if function.name in q.reads_functions]
            if known is None or not callers or any(q.quarantined is None for q in callers):
                return False
            if (known.parameters, known.returns) != (function.parameters, function.returns):
                return False
            self._write("create_function", to_json(function))
            return True

    def create_function(self, function: Function) -> None:
        with self._lock:
            self._exists("function", function.name)
            self._write("create_function", to_json(function))

    # -- static rows

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> int:
        """Rows of static values in order of the columns; for a sensor table the address stands last."""
        with self._lock:
            found = self._find("table", self.state.tables, table)
            if found.stream is not None and not found.key:
                raise error(
                    "invalid_definition",
                    detail=f'table "{table}" is one sensor, which is there already',
                    hint=f"UPDATE {table} SET {found.stream.name} = '...' gives it an address",
                )
            static = self.state.rows(found.id)
            body = checked_rows(found, rows)
            for row in body:
                if static.has_key(row):
                    raise duplicate(found, row)
            if body:
                self._write("insert_rows", {"table": found.id, "rows": body})
            return len(body)

    def update_rows(self, table: str, changes: Mapping[int, Sequence[Any]]) -> int:
        """New static values (and address) for sids. How many: a row that was deleted meanwhile does not count."""
        with self._lock:
            found = self._find("table", self.state.tables, table)
            static = self.state.rows(found.id)
            live = {int(sid): values for sid, values in changes.items() if static.is_live(int(sid))}
            body = checked_rows(found, list(live.values()))
            for row in body:
                taken = static.vid_of(static.key_of(row)) if found.key else None
                if taken is not None and int(static.sids[taken]) not in live:
                    raise duplicate(found, row)
            if body:
                changed = [[sid, row] for sid, row in zip(live, body, strict=True)]
                self._write("update_rows", {"table": found.id, "rows": changed})
            return len(body)

    def delete_rows(self, table: str, sids: Iterable[int]) -> int:
        """How many rows went: one that was deleted meanwhile does not count."""
        with self._lock:
            found = self._find("table", self.state.tables, table)
            if found.stream is not None and not found.key:
                raise error("invalid_definition", detail=f'table "{table}" is one sensor', hint="drop the table")
            static = self.state.rows(found.id)
            gone = [sid for sid in dict.fromkeys(int(s) for s in sids) if static.is_live(sid)]
            if gone:
                self._write("delete_rows", {"table": found.id, "sids": gone})
            return len(gone)

    # -- standing queries

    def create_queries(
        self, queries: Sequence[QueryDefinition], planned: CatalogState | None = None
    ) -> list[QueryDefinition]:
        """All of them with one sync, or none. `planned`: the catalog that they were planned with, if not this one."""
        with self._lock:
            made: dict[str, QueryDefinition] = {}
            number = self.state.next_query_id
            for query in queries:
                self._exists("query", query.name)
                if query.name in made:
                    raise error("already_exists", kind="query", name=query.name)
                check_reads(query, made, self.state, planned or self.state)
                count = len(query.branches)
                branches = tuple(range(number + 1, number + 1 + count))
                made[query.name] = replace(query, id=number, branches=branches)
                number += 1 + count
            raised = raised_by_readers({**self.state.queries, **made}, made.values())
            made |= {name: replace(made[name], priority=raised[name]) for name in raised if name in made}
            entries = [_raised(self.state.queries[name], raised[name]) for name in raised if name not in made]
            self._write_many([*entries, *(("create_query", query_entry(q)) for q in made.values())])
            return list(made.values())

    def change_query(
        self,
        name: str,
        sql: str | None = None,
        plan: dict[str, object] | None = None,
        paused: bool | None = None,
    ) -> QueryDefinition:
        """A new window, or pause and resume; the query stays the same one."""
        with self._lock:
            known = self._find("query", self.state.queries, name)
            changed = replace(
                known,
                sql=known.sql if sql is None else sql,
                stored_plan=known.stored_plan if plan is None else plan_text(plan),
                branches=known.branches if plan is None else self._numbered(known, plan),
                paused=known.paused if paused is None else paused,
                quarantined=None if paused is False else known.quarantined,
            )
            if changed != known:
                self._write("change_query", query_entry(changed))
            return changed

    def _numbered(self, known: QueryDefinition, plan: dict[str, Any]) -> tuple[int, ...]:
        """The numbers of the branches of a query's new plan: those that it has, and new ones."""
        count, first = len(plan.get("branches", ())), self.state.next_query_id
        return (*known.branches[:count], *range(first, first + count - len(known.branches)))

    def quarantine_queries(self, reasons: Mapping[int, str], table_id: int | None = None) -> list[QueryDefinition]:
        """Take queries out of the cycles until they are resumed; those that are out already, or dropped, stay as they are.

        `table_id`: a table with readings up to here that no cycle can read; then the queries are all that read it.
        """
        with self._lock:
            known = self.state.queries_by_id
            if table_id is not None and table_id in self.state.tables_by_id:
                # Also those that came while the table was looked into: they would miss its readings without a word.
                name, why = self.state.tables_by_id[table_id].name, next(iter(reasons.values()), "")
                readers = (query.id for query in known.values() if name in query.reads_tables)
                reasons = {**dict.fromkeys(readers, why), **reasons}
            reasons = {known[q].branch_of or q: why for q, why in reasons.items() if q in known}
            found = {q: why for q, why in reasons.items() if q in known and known[q].quarantined is None}
            if found or table_id is not None:
                body = {"queries": {str(q): why for q, why in found.items()}, "unreadable": table_id}
                self._write("quarantine", body)
            return [self.state.queries_by_id[q] for q in found]

    def retarget_query(self, planned: QueryDefinition, sql: str, plan: dict[str, object]) -> bool:
        """A new window for a query; False where it is another one by now, or has another window."""
        with self._lock:
            known = self.state.queries.get(planned.name)
            if identity_of(known) != identity_of(planned):
                return False
            self.change_query(planned.name, sql=sql, plan=plan)
            return True

    def describe_query(self, name: str, **facts: Any) -> QueryDefinition:
        """Another owner, description, strategy or priority; what it answers stays the same."""
        with self._lock:
            known = self._find("query", self.state.queries, name)
            changed = replace(known, **facts)
            above = reader_above(self.state.queries.values(), name, changed.priority)
            if changed.priority != known.priority and above is not None:
                detail = f'query "{above.name}" of class {above.priority} reads "{name}", which is at least {needed_by(above)} for that'
                raise error(
                    "invalid_option", option="priority", detail=detail, hint=f'lower or drop "{above.name}" first'
                )
            if changed != known:
                raised = raised_by_readers(self.state.queries, [changed])
                entries = [_raised(self.state.queries[read], priority) for read, priority in raised.items()]
                self._write_many([*entries, _raised(changed, changed.priority)])
            return changed

    def plan_run(self, sleeping: Collection[int], awake: Collection[int]) -> None:
        """A new run plan: the queries that sleep from now on, and those that sleep no longer.

        Its entry sees no more of the log than the one before it: it takes effect with the next cycle, also where that has rows
        to catch up with.
        """
        with self._lock:
            known = self.state.queries_by_id
            body = {
                "number": self.state.run_plan + 1,
                "sleeping": sorted(q for q in sleeping if q in known and not known[q].sleeping),
                "awake": sorted(q for q in awake if q in known and known[q].sleeping),
            }
            if body["sleeping"] or body["awake"]:
                self._tell(self._append([("run_plan", body)], self.state.heads()))

    # -- dropping, and what becomes of readings

    def drop(
        self, kind: str, names: list[str] | tuple[str, ...], cascade: bool = False, if_exists: bool = False
    ) -> list[str]:
        """Drop tables, stream types, functions, queries, rollups or sinks; with CASCADE also what uses them. What was dropped.

        All of them with one sync, or none; users that are dropped themselves hold nothing up.
        """
        with self._lock:
            known = self.state.named(kind)
            for name in names:
                if name not in known and not if_exists:
                    raise missing(kind, name, known)
            wanted = {(kind, name): None for name in names if name in known}
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
                sids = {"opened": opened, "closed": closed, "ended": ended}
                self._write("observe", {"table": table_id, **{what: list(map(int, of)) for what, of in sids.items()}})

    def retain(self, table_id: int, position: int) -> None:
        """Rows below the position are gone from now on; of rows that a rollup still needs, none."""
        with self._lock:
            needed = self.closed_below(table_id)
            position = position if needed is None else min(position, needed)
            if table_id in self.state.tables_by_id and position > self.state.retention(table_id):
                self._write("retain", {"table": table_id, "position": position})

    # -- rollups: created, and closed step by step

    def create_rollup(self, rollup: RollupDefinition, if_not_exists: bool = False) -> bool:
        """Journal a rollup; its id, and where it begins, are given here. False where it is there already."""
        with self._lock:
            if self._exists("rollup", rollup.name, if_not_exists):
                return False
            table = self.state.tables.get(rollup.table)
            if table is None or table.id != rollup.table_id:
                raise missing("table", rollup.table, self.state.tables)
            begin = self.state.retention(table.id)
            since_us = rollup.since_us if begin else None
            made = replace(rollup, id=self.state.next_rollup_id, begin=begin, since_us=since_us)
            self._write("create_rollup", rollup_to_json(made))
            return True

    def close_rollup(self, rollup: RollupDefinition, before: RollupState, closing: RollupStep) -> bool:
        """Journal a step after its files are in place; False where the rollup is not what the step began with any more."""
        with self._lock:
            if self.state.rolled_up(rollup.id) != before:
                return False
            self._write("close_rollup", closing_to_json(rollup, closing))
            return True

    def closed_below(self, table_id: int) -> int | None:
        """The log position below which every rollup of a table has what it needs; None: it has no rollup."""
        rollups = self.state.rollups_of(table_id)
        known = (self.state.rolled_up(rollup.id) for rollup in rollups)
        return min((rolled.position for rolled in known if rolled is not None), default=None)

    # -- sinks: created, paused and resumed

    def create_sink(
        self,
        name: str,
        query: QueryDefinition,
        kind: str,
        options: Mapping[str, str],
        owner: str | None = None,
        most: int | None = None,
    ) -> Sink:
        """A sink of a query as it was when the sink was checked against its columns. `most`: how many there may be."""
        with self._lock:
            self._exists("sink", name)
            known = self._find("query", self.state.queries, query.name)
            if known.id != query.id:
                hint = "another query of that name came meanwhile; try again"
                raise error("query_not_found", query=query.name, hint=hint)
            if most is not None and len(self.state.sinks) >= most:
                hint = "drop one, or raise sinks_max"
                raise error("limit_reached", detail=f"there are {most} sinks already", hint=hint)
            sink = Sink(self.state.next_sink_id, name, query.name, kind, dict(options), owner=owner)
            self._write("create_sink", to_json(sink))
            return sink

    def change_sink(self, name: str, paused: bool) -> Sink:
        """Pause or resume; its position stays."""
        with self._lock:
            known = self._find("sink", self.state.sinks, name)
            changed = replace(known, paused=paused)
            if changed != known:
                self._write("change_sink", to_json(changed))
            return changed


def _raised(query: QueryDefinition, priority: str) -> tuple[str, dict[str, Any]]:
    """The entry that gives a query a class, beside its other descriptions."""
    facts = ("name", "owner", "description", "strategy")
    return "describe_query", {**{name: getattr(query, name) for name in facts}, "priority": priority}
