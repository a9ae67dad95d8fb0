"""Standing queries: registered, changed and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace

from penstock.catalog.definition_json import plan_text, query_entry
from penstock.catalog.model import QueryDefinition, Table
from penstock.catalog.state import CatalogState
from penstock.catalog.writer import CatalogWriter
from penstock.errors import error


@dataclass(frozen=True, slots=True)
class NewQuery:
    """A standing query as it is handed to the catalog."""

    name: str
    sql: str
    plan: InitVar[dict[str, object]]
    reads_tables: tuple[str, ...]
    reads_queries: tuple[str, ...] = ()
    reads_functions: tuple[str, ...] = ()
    start_us: int | None = None
    owner: str | None = None
    description: str | None = None
    strategy: str | None = None
    stored_plan: bytes = field(init=False)  # of a thousand that come at once the plans take ten times the room

    def __post_init__(self, plan: dict[str, object]) -> None:
        object.__setattr__(self, "stored_plan", plan_text(plan))

    def numbered(self, query_id: int) -> QueryDefinition:
        """What the catalog keeps of it, under a number."""
        return QueryDefinition(id=query_id, **{each.name: getattr(self, each.name) for each in fields(self)})


class QueryDefinitions(CatalogWriter):
    def create_queries(self, queries: Sequence[NewQuery], planned: CatalogState | None = None) -> list[QueryDefinition]:
        """All of them with one sync, or none. `planned`: the catalog that they were planned with, if not this one."""
        with self._lock:
            made: dict[str, QueryDefinition] = {}
            for query in queries:
                self._exists("query", query.name, self.state.queries, False)
                self._exists("query", query.name, made, False)
                self._exists("table", query.name, self.state.tables, False)
                self._exists("rollup", query.name, self.state.rollups, False)
                self._check_reads(query, made, planned or self.state)
                made[query.name] = query.numbered(self.state.next_query_id + len(made))
            self._write_many([("create_query", query_entry(q)) for q in made.values()])
            return list(made.values())

    def _check_reads(self, query: NewQuery, made: Mapping[str, object], planned: CatalogState) -> None:
        """What it reads may have been dropped since it was planned, and something else have its name."""
        reads: tuple[tuple[str, tuple[str, ...], Mapping[str, object], Mapping[str, object]], ...] = (
            ("table", query.reads_tables, self.state.tables, planned.tables),
            ("query", query.reads_queries, self.state.queries, planned.queries),
            ("function", query.reads_functions, self.state.functions, planned.functions),
        )
        for kind, names, known, before in reads:
            for name in names:
                if kind == "query" and name in made:
                    continue
                if name not in known:
                    raise self._missing(kind, name, known)
                if _what(known[name]) != _what(before.get(name)):
                    hint = f"another {kind} of that name came while the query was planned; try again"
                    raise error(f"{kind}_not_found", **{kind: name}, hint=hint)

    def change_query(
        self,
        name: str,
        sql: str | None = None,
        plan: dict[str, object] | None = None,
        paused: bool | None = None,
    ) -> QueryDefinition:
        """A new window, or pause and resume; the query stays the same one."""
        with self._lock:
            known = self._query(name)
            changed = replace(
                known,
                sql=known.sql if sql is None else sql,
                stored_plan=known.stored_plan if plan is None else plan_text(plan),
                paused=known.paused if paused is None else paused,
                quarantined=None if paused is False else known.quarantined,
            )
            if changed != known:
                self._write("change_query", query_entry(changed))
            return changed

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
            found = {q: why for q, why in reasons.items() if q in known and known[q].quarantined is None}
            if found or table_id is not None:
                body = {"queries": {str(q): why for q, why in found.items()}, "unreadable": table_id}
                self._write("quarantine", body)
            return [self.state.queries_by_id[q] for q in found]

    def retarget_query(self, planned: QueryDefinition, sql: str, plan: dict[str, object]) -> bool:
        """A new window for a query; False where it is another one by now, or has another window."""
        with self._lock:
            known = self.state.queries.get(planned.name)
            if _what(known) != _what(planned):
                return False
            self.change_query(planned.name, sql=sql, plan=plan)
            return True

    def describe_query(self, name: str, **facts: str | None) -> QueryDefinition:
        """Another owner, description or strategy; what it answers stays the same."""
        with self._lock:
            known = self._query(name)
            changed = replace(
                known,
                owner=facts.get("owner", known.owner),
                description=facts.get("description", known.description),
                strategy=facts.get("strategy", known.strategy),
            )
            if changed != known:
                body = {n: getattr(changed, n) for n in ("name", "owner", "description", "strategy")}
                self._write("describe_query", body)
            return changed


def _what(found: object) -> object:
    """What a plan depends on of something that goes by a name."""
    if isinstance(found, Table):
        return found.id
    return (found.id, found.sql) if isinstance(found, QueryDefinition) else found
