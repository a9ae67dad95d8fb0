"""Statements at work: each kind of statement is one small method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock.catalog.catalog import NewQuery
from penstock.errors import PenstockError, error, suggest
from penstock.operators.evaluate import evaluate, evaluate_mask
from penstock.operators.functions import check_function
from penstock.queries.join_budget import check_join_fits
from penstock.queries.join_readers import check_readers
from penstock.queries.moments import all_streams, now_of_plan
from penstock.queries.results import Result
from penstock.queries.system_columns import SHOWN, SYSTEM_TABLES
from penstock.sensors.registry import validate_connector
from penstock.settings import SETTINGS
from penstock.sql import statements as st
from penstock.sql.changes import bind_delete, bind_insert, bind_update
from penstock.sql.definitions import bind_add_column, bind_create_function, bind_create_stream_type, bind_create_table
from penstock.sql.explain import explain
from penstock.sql.parse import parse_script, parse_select
from penstock.sql.plan import JoinPlan, Plan, SparkPlan, join_of, plan_from_json, plan_to_json
from penstock.sql.planner import invocation_of, plan_query, reads_of
from penstock.sql.retarget import retarget_window

if TYPE_CHECKING:
    from penstock.queries.database import Database

Params = Sequence[Any] | Mapping[str, Any] | None


class Executor:
    """Runs statements against one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def execute(self, sql: str, params: Params = None) -> Result:
        """Run one or more statements; the last one's result."""
        result = done("OK")
        for statement in parse_script(sql, params):
            try:
                result = self.run(statement)
            except PenstockError as failure:
                if failure.sql is None:
                    statement.point(failure)
                raise
        return result

    def run(self, statement: st.Statement) -> Result:
        match statement:
            case st.Select():
                return self._select(statement)
            case st.CreateStreamType():
                return self._create_stream_type(statement)
            case st.CreateTable():
                return self._create_table(statement)
            case st.CreateFunction():
                return self._create_function(statement)
            case st.CreateQuery():
                return self._create_query(statement)
            case st.AddColumn():
                return self._add_column(statement)
            case st.Drop():
                return self._drop(statement)
            case st.Insert():
                return self._insert(statement)
            case st.Update():
                return self._update(statement)
            case st.Delete():
                return self._delete(statement)
            case st.AlterQuery():
                return self._alter_query(statement)
            case st.PauseQuery():
                self._db.catalog.change_query(statement.name, paused=True)
                return done("ALTER QUERY")
            case st.ResumeQuery():
                self._db.catalog.change_query(statement.name, paused=False)
                return done("ALTER QUERY")
            case st.Subscribe():
                return self._subscribe(statement)
            case st.Show():
                return self._show(statement)
            case st.Describe():
                return self._describe(statement)
            case st.Explain():
                return self._explain(statement)
            case st.Transaction():
                return done(statement.kind)
            case _:
                raise error("not_supported", feature=type(statement).__name__)

    # -- definitions

    def _create_stream_type(self, statement: st.CreateStreamType) -> Result:
        found = bind_create_stream_type(statement, self._db.catalog.state)
        if found.connector is not None:
            validate_connector(found.connector, found.options, found.fields)
        self._db.catalog.create_stream_type(found, statement.if_not_exists)
        return done("CREATE STREAM TYPE")

    def _create_table(self, statement: st.CreateTable) -> Result:
        name, columns, key, stream, options = bind_create_table(statement, self._db.catalog.state)
        self._db.catalog.create_table(name, columns, key, stream, options, statement.if_not_exists)
        return done("CREATE TABLE")

    def _create_function(self, statement: st.CreateFunction) -> Result:
        function = bind_create_function(statement, self._db.catalog.state)
        check_function(function)
        if statement.if_not_exists and statement.name in self._db.catalog.state.functions:
            return done("CREATE FUNCTION")
        if statement.or_replace and statement.name in self._db.catalog.state.functions:
            # Refused while a query uses it: its earlier answers would mean something else.
            self._db.catalog.drop("function", statement.name)
        self._db.catalog.create_function(function)
        return done("CREATE FUNCTION")

    def _add_column(self, statement: st.AddColumn) -> Result:
        table, column, to_stream = bind_add_column(statement, self._db.catalog.state)
        self._db.catalog.add_column(table.name, column, to_stream)
        return done("ALTER TABLE")

    def _drop(self, statement: st.Drop) -> Result:
        dropped = self._db.catalog.drop(statement.kind, statement.name, statement.cascade, statement.if_exists)
        also = [d for d in dropped if not d.endswith(f'"{statement.name}"')]
        notices = (f"also dropped: {', '.join(also)}",) if also else ()
        return done(f"DROP {statement.kind.replace('_', ' ').upper()}", notices)

    # -- static rows

    def _insert(self, statement: st.Insert) -> Result:
        bound = bind_insert(statement, self._db.catalog.state)
        count = self._db.catalog.insert_rows(bound.table, bound.rows)
        return done(f"INSERT 0 {count}")

    def _update(self, statement: st.Update) -> Result:
        bound = bind_update(statement, self._db.catalog.state)
        table = self._db.catalog_table(bound.table)
        rows = self._db.catalog.state.rows(table.id)
        current = rows.current()
        chosen = current.filter(pa.array(evaluate_mask(bound.where, current, current.num_rows)))
        assigned = {name: evaluate(e, chosen, chosen.num_rows) for name, e in bound.assignments.items()}
        names = [c.name for c in table.columns]
        if table.stream is not None:
            names.append("_address")
            if table.stream.name in assigned:
                assigned["_address"] = assigned.pop(table.stream.name)
        columns = [plain_values(assigned.get(n, chosen.column(n))) for n in names]
        sids = chosen.column("_sid").to_pylist()
        changes = {sid: [c[i] for c in columns] for i, sid in enumerate(sids)}
        return done(f"UPDATE {self._db.catalog.update_rows(bound.table, changes)}")

    def _delete(self, statement: st.Delete) -> Result:
        bound = bind_delete(statement, self._db.catalog.state)
        table = self._db.catalog_table(bound.table)
        current = self._db.catalog.state.rows(table.id).current()
        chosen = current.filter(pa.array(evaluate_mask(bound.where, current, current.num_rows)))
        return done(f"DELETE {self._db.catalog.delete_rows(bound.table, chosen.column('_sid').to_pylist())}")

    # -- questions

    def _plan(self, select: st.Select, standing: bool) -> Plan:
        return plan_query(select, self._db.catalog.state, standing, SYSTEM_TABLES, shared=standing, joins=True)

    def _select(self, statement: st.Select) -> Result:
        name = invocation_of(statement, self._db.catalog.state)
        if name is not None:
            # Whoever types this expects what was acknowledged before; GET /v1/queries/NAME/rows does not wait.
            self._db.wait_for_own_writes()
            return self._db.invoke(name)
        plan = self._plan(statement, standing=False)
        self._db.wait_for_own_writes()
        assert isinstance(plan, SparkPlan)
        found = self._db.spark_queries.run(plan, None)
        notices = self._unobserved(plan, found.table)
        result = Result(found.table, cycle=found.cycle, now_us=found.now_us, notices=notices)
        return self._db.completeness.say(result, plan, None, self._db.catalog.state)

    def _unobserved(self, plan: SparkPlan, table: pa.Table) -> tuple[str, ...]:
        """A hint when an empty answer only means that nobody has looked yet."""
        if table.num_rows:
            return ()
        heads, state = self._db.log.heads(), self._db.catalog.state
        silent = [r.table for r in plan.relations if r.kind == "stream" and not heads.get(state.tables[r.table].id)]
        return tuple(
            f'nothing has been observed of "{name}" yet: a one-shot SELECT opens no sensor; CREATE QUERY does'
            for name in silent
        )

    def _create_query(self, statement: st.CreateQuery) -> Result:
        if statement.if_not_exists and statement.name in self._db.catalog.state.queries:
            return done("CREATE QUERY")
        self._db.catalog.create_queries([self._new_query(statement.name, statement.select)])
        return done("CREATE QUERY")

    def _new_query(self, name: str, select: st.Select) -> NewQuery:
        state = self._db.catalog.state
        if name in state.queries:
            raise error("already_exists", kind="query", name=name)
        plan = self._plan(select, standing=True)
        tables, queries, functions = reads_of(plan, state)
        if isinstance(plan, SparkPlan):
            self._db.wait_for_own_writes()
            self._db.spark_queries.admit(plan)
        join = join_of(plan)
        if join is not None:
            check_join_fits(join, self._db.folder.log, self._db.settings)
        return NewQuery(name, select.sql, plan_to_json(plan), tables, queries, functions, self.start_of(plan))

    def start_of(self, plan: Plan) -> int | None:
        """START: the query's NOW at this moment. A transaction-time stream's is the wall clock."""
        state = self._db.catalog.state
        with self._db.standing.locked() as store:
            streams = [table for table, _ in all_streams(plan, state)]
            if all(t.options.time == "transaction" for t in streams):
                offset = store.offset
                return max(self._db.clock.now_us(), offset.now_us if offset is not None else 0)
            try:
                return now_of_plan(plan, store)
            except KeyError:  # the table is newer than the last committed cycle: nothing is known of its time
                return None

    def register(self, queries: list[tuple[str, str]], on_error: Literal["none", "rest"]) -> list[dict[str, Any]]:
        made: list[NewQuery] = []
        out: list[dict[str, Any]] = []
        for name, sql in queries:
            try:
                if any(name == q.name for q in made):
                    raise error("already_exists", kind="query", name=name)
                made.append(self._new_query(name, parse_select(sql)))
                out.append({"name": name, "error": None})
            except PenstockError as failure:
                if on_error == "none":
                    raise
                out.append({"name": name, "error": failure.body()["error"]})
        self._db.catalog.create_queries(made)
        return out

    def _alter_query(self, statement: st.AlterQuery) -> Result:
        definition = self._db.definition(statement.name)
        text = retarget_window(definition.sql, statement)
        plan = self._plan(parse_select(text), standing=True)
        if isinstance(plan_from_json(definition.plan), JoinPlan):
            check_readers(statement.name, plan, self._db.catalog.state)
        self._db.catalog.change_query(statement.name, sql=text, plan=plan_to_json(plan))
        return done("ALTER QUERY")

    def _subscribe(self, statement: st.Subscribe) -> Result:
        self._db.definition(statement.name)
        raise error(
            "not_supported",
            feature="SUBSCRIBE in a single request",
            hint=f"use `penstock sql`, the client's subscribe, or GET /v1/queries/{statement.name}/events",
        )

    # -- looking around

    def _show(self, statement: st.Show) -> Result:
        what = statement.what.lower()
        state = self._db.catalog.state
        if what == "tables":
            return rows_of(
                [
                    {"name": t["name"], "key": ", ".join(t["key"]), "stream": (t["stream"] or {}).get("name")}
                    for t in self._db.tables()
                ],
                ("name", "key", "stream"),
            )
        if what in SHOWN:
            found = self._db.system.table(f"penstock.{what}").select(SHOWN[what])
            if statement.table is not None:
                if "table_name" not in found.column_names:
                    raise error("not_supported", feature=f"SHOW {statement.what.upper()} of one table")
                self._db.catalog_table(statement.table)
                found = found.filter(pa.compute.equal(found.column("table_name"), statement.table))
            return Result(found)
        if what == "stream types":
            rows = [
                {"name": s.name, "connector": s.connector, "fields": ", ".join(f"{f.name} {f.type}" for f in s.fields)}
                for s in state.stream_types.values()
            ]
            return rows_of(rows, ("name", "connector", "fields"))
        if what == "functions":
            rows = [
                {
                    "name": f.name,
                    "parameters": ", ".join(f"{p.name} {p.type}" for p in f.parameters),
                    "returns": str(f.returns),
                }
                for f in state.functions.values()
            ]
            return rows_of(rows, ("name", "parameters", "returns"))
        if what == "settings":
            hidden = {"token"}
            rows = [
                {
                    "name": s.name,
                    "value": "***" if s.name in hidden else str(getattr(self._db.settings, s.name)),
                    "meaning": s.sentence,
                }
                for s in SETTINGS
            ]
            return rows_of(rows, ("name", "value", "meaning"))
        raise error("not_supported", feature=f"SHOW {statement.what}")

    def _describe(self, statement: st.Describe) -> Result:
        state = self._db.catalog.state
        table, query = state.tables.get(statement.name), state.queries.get(statement.name)
        if table is not None:
            rows = [
                {
                    "column": c.name,
                    "type": str(c.type),
                    "kind": "key" if c.name in table.key else c.origin,
                }
                for c in table.flat_columns()
            ]
            return rows_of(rows, ("column", "type", "kind"))
        if query is not None:
            plan = plan_from_json(query.plan)
            outputs = list(plan.outputs) if isinstance(plan, SparkPlan) else [(o.name, o.type) for o in plan.outputs]
            return rows_of(
                [{"column": n, "type": str(t), "kind": "output"} for n, t in outputs], ("column", "type", "kind")
            )
        if statement.name in SYSTEM_TABLES:
            fields = SYSTEM_TABLES[statement.name]
            rows = [{"column": f.name, "type": str(f.type), "kind": "system"} for f in fields]
            return rows_of(rows, ("column", "type", "kind"))
        raise error(
            "table_not_found", table=statement.name, hint=suggest(statement.name, [*state.tables, *state.queries])
        )

    def _explain(self, statement: st.Explain) -> Result:
        state = self._db.catalog.state
        lines: list[str] = []
        if isinstance(statement.target, str):
            definition = self._db.definition(statement.target)
            plan = plan_from_json(definition.plan)
            if statement.analyze:
                lines = self._measured(definition.name)
        else:
            plan = self._plan(statement.target, standing=False)
            if statement.analyze:
                self._db.wait_for_own_writes()
                assert isinstance(plan, SparkPlan)
                found = self._db.spark_queries.run(plan, None)
                lines = [
                    f"rows: {found.table.num_rows}",
                    f"took: {found.seconds * 1000:.0f} ms",
                    f"cycle: {found.cycle}",
                ]
        text = explain(plan, state)
        ran = self._ran(statement.target) if isinstance(statement.target, str) else []
        return rows_of([{"plan": line} for line in [*text.splitlines(), *ran, *lines]], ("plan",))

    def _ran(self, name: str) -> list[str]:
        """What the last step of a join did: which algorithm, why, and what it cost."""
        with self._db.standing.locked() as store:
            definition = store.state.queries.get(name)
            answer = store.answers.get(definition.id) if definition is not None else None
            if answer is None or answer.told is None:
                return []
            cycle, parts = answer.told
        first = parts[min(parts)]
        total = {
            n: sum(p[n] for p in parts.values()) for n in ("new_rows", "buffered_rows", "rows_read_back", "results")
        }
        return [
            f"  last step (cycle {cycle}): {first['algorithm']}, because {first['why']}",
            f"    took {max(p['ms'] for p in parts.values()):.1f} ms in {len(parts)} parts, expected"
            f" {first['expected_ms']:.1f} ms a part",
            f"    {total['new_rows']} new rows met {total['buffered_rows']} buffered ones"
            f" and {total['rows_read_back']} read back from the log: {total['results']} results",
        ]

    def _measured(self, name: str) -> list[str]:
        facts = self._db.query(name)
        result = self._db.invoke(name, limit=0)
        lines = [f"state: {facts['state']}", f"cycle: {result.cycle}"]
        if facts["matched"] is not None:
            lines.append(f"rows matched since registration: {facts['matched']}")
        if facts["seconds"] is not None:
            lines.append(f"last evaluation took: {facts['seconds'] * 1000:.0f} ms")
        return lines


def done(tag: str, notices: tuple[str, ...] = ()) -> Result:
    return Result(pa.table({}), done=tag, notices=notices)


def rows_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Result:
    return Result(pa.table({c: pa.array([r.get(c) for r in rows], pa.string()) for c in columns}))


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as the journal stores them: times as microseconds, decimals as text, binaries as hex."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_decimal(column.type):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_binary(column.type):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    return list(column.to_pylist())
