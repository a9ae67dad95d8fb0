"""The catalog's one writer: checks a definition, writes it to the journal, applies it and tells its listeners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.catalog.definition_json import to_json
from penstock.catalog.model import QueryDefinition, Sink, Table
from penstock.catalog.query_definitions import QueryDefinitions
from penstock.catalog.rollup_records import RollupDefinition, RollupState, RollupStep, closing_to_json, rollup_to_json
from penstock.catalog.table_definitions import TableDefinitions
from penstock.errors import error

_SHOWN = 10

Name = tuple[str, str]  # kind (table, stream_type, function, query, rollup, sink) and name


def users_by_name(
    tables: Iterable[Table],
    queries: Iterable[QueryDefinition],
    rollups: Iterable[RollupDefinition] = (),
    sinks: Iterable[Sink] = (),
) -> Mapping[Name, list[Name]]:
    """For everything that is used, its direct users in the order they came."""
    users: defaultdict[Name, list[Name]] = defaultdict(list)
    for table in tables:
        if table.stream is not None and table.stream.stream_type is not None:
            users["stream_type", table.stream.stream_type].append(("table", table.name))
    for query in queries:
        me = ("query", query.name)
        for kind, names in (
            ("table", query.reads_tables),
            ("query", query.reads_queries),
            ("function", query.reads_functions),
        ):
            for name in dict.fromkeys(names):
                users[kind, name].append(me)
    for rollup in rollups:
        users["table", rollup.table].append(("rollup", rollup.name))
    for sink in sinks:
        users["query", sink.query].append(("sink", sink.name))
    return users


def with_all_users(names: Collection[Name], users: Mapping[Name, list[Name]], cascade: bool) -> list[Name]:
    """What goes when these names go, users before what they use; dependents_exist where others use them."""
    gone: dict[Name, None] = {}
    for name in names:
        others = [u for u in users.get(name, ()) if u not in names]
        if others and not cascade:
            shown = [f'{k} "{n}"' for k, n in others[:_SHOWN]]
            if len(others) > len(shown):
                shown.append(f"{len(others) - len(shown)} more")
            raise error(
                "dependents_exist",
                kind=name[0].replace("_", " "),
                name=name[1],
                dependents=", ".join(shown),
                hint="drop them first, or add CASCADE",
            )
        if name not in gone:
            gone |= dict.fromkeys(n for n in with_users(name, users) if n not in gone)
    return list(gone)


def with_users(name: Name, users: Mapping[Name, list[Name]]) -> list[Name]:
    """A name and all that would not live without it, users before what they use."""
    ordered: list[Name] = []
    seen = {name}
    # Not recursive: queries may stand on queries in chains longer than Python's stack.
    path = [(name, iter(users.get(name, ())))]
    while path:
        at, rest = path[-1]
        user = next(rest, None)
        if user is None:
            ordered.append(at)
            path.pop()
        elif user not in seen:
            seen.add(user)
            path.append((user, iter(users.get(user, ()))))
    return ordered


class Catalog(TableDefinitions, QueryDefinitions):
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

    # -- rollups: created, and closed step by step

    def create_rollup(self, rollup: RollupDefinition, if_not_exists: bool = False) -> bool:
        """Journal a rollup; its id, and where it begins, are given here. False where it is there already."""
        with self._lock:
            if self._exists("rollup", rollup.name, self.state.rollups, if_not_exists):
                return False
            self._exists("table", rollup.name, self.state.tables, False)
            self._exists("query", rollup.name, self.state.queries, False)
            table = self.state.tables.get(rollup.table)
            if table is None or table.id != rollup.table_id:
                raise self._missing("table", rollup.table, self.state.tables)
            begin = self.state.retention(table.id)
            made = replace(
                rollup,
                id=self.state.next_rollup_id,
                begin=begin,
                since_us=rollup.since_us if begin else None,
            )
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
            self._exists("sink", name, self.state.sinks, False)
            known = self._query(query.name)
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
            known = self.state.sinks.get(name)
            if known is None:
                raise self._missing("sink", name, self.state.sinks)
            changed = replace(known, paused=paused)
            if changed != known:
                self._write("change_sink", to_json(changed))
            return changed
