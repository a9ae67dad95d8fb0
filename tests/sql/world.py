"""A small catalog in memory that statements can be run against, as far as SQL alone goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.catalog.model import Function, QueryDefinition, StreamType, Table, plan_text
from penstock.expr.expression import Expr
from penstock.sql import statements as st
from penstock.sql.definitions import (
    bind_add_column,
    bind_create_function,
    bind_create_stream_type,
    bind_create_table,
)
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.plan import JoinPlan, Plan, SelectPlan, SparkPlan, plan_to_json
from penstock.sql.planning.planner import invocation_of, plan_query, reads_of
from penstock.sql.rollups import bind_create_rollup
from penstock.sql.row_changes import bind_delete, bind_insert, bind_update
from penstock.types import Field, parse_type
from tests.sql.stages import tree

SYSTEM = {
    "penstock.cycles": (Field("cycle", parse_type("BIGINT")), Field("ms", parse_type("DOUBLE"))),
    "penstock.sensors": (Field("table_name", parse_type("TEXT")), Field("readings", parse_type("BIGINT"))),
}

PLANT = """
CREATE STREAM TYPE gas_probe AS (gas_id INT, gas_name TEXT, ppm DOUBLE) USING mqtt OPTIONS (url 'mqtt://localhost');
CREATE TABLE sensors (
  sensor_id INT PRIMARY KEY, location TEXT, lat DOUBLE, lon DOUBLE, reading STREAM gas_probe
) WITH (time = 'valid');
CREATE TABLE loops (loop_id INT PRIMARY KEY, segment INT, reading STREAM (speed DOUBLE, length INT, ppm DOUBLE));
CREATE TABLE odd (
  id BIGINT PRIMARY KEY, name TEXT, seen TIMESTAMP,
  r STREAM (name TEXT, amount DECIMAL(10, 2), ok BOOLEAN, big BIGINT, tags ARRAY<TEXT>, at STRUCT<x: DOUBLE, y: DOUBLE>)
);
CREATE TABLE my_segments (segment INT PRIMARY KEY, owner TEXT);
CREATE TABLE pulse (beat STREAM (volt DOUBLE));
CREATE FUNCTION similar(a DOUBLE, b DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ return abs(a - b) < 1 $$;
"""


@dataclass
class World:
    tables: dict[str, Table] = field(default_factory=dict)
    tables_by_id: dict[int, Table] = field(default_factory=dict)
    stream_types: dict[str, StreamType] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    queries: dict[str, QueryDefinition] = field(default_factory=dict)

    def run(self, sql: str) -> str:
        """What each statement comes to, as text."""
        return "\n".join(self.one(statement) for statement in parse_script(sql))

    def plan(self, sql: str, standing: bool = False, shared: bool = True) -> Plan:
        (statement,) = parse_script(sql)
        assert isinstance(statement, st.Select)
        return plan_query(statement, self, standing, SYSTEM, shared)

    def select(self, sql: str, standing: bool = False) -> SelectPlan:
        plan = self.plan(sql, standing)
        assert isinstance(plan, SelectPlan), explain(plan, self)
        return plan

    def join(self, sql: str) -> JoinPlan:
        (statement,) = parse_script(sql)
        assert isinstance(statement, st.Select)
        plan = plan_query(statement, self, True, SYSTEM, joins=True)
        assert isinstance(plan, JoinPlan), explain(plan, self)
        return plan

    def spark(self, sql: str, standing: bool = False) -> SparkPlan:
        plan = self.plan(sql, standing)
        assert isinstance(plan, SparkPlan)
        return plan

    def one(self, statement: st.Statement) -> str:
        match statement:
            case st.Select():
                name = invocation_of(statement, self)
                if name is not None:
                    return f'invoke query "{name}"'
                return explain(plan_query(statement, self, False, SYSTEM), self)
            case st.CreateQuery():
                plan = plan_query(statement.select, self, True, SYSTEM)
                reads = reads_of(plan, self)
                self.queries[statement.name] = QueryDefinition(
                    len(self.queries) + 1,
                    statement.name,
                    statement.select.sql,
                    plan_text(plan_to_json(plan)),
                    *reads,
                    start_us=0,
                )
                return explain(plan, self)
            case st.CreateStreamType():
                self.stream_types[statement.name] = bind_create_stream_type(statement)
            case st.CreateTable():
                return self._create_table(statement)
            case st.CreateFunction():
                self.functions[statement.name] = bind_create_function(statement)
            case st.CreateRollup():
                rollup, keeps = bind_create_rollup(statement, self)
                return "\n".join([*(f"{tier}" for tier in rollup.tiers), explain(keeps, self)])
            case st.AddColumn():
                return self._add_column(statement)
            case st.Insert():
                return "\n".join(str(row) for row in bind_insert(statement, self))
            case st.Update():
                assignments, where = bind_update(statement, self)
                lines = [f"set {name} = {show(value)}" for name, value in assignments.items()]
                return "\n".join([*lines, _where(where)])
            case st.Delete():
                return _where(bind_delete(statement, self))
        return tree(statement)

    def _create_table(self, statement: st.CreateTable) -> str:
        table = replace(bind_create_table(statement, self), id=len(self.tables) + 1)
        self.tables[table.name] = self.tables_by_id[table.id] = table
        return f"flat columns: {', '.join(f'{c.name} {c.type}' for c in table.flat_columns())}\n{table.options}"

    def _add_column(self, statement: st.AddColumn) -> str:
        table, column, to_stream = bind_add_column(statement, self)
        if to_stream and table.stream is not None:
            grown = replace(table, stream=replace(table.stream, fields=(*table.stream.fields, column)))
        else:
            grown = replace(table, columns=(*table.columns, column))
        self.tables[table.name] = self.tables_by_id[table.id] = grown
        return f"flat columns: {', '.join(f'{c.name} {c.type}' for c in grown.flat_columns())}"


def _where(where: Expr | None) -> str:
    return "where: " + (show(where) if where is not None else "every row")


def plant() -> World:
    """The tables that most tests ask about."""
    world = World()
    world.run(PLANT)
    return world
